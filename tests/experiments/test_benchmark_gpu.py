"""The script that measures a GPU runs to its end at a tiny size, and ends when its time is over."""

import json

import pytest

from tests.processes import ROOT, python


def measure(out, *flags, code=0, **environment):
    command = (ROOT / ".ci" / "gpu.py", out, "--device", "cpu", "--preset", "tiny")
    python(*command, "--rounds", 2, "--steps", 1, *flags, code=code, **environment)
    return json.loads(out.read_text()) if out.exists() else {}


@pytest.mark.slow
def test_every_variant_is_measured_or_says_why_not(tmp_path):
    """A compiler that fails is an entry, not the end."""
    compiler = str(tmp_path / "no-such-compiler")
    found = measure(tmp_path / "out.json", "--seconds", 3000, CXX=compiler)
    assert {name for name, figures in found.items() if "error" in figures} == {
        "torch.compile",
        "torch.compile, CUDA graphs",
    }
    for name in ("ours", "ours, packed", "bert-large, packed"):
        assert len(found[name]["rounds"]) == 2 and found[name]["ms"] > 0
        assert (found[name]["tflops_real"] < found[name]["tflops_as_if_padded"]) == (name != "ours")
    assert found["SQLova"]["without_dropout"] == found["SQLova, LSTMs as loops"]["without_dropout"]
    kernels = found["profile"]["kernels"]
    assert any(name.startswith("dot") for name in kernels)
    assert all(ms >= 0 and runs > 0 for ms, runs in kernels.values())


@pytest.mark.slow
def test_the_time_is_a_limit(tmp_path):
    found = measure(tmp_path / "out.json", "--seconds", 1, code=1)
    assert not any("rounds" in figures for figures in found.values())
