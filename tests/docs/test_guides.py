"""The guides do what they say: their blocks run in order and print what they show."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from tests.docs.pages import blocks
from tests.processes import python

_NUMBER = r"\d+(?:\.\d+)?"


def run_python(code: str, folder: Path) -> str:
    """What a program prints; it may neither fail nor warn."""
    return python("-W", "error", "-c", code, folder=folder).stdout


def assert_prints(found: str, shown: str, *, within: float) -> None:
    """The same words, and numbers that another version of JAX or another machine may move a bit."""
    assert re.sub(_NUMBER, "0", found) == re.sub(_NUMBER, "0", shown)
    numbers = [[float(x) for x in re.findall(_NUMBER, text)] for text in (found, shown)]
    np.testing.assert_allclose(*numbers, atol=within)


@pytest.mark.slow
def test_the_losses_train_in_three_frameworks_and_on_eight_devices(tmp_path):
    if importlib.util.find_spec("equinox") is None:
        pytest.skip("Equinox is not installed (extra `docs`)")
    found = run_python("\n".join(blocks("own_project.md", "python")), tmp_path)
    assert_prints(found, "".join(blocks("own_project.md", "text")), within=10)
