"""A few of the faults; `python -m tests.robustness.faults` does 200."""

import random
import signal

import pytest

from tests.robustness import faults
from tests.robustness.faults import DAMAGES, FAULTS, GOOD, Bench, Case, cases, table

SAMPLE = [
    Case("train", "SIGKILL", 0),
    Case("train", "SIGTERM", 0),
    Case("train", "full disk", 0),
    Case("train", "second process", 0),
    Case("train", "deleted", 0),
    Case("prepare", "second process", 0),
    Case("prepare", "SIGINT", 0),
    Case("evaluate", "SIGUSR1", 0),
    Case("evaluate", "flipped bit", 0),
]


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    # As a shell starts a job in the background, which still has to meet SIGINT.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return Bench(tmp_path_factory.mktemp("faults"), seed=0)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: f"{case.command}, {case.fault}")
def test_a_fault_ends_well(bench, case):
    outcome = bench.outcome(case)
    assert outcome.verdict in GOOD and outcome.lines <= 1, outcome
    if case.fault in ("SIGTERM", "SIGINT", "SIGUSR1", "second process"):
        # It met the command, which said so; a clock that ran another day would miss it.
        assert outcome.verdict == "refused in one line", outcome
    assert bench.outcome(case) == outcome  # of the record: it is not done again


def test_every_command_and_kind_of_fault_comes_up():
    every = cases(55, tuple(faults.SUBJECTS))
    assert {(c.command, c.fault) for c in every} == {
        (name, fault) for name in faults.SUBJECTS for fault in FAULTS
    }
    assert cases(3, ("index",)) == [Case("index", fault, 0) for fault in FAULTS[:3]]


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_changes_the_file(name):
    content = bytes(range(200))
    assert DAMAGES[name](content, random.Random(0)) != content


def test_the_table_counts_verdicts():
    outcome = faults.Outcome("identical", 0, "")
    found = table({Case("train", "SIGKILL", n): outcome for n in range(2)})
    assert [list(column.cells) for column in found.columns] == [["SIGKILL"], ["2 identical"]]
