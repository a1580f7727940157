"""A device against the CPU: what counts as right, here with the CPU as the device."""

import json

import numpy as np
import pytest

from experiments.benchmark import correctness
from experiments.benchmark.correctness import Correctness, compared
from hardem_jax.cli.command import run_command

TINY = ["--device", "cpu", "--preset", "tiny", "--rows", "2", "--tokens", "32", "--solutions", "3"]


@pytest.mark.slow
def test_a_wrong_gradient_is_found(tmp_path, monkeypatch, capsys):
    out = tmp_path / "out.json"
    argv = [*TINY, "--tasks", "equations", "--out", str(out)]
    run_command(Correctness, prog="test", argv=argv)
    rounded, full = json.loads(out.read_text())["results"]
    assert (full["dtype"], full["gradient"], full["right"]) == ("float32", 0, True)
    assert rounded["dtype"] == "bfloat16" and 0 < rounded["gradient"] < rounded["allowed"]
    assert rounded["loss"] != rounded["expected"]
    assert "all 2 agree" in capsys.readouterr().out

    original = correctness.loss_and_gradient
    asked = []

    def wrong(setting, device):
        found = original(setting, device)
        asked.append(setting.dtype)
        if len(asked) == 4:  # after the CPU in both dtypes, and bfloat16
            found["gradient"] = {n: -x for n, x in found["gradient"].items()}
        return found

    monkeypatch.setattr(correctness, "loss_and_gradient", wrong)
    with pytest.raises(SystemExit) as stop:
        run_command(Correctness, prog="test", argv=argv)
    assert stop.value.code == 1
    assert "1 of 2 differ: equations (float32, xla)" in capsys.readouterr().out
    assert json.loads(out.read_text())["results"][1]["gradient"] == pytest.approx(2)


def test_what_was_compared_before_a_kill_is_kept(tmp_path, monkeypatch, capsys):
    def once(setting, device):
        if (setting.task, setting.dtype) == ("queries", "bfloat16"):
            raise KeyboardInterrupt  # in the middle of a compilation that takes minutes
        return {"loss": 1.0, "gradient": {"a": np.ones(1)}, "kernels": "none"}

    monkeypatch.setattr(correctness, "loss_and_gradient", once)
    out = tmp_path / "out.json"
    argv = [*TINY, "--tasks", "equations", "queries", "--out", str(out)]
    with pytest.raises(SystemExit):
        run_command(Correctness, prog="test", argv=argv)
    said = capsys.readouterr().out
    results = json.loads(out.read_text())["results"]
    assert [(r["task"], r["dtype"]) for r in results] == [
        ("equations", "bfloat16"),
        ("equations", "float32"),
    ]
    assert "equations, float32, xla: relative error 0.0000000, 0.0010 allowed" in said
    argv[-2:] = ["--dtypes", "bfloat16", "--tasks", "programs", "--out", str(out)]
    run_command(Correctness, prog="test", argv=argv)
    assert [r["dtype"] for r in json.loads(out.read_text())["results"]] == ["bfloat16"]


def test_the_error_is_that_of_the_whole_gradient():
    reference = {"loss": 1.0, "gradient": {"a": np.array([3.0, 4.0]), "b": np.array([1e-9])}}
    found = {"loss": 1.5, "kernels": "none"}
    # An array that is next to nothing may be wrong by as much as itself.
    found["gradient"] = {"a": np.array([3.0, 4.0]), "b": np.array([2e-9])}
    assert compared(found, reference)["gradient"] < 1e-9
    found["gradient"]["a"] = np.array([0.0, 4.0])
    assert compared(found, reference)["gradient"] == pytest.approx(3 / 5)
