"""Which kernel computes attention on TPUs, read off programs compiled for them without one."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_kernel_asked_for_computes_on_every_chip_and_holds_no_scores():
    if importlib.util.find_spec("libtpu") is None:
        pytest.skip("compiling for TPUs needs libtpu (pip install 'jax[tpu]')")
    worker = Path(__file__).with_name("tpu_attention_worker.py")
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, worker, "xla", "splash"],
        env=os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["xla"]["kernels"] == {}
    # One for the outputs, one for all gradients.
    assert found["splash"]["kernels"] == {"tpu_custom_call": 2}
    assert not any(program["gathers"] for program in found.values())
    assert found["splash"]["memory"] < 0.8 * found["xla"]["memory"]
