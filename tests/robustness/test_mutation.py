"""Two functions and their tests: which changes are noticed."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.robustness.mutants import Mutant, mutant, mutants
from tests.robustness.mutation import table

ROOT = Path(__file__).parents[2]
MODULE = '''
class Box:
    def larger(self, x):
        """The larger one.

        >>> Box().larger(5)
        5
        """
        return max(x, 2)


def count(x, step=1):
    while x > 0:
        x -= step
    return x
'''
TESTS = """
import boxes

def test_box():
    assert boxes.Box().larger(3) == 3

def test_count():
    assert boxes.count(1) == 0
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "boxes.py").write_text(MODULE)
    (tmp_path / "test_boxes.py").write_text(TESTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def changed(function: str, before: str, after: str) -> Mutant:
    return mutant("boxes.py", function, MODULE, MODULE.replace(before, after, 1))


def test_a_mutant_is_named_by_its_line_and_diff():
    one = changed("Box.larger", "max(x, 2)", "min(x, 2)")
    assert one.line == 9
    assert one.diff.splitlines()[1:3] == ["-        return max(x, 2)", "+        return min(x, 2)"]


CHANGES = [
    ("Box.larger", "max(x, 2)", "min(x, 2)"),
    ("Box.larger", "max(x, 2)", "max(x, 3)"),
    ("count", "x > 0", "x > 1"),
    ("count", "x -= step", "x -= 0"),
]
PROGRAM = """
import json, sys
from tests.robustness.mutants import Mutant
from tests.robustness.mutation import run

mutants = [Mutant(**fields) for fields in json.loads(sys.argv[1])]
run(mutants, ["test_boxes.py"], lambda one, result, remark: print(result, remark), more=2.0)
"""


@pytest.mark.slow
def test_mutants_are_killed_survive_or_do_not_end(folder):
    made = json.dumps([dataclasses.asdict(changed(*change)) for change in CHANGES])
    # In a process of its own: this one may have started threads, with which no process can fork.
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, made],
        env=environment(folder),
        capture_output=True,
        text=True,
        check=True,
    )
    # Which test comes first depends on how long each took.
    results = [line.split()[0] for line in done.stdout.splitlines() if line]
    assert results == ["killed", "survived", "killed", "timeout"]


def environment(folder):
    return {"PYTHONPATH": f"{ROOT}:{folder}", "PATH": "/usr/bin:/bin", "HOME": str(folder)}


def command(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "tests.robustness.mutation", "--modules", "boxes.py"]
        + ["--tests", "test_boxes.py", "--out", "out.jsonl", *arguments],
        env=environment(folder),
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_the_command_lists_survivors_and_continues(folder):
    pytest.importorskip("mutmut", reason="mutmut (changes programs) is not installed")
    (folder / "boxes.py").write_text(MODULE.partition("\n\ndef count")[0])  # without a loop
    (folder / "test_boxes.py").write_text(TESTS.partition("\n\ndef test_count")[0])
    first = command(folder, "--sample", "3")
    assert first.returncode == 0, first.stderr
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert len(rows) == 3
    second = command(folder)
    assert second.stdout.count("boxes.py:") == len(survivors(folder)) > 0
    assert "+        return max(x, 3)" in second.stdout
    total = len((folder / "out.jsonl").read_text().splitlines())
    assert len({one.key for one in mutants("boxes.py")[0]}) == total
    # A test that notices one of them.
    (folder / "test_boxes.py").write_text(TESTS.replace("count(1) == 0", "Box().larger(1) == 2"))
    third = command(folder, "--again")
    assert "+        return max(x, 3)" not in third.stdout
    assert third.stdout.splitlines()[-1] == "0 changes outside functions were skipped"


def survivors(folder):
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    return [row for row in rows if row["result"] == "survived"]


def test_a_module_that_is_none_ends_in_one_line(folder):
    pytest.importorskip("mutmut", reason="mutmut (changes programs) is not installed")
    (folder / "boxes.py").write_text("def f(:\n")
    done = command(folder)
    assert done.returncode == 2
    assert done.stderr.startswith("error: boxes.py: expected a Python module")
    assert done.stderr.count("\n") == 1


def test_the_table_counts_the_first_and_the_last_result():
    rows = [
        {"first": "survived", "now": "killed"},
        {"first": "survived", "now": "survived"},
        {"first": "timeout", "now": "timeout"},
    ]
    cells = [next(iter(column.cells)) for column in table(10, rows).columns]
    assert cells == ["10", "3", "1", "2 (67%)", "1", "1"]
