"""The inspector's command and its file, for its tests."""

import json
import re

import pytest

from experiments.inspect.__main__ import Inspect
from experiments.inspect.sources import open_source
from hardem_jax.cli.command import run_command
from tests.commands import said


def inspect(*arguments):
    run_command(Inspect, prog="test", argv=[str(argument) for argument in arguments])


def opened(folder, count=10):
    return open_source(folder, data=None, split=None, count=count, scratch=folder)


def refused(capsys, *arguments):
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        inspect(*arguments)
    assert stop.value.code == 2
    return said(capsys)


def block(html, id):
    """The JSON of a block of the file."""
    found = re.search(rf'<script type="application/json" id="{id}">(.*?)</script>', html)
    assert found
    return json.loads(found[1])


def written(source, tmp_path, *flags):
    inspect(source, "--out", tmp_path / "z.html", *flags)
    return (tmp_path / "z.html").read_text(encoding="utf-8")
