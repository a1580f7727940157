"""The command ``hardem``: which tasks and commands there are, from any folder."""

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from hardem_jax.cli.main import main
from hardem_jax.registry import TASKS, task_module
from hardem_jax.version import __version__
from tests.test_registry import installed as installed  # noqa: PLC0414, a fixture

ROOT = Path(__file__).resolve().parents[2]


def test_the_wheel_has_the_command(monkeypatch, capsys):
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    monkeypatch.setattr("sys.argv", ["hardem", "--version"])
    EntryPoint("hardem", scripts["hardem"], "console_scripts").load()()
    assert capsys.readouterr().out == f"hardem_jax {__version__}\n"


def test_help_names_every_task_and_every_command_in_a_line(installed, capsys):
    main([])
    told = capsys.readouterr().out
    for task in (*TASKS, "sentences"):
        [line] = [line for line in told.splitlines() if line.startswith(f"  {task} ")]
        assert len(line.split()) > 5 or task not in TASKS
        with pytest.raises(SystemExit, match="0"):
            main([task, "--help"])
        own = capsys.readouterr().out
        for name in task_module(task, "commands").COMMANDS:
            assert f"\n  {name} " in own
    main(["--version"])
    assert capsys.readouterr().out == f"hardem_jax {__version__}\n"


@pytest.mark.parametrize("task", TASKS)
def test_flags_of_a_file_are_in_the_help_of_what_takes_them(task, capsys):
    for name in ("train", "compare", "evaluate"):
        with pytest.raises(SystemExit, match="0"):
            main([task, name, "--help"])
        assert ("--config FILE" in capsys.readouterr().out) == (name != "evaluate")


def test_a_task_that_there_is_not_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["querries", "train"])
    said = capsys.readouterr().err
    assert said.startswith("error: hardem: expected one of spans, ")
    assert said.endswith("found 'querries' (perhaps you meant queries)\n")
