"""The report of a command: its files, what is printed, and names it cannot have."""

import json
from pathlib import Path

import pytest

from experiments.report import Report, table
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
