"""The report of a command: its files, what is printed, and names it cannot have."""

import json
import re
from pathlib import Path

import pytest

from experiments.report import Report, print_whole, table
from experiments.tabulate import Tabulate
from hardem_jax.errors import InputError


def test_a_report_is_json_with_the_machine_and_tables_next_to_it(capsys, tmp_path):
    report = Report(Tabulate(runs=(tmp_path,)), tmp_path / "out.json")
    assert not list(tmp_path.iterdir())
    report.write({"results": [1]}, "a line", table("", [{"a": 2}], {"b": "a"}))
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["results"] == [1] and content["flags"]["runs"] == [str(tmp_path)]
    assert len(content["machine"]["load_average"]) == 3
    assert (tmp_path / "out.md").read_text() == "| b |\n|---|\n| 2 |\n"
    printed = capsys.readouterr().out
    assert "a line" in printed and content["machine"]["processor"][:40] in printed
    for wrong in ("out.md", "none/out.json"):
        with pytest.raises(InputError, match=Path(wrong).name):
            Report(Tabulate(runs=(tmp_path,)), tmp_path / wrong)


def test_columns_that_do_not_fit_a_terminal_follow_in_another_table(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    names = ["first", "second", "a third\nin two lines", "fourth"]
    rows = [{name: 12345678.0 for name in names} | {"task": "spans"}]
    print_whole(table("sizes", rows, {name: name for name in ["task", *names]}))
    printed = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out)
    assert all(len(line) <= 40 for line in printed.splitlines())
    assert printed.count("spans") == 2 and printed.count("12345678") == 4
    assert all(line in printed for name in names for line in name.split("\n"))
