"""The parts of the report: their order, the minutes, and going on with what is left."""

import functools
import json
from types import SimpleNamespace

import pytest

from experiments.benchmark import everything
from experiments.benchmark.train_step import TrainStep
from hardem_jax.errors import InputError
from tests import commands

COMMAND = SimpleNamespace(COMMANDS=everything.Everything)
call, fails = (functools.partial(f, COMMAND) for f in (commands.call, commands.fails))
CPU = {"device": "cpu", "kind": "cpu", "peak_flops_per_s": None}


class Measured:
    """In place of `TrainStep.measure`: takes a minute of a clock that the test owns."""

    def __init__(self, monkeypatch):
        self.seconds, self.device, self.steps = 0.0, CPU, []
        monkeypatch.setattr(everything.time, "monotonic", lambda: self.seconds)
        monkeypatch.setattr(TrainStep, "measure", lambda step: self(step))

    def __call__(self, step):
        self.seconds += 60
        self.steps.append(step)
        if step.attention == "xla":
            raise InputError("nothing could be measured: out of memory")
        found = {"examples_per_s": 12.5, "wall_s": {"low": 1.0, "median": 2.0, "high": 3.0}}
        variants = dict.fromkeys(step.variants, found)
        return [{"tokens": step.tokens[0], "num_devices": 1, "variants": variants}], self.device


@pytest.fixture
def measured(monkeypatch):
    return Measured(monkeypatch)


def test_the_most_important_comes_first_and_the_same_command_goes_on(tmp_path, capsys, measured):
    out = tmp_path / "report.json"
    parts = list(everything.PARTS)
    call("--out", out, "--minutes", 4)
    assert set(json.loads(out.read_text())["parts"]) == set(parts[:4])
    assert f"{parts[4]}: left for the next 4 minutes" in capsys.readouterr().out
    assert all(step.preset == "bert-base" and step.tokens == (300,) for step in measured.steps)

    call("--out", out, "--minutes", 60)
    content = json.loads(out.read_text())
    assert set(content["parts"]) == set(parts) and len(measured.steps) == len(parts)
    assert measured.steps[parts.index("bert-large")].preset == "bert-large"
    assert content["parts"]["attention by XLA"]["error"].endswith("out of memory")
    header, _, *rows = out.with_suffix(".md").read_text().splitlines()
    assert header.startswith("| part | T | devices | variant | examples/s |")
    assert any(row.startswith("| reader | 300 | 1 | ours | 12.5 |") for row in rows)
    assert any(row.startswith("| attention by XLA |  |  | nothing could be") for row in rows)

    # Other flags are another measurement; one that failed for good is not tried for ever.
    call("--out", out, "--rows", 8, "--parts", "heads", "attention by XLA")
    assert [step.rows for step in measured.steps[len(parts) :]] == [8, 8]


def test_figures_of_two_machines_are_not_mixed(tmp_path, capsys, measured):
    out = tmp_path / "report.json"
    flags = ("--out", out, "--parts", "heads")
    call(*flags)
    measured.device = CPU | {"device": "gpu", "kind": "NVIDIA H200"}
    line = fails(capsys, *flags, "float32")
    assert line.endswith("out: measured on another device (cpu)")
    content = json.loads(out.read_text())
    out.write_text(json.dumps(content | {"machine": {"processor": "another"}}))
    line = fails(capsys, *flags, "float32")
    assert line.endswith("report.json: measured on another machine (another)")
    out.write_text("[]")
    assert "expected a file of this command" in fails(capsys, *flags)


def test_what_is_no_part_is_one_line(tmp_path, capsys):
    line = fails(capsys, "--out", tmp_path / "x.json", "--parts", "tail")
    assert "parts: expected some of reader, heads," in line and "'tail'" in line
