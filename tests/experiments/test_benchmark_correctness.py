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
    first, second = json.loads(out.read_text())["results"]
    assert (first["dtype"], first["gradient"], first["right"]) == ("float32", 0, True)
    assert second["dtype"] == "bfloat16" and 0 < second["gradient"] < second["allowed"]
    assert second["loss"] != second["expected"]
    assert "all 2 agree" in capsys.readouterr().out

    original = correctness.loss_and_gradient
    asked = []

    def wrong(setting, device):
        found = original(setting, device)
        asked.append(setting.dtype)
        if len(asked) == 3:  # after the CPU in both dtypes
            found["gradient"] = {n: -x for n, x in found["gradient"].items()}
        return found

    monkeypatch.setattr(correctness, "loss_and_gradient", wrong)
    with pytest.raises(SystemExit) as stop:
        run_command(Correctness, prog="test", argv=argv)
    assert stop.value.code == 1
    assert "1 of 2 differ: equations (float32, xla)" in capsys.readouterr().out
    assert json.loads(out.read_text())["results"][0]["gradient"] == pytest.approx(2)


def test_the_error_is_that_of_the_whole_gradient_and_of_its_worst_array():
    reference = {"loss": 1.0, "gradient": {"a": np.array([3.0, 4.0]), "b": np.array([1e-9])}}
    found = {"loss": 1.5, "kernels": "none"}
    found["gradient"] = {"a": np.array([3.0, 4.0]), "b": np.array([2e-9])}
    result = compared(found, reference)
    # An array that is next to nothing may be wrong by as much as itself.
    assert result["gradient"] < 1e-9 and (result["array"], result["worst"]) == ("a", 0)
    found["gradient"]["a"] = np.array([0.0, 4.0])
    assert compared(found, reference)["gradient"] == pytest.approx(3 / 5)
