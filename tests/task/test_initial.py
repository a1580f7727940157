"""A run that starts from the parameters of an earlier one."""

import json
import shutil
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax.checksums import write_checksums
from hardem_jax.data.files import write_json
from hardem_jax.errors import InputError
from hardem_jax.task import initial
from hardem_jax.task.initial import params_of
from hardem_jax.training.checkpoints import RunCheckpoints
from hardem_jax.training.mesh import data_mesh

TASK: Any = SimpleNamespace(NAME="toy")
ENTRIES = {"encoder": {"num_attention_heads": 2, "hidden_dropout": 0.1}}


def model_of(values, *, words="a b", entries=ENTRIES) -> Any:
    """As much of a `Model` as parameters are loaded for."""

    def save(folder):
        (folder / "words.txt").write_text(words)
        return entries

    return SimpleNamespace(params={"w": jnp.asarray(values, jnp.float32)}, save=save)


def save_best(folder, params, step=5):
    with RunCheckpoints(folder, {}) as checkpoints:
        checkpoints.save_best(params, step, {})


@pytest.fixture
def run(tmp_path):
    """A run whose best parameters are 1 and 2, beside a reward that only training read."""
    folder = tmp_path / "run"
    folder.mkdir()
    content = {"task": "toy", "model": model_of([0]).save(folder), "version": "0"}
    write_json(folder / "config.json", content)
    write_checksums(folder)
    save_best(folder, {"w": jnp.array([1.0, 2.0]), "learned_reward": {"weights": jnp.ones(3)}})
    return folder


def start_from(folder, model):
    return params_of(folder, TASK, model, data_mesh(1))


def test_the_best_parameters_are_those_of_the_run_wherever_it_lies(run, tmp_path):
    model = model_of([8, 9])
    params, content = start_from(run, model)
    assert [*params] == ["w"]
    np.testing.assert_array_equal(params["w"], [1, 2])
    np.testing.assert_array_equal(model.params["w"], [8, 9])
    shutil.copytree(run, tmp_path / "moved")
    assert start_from(tmp_path / "moved", model)[1] == content
    save_best(run, {"w": jnp.array([1.0, 3.0])}, step=6)
    params, later = start_from(run, model)
    np.testing.assert_array_equal(params["w"], [1, 3])
    assert later != content


def test_another_vocabulary_of_as_many_words_is_refused(run):
    with pytest.raises(InputError, match=r"words\.txt: expected the vocabulary of the new model"):
        start_from(run, model_of([8, 9], words="b a"))


def test_an_encoder_that_computes_otherwise_is_refused_and_other_dropout_is_not(run):
    heads = {"encoder": {"num_attention_heads": 1, "hidden_dropout": 0.1}}
    expected = r"config\.json .*model\.encoder\.num_attention_heads: expected 1, .* found 2"
    with pytest.raises(InputError, match=expected):
        start_from(run, model_of([8, 9], entries=heads))
    dropout = {
        "encoder": {"num_attention_heads": 2, "hidden_dropout": 0.0, "of a later version": 1}
    }
    np.testing.assert_array_equal(
        start_from(run, model_of([8, 9], entries=dropout))[0]["w"], [1, 2]
    )


def test_other_shapes_are_named(run):
    with pytest.raises(InputError, match=r"params\.w \(stored: float32\[2\], expected: float32"):
        start_from(run, model_of([7, 8, 9]))


def test_a_run_without_a_checkpoint_is_refused(run):
    shutil.rmtree(run / "best")
    with pytest.raises(InputError, match="best: expected a folder with a checkpoint, found none"):
        start_from(run, model_of([8, 9]))


def test_parameters_that_change_while_they_are_read_are_refused(run, monkeypatch):
    load = initial.load_params

    def and_save_others(folder, like, **options):
        params = load(folder, like, **options)
        save_best(run, {"w": jnp.array([1.0, 3.0])}, step=6)
        return params

    monkeypatch.setattr(initial, "load_params", and_save_others)
    with pytest.raises(InputError, match="still training; try again"):
        start_from(run, model_of([8, 9]))


def test_seeds_of_one_run_are_told_from_runs_with_other_settings(run):
    def identity(**settings):
        content = json.loads((run / "config.json").read_text())
        write_json(run / "config.json", content | {"settings": settings})
        write_checksums(run)
        return start_from(run, model_of([8, 9]))[1]

    first = identity(**{"loop.seed": "0", "rate": "1.0", "encoder": '"/models/bert"'})
    assert first == identity(**{"loop.seed": "1", "rate": "1", "encoder": '"/of/ada/bert"'})
    other = identity(**{"loop.seed": "0", "rate": "2", "encoder": '"/models/bert"'})
    assert first["run"] != other["run"] and first["content"] == other["content"]
