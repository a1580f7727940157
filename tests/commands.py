"""Commands of the experiment modules, called as from a command line."""

import json
import re

import pytest

from hardem_jax.cli.command import exit_with_one_line, parse, run_command


def call(module, *arguments):
    """Runs a command of a module with ``COMMANDS``, or a class that is the only command."""
    commands = getattr(module, "COMMANDS", module)
    run_command(commands, prog="test", argv=[str(argument) for argument in arguments])


def fails(module, capsys, *arguments):
    """Runs a command that must end with exit code 2; returns what it says, on one line."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        call(module, *arguments)
    assert stop.value.code == 2
    return said(capsys)


def said(capsys):
    """The one line of an error, or what tyro says, which refuses flags itself."""
    text = capsys.readouterr().err
    if text.startswith("error: "):
        [text] = text.splitlines()
        return text
    assert "For full helptext" in text
    return unframed(text)


def unframed(text):
    """The words of tyro's frames, which break lines anywhere, on one line."""
    return " ".join(re.sub("[╭╮╰╯│─]|-{3,}", " ", text).split())


def refused(capsys, commands, *arguments):
    """What tyro says on a command line that it refuses with exit code 2."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop, exit_with_one_line():
        parse(commands, prog="test", argv=[str(argument) for argument in arguments])
    assert stop.value.code == 2
    return said(capsys)


def output_of(module, capsys, *arguments):
    """What a command prints."""
    capsys.readouterr()
    call(module, *arguments)
    return capsys.readouterr().out


def evaluation(printed):
    """The file that an ``evaluate`` names at the end of what it printed."""
    [line] = [line for line in printed.splitlines() if line.startswith("scores: ")]
    with open(line.removeprefix("scores: "), encoding="utf-8") as file:
        return json.load(file)


def meta_of(folder):
    return json.loads((folder / "meta.json").read_text())


def logged(run_dir, kind):
    """The lines of this kind that a run has written."""
    lines = map(json.loads, (run_dir / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] == kind]


#: Small windows, which documents of a few sentences need several of.
WINDOWS = ("--windows.max-tokens", 32, "--windows.stride", 8, "--windows.max-question-tokens", 8)

#: What a terminal or a formatter of its lines would obey, and how it is shown.
OBEYED = ":cat: [red]Bo[/red] \x1b[2J\u202e"
SHOWN = ":cat: [red]Bo[/red] \\x1b[2J\\u202e"
