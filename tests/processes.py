"""Processes of Python that a test starts."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def python(*words, code=0, folder=ROOT, stdin="", **environment):
    """Runs one that finds this checkout and must end with this exit code."""
    variables = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    command = [sys.executable, *map(str, words)]
    io = {"input": stdin, "capture_output": True, "text": True}
    done = subprocess.run(command, cwd=folder, env=variables, check=False, **io)
    assert done.returncode == code, done.stderr[-4000:]
    return done


def modules_loaded_by(code: str) -> set[str]:
    """All that is in `sys.modules` of a new process after this code."""
    return set(python("-c", f"{code}\nimport sys; print(*sys.modules)").stdout.split())
