"""Configurations come back from JSON, or an error names the value that does not fit."""

import dataclasses
import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from hardem_jax import posteriors
from hardem_jax.errors import InputError, require
from hardem_jax.settings import from_json, to_json
from hardem_jax.spans.config import ReaderConfig
from hardem_jax.task.config import EncoderConfig
from hardem_jax.training.config import LoopConfig, OptimizerConfig


@dataclasses.dataclass(frozen=True)
class Soft:
    beta: float = 1.0

    def __post_init__(self):
        require(self, "beta", at_least=0)


@dataclasses.dataclass(frozen=True)
class Hard:
    tau: float | None = None
    schedule: Literal["linear", "cosine"] = "linear"


@dataclasses.dataclass(frozen=True)
class Train:
    data: tuple[Path, ...]
    objective: Soft | Hard = Soft()
    out: Path | None = None
    rates: tuple[tuple[str, float], ...] = ()
    seed: int = 0
    width: Literal[1, 2] = 1


@pytest.mark.parametrize(
    "config",
    [
        Train((Path("a"), Path("b")), Hard(3.0, "cosine"), Path("c"), (("head", 2.0),), 7),
        Train((), Soft(0.5)),
    ],
)
def test_configurations_come_back(config):
    assert from_json(Train, json.loads(json.dumps(to_json(config))), "x") == config


def test_lists_and_numbers_of_numpy_come_back():
    config = Train([Path("a")], Soft(np.float32(0.5)), rates=[["head", 2.0]], seed=np.int64(7))
    expected = Train((Path("a"),), Soft(0.5), rates=(("head", 2.0),), seed=7)
    assert from_json(Train, json.loads(json.dumps(to_json(config))), "x") == expected
    assert to_json(posteriors.hard) == "hardem_jax.posteriors.hard"  # the same in every process


def test_options_that_there_are_not_are_refused():
    for make, said in (
        (lambda: LoopConfig(6, monitor="em", mode="maximize"), r"mode: .*'max', 'min'.*'maximize'"),
        (lambda: OptimizerConfig(schedule="cosine"), "schedule: .*'linear'.*'cosine'"),
        (lambda: EncoderConfig(dtype="bf16"), "dtype: .*'bfloat16'.*'bf16'"),
        (lambda: ReaderConfig(softmax_over="all"), "softmax_over: .*'context'.*'all'"),
    ):
        with pytest.raises(InputError, match=f"^{said}$"):
            make()


def test_an_integer_is_a_number_and_a_path_a_path():
    found = from_json(Train, {"data": ["a"], "objective": {"type": "Soft", "beta": 2}}, "x")
    assert found == Train((Path("a"),), Soft(2.0))
    assert type(found.objective.beta) is float and isinstance(found.data[0], Path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "x.data: expected a value, found none"),
        ({"data": "a"}, r"x.data: expected tuple\[.*Path, ...\], found 'a'"),
        ({"data": [1]}, r"x.data\[0\]: expected Path, found 1"),
        ({"data": [], "seed": True}, "x.seed: expected int, found True"),
        ({"data": [], "seed": 1.0}, "x.seed: expected int, found 1.0"),
        ({"data": [], "seed": {"a": 1}}, "x.seed: expected int, found an object"),
        ({"data": [], "width": True}, r"x.width: expected 1 \| 2, found True"),
        ({"data": [], "out": 3}, r"x.out: expected Path \| None, found 3"),
        ({"data": [], "rates": [["a"]]}, r"x.rates\[0\]: expected tuple\[str, float\], found \['a"),
        ({"data": [], "rates": [["a", "b"]]}, r"x.rates\[0\]\[1\]: expected float, found 'b'"),
        ({"data": [], "speed": 1}, "x.speed: expected a field of Train, found one that this"),
        ({"data": [], "type": "Evaluate"}, "x: expected one of Train, found 'Evaluate'"),
        ({"data": [], "objective": {}}, "x.objective: expected one of Soft, Hard, found None"),
        ({"data": [], "objective": {"type": [1]}}, r"x.objective: expected one of .*found \[1\]"),
        ({"data": [], "objective": 3}, r"x.objective: expected Soft \| Hard, found 3"),
        (
            {"data": [], "objective": {"type": "Soft", "beta": -1}},
            "x.objective.beta: expected at least 0, found -1",
        ),
    ],
)
def test_what_does_not_fit_is_named(content, message):
    with pytest.raises(InputError, match=f"^{message}"):
        from_json(Train, content, "x")


@pytest.mark.parametrize("value", [True, False, 1, "all", None, ["linear"]])
def test_a_choice_is_one_of_its_values(value):
    with pytest.raises(InputError, match=r"x.schedule: expected 'linear' \| 'cosine', found "):
        from_json(Hard, {"schedule": value}, "x")


def test_anything_fits_any():
    assert from_json(Any, [1, "a"], "x") == [1, "a"]
