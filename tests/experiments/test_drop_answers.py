"""Scores of finished runs on DROP by the kind of the answer, on a tiny stand-in."""

import dataclasses
import json

import pytest

from experiments import drop
from experiments.paper.drop_answers import DropAnswers
from hardem_jax.analysis.finished_runs import FinishedRun
from hardem_jax.cli.command import run_command
from hardem_jax.equations.models import NumericQuestions
from hardem_jax.errors import InputError
from tests.commands import call
from tests.tiny import write_drop


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A build of six questions, of which the first has the answer 9 and others larger ones."""
    root = tmp_path_factory.mktemp("answers")
    (root / "official").mkdir()
    write_drop(root / "official" / "drop_dataset_dev.json", passages=3)
    call(drop, "prepare", "--folder", root / "official", "--out", root / "built")
    return root / "built"


def run_of(built, objective, em, content=None):
    content = content or NumericQuestions.open(built, "dev").meta["content"]
    settings = {"contents of dev": json.dumps({"content": content}), "loop.seed": "0"}
    return FinishedRun(objective, 0, settings, {"step": 1.0}, {"em": em})


def tabulate(built, file, runs, *more):
    file.write_text("".join(f"{run.line()}\n" for run in runs))
    argv = ["--data", str(built), "--runs", str(file), *more]
    run_command(DropAnswers, prog="test", argv=argv)


def test_small_answers_have_a_column_of_their_own(built, tmp_path, capsys):
    mml = run_of(built, "MML", [100.0, *[0.0] * 5])
    hard = run_of(built, "Hard EM", [0.0, *[100.0] * 5])
    tabulate(built, tmp_path / "runs.jsonl", [mml, hard], "--against", "MML")
    printed = capsys.readouterr().out.splitlines()
    assert printed[:3] == [
        "0 to 9: 1 questions, |Z| median 1",
        "other whole: 5 questions, |Z| median 1",
        "not whole: 0 questions",
    ]
    cells = {line.split("|")[1].strip(): line.split("|")[3:] for line in printed[3:]}
    assert [cell.split()[0] for cell in cells["MML"] if cell.strip()] == ["100.0", "0.0"]
    assert [cell.split()[0] for cell in cells["Hard EM"] if cell.strip()][::3] == ["0.0", "100.0"]


def test_runs_of_other_questions_are_refused(built, tmp_path, capsys):
    right = run_of(built, "MML", [0.0] * 6)
    for run, says in [
        (run_of(built, "MML", [0.0] * 6, "other"), "found other"),
        (run_of(built, "MML", [0.0] * 7), "expected scores of 6 questions, found 7"),
        (dataclasses.replace(right, by_question={}), "expected em of every question, found none"),
    ]:
        with pytest.raises((InputError, SystemExit)):
            tabulate(built, tmp_path / "runs.jsonl", [run])
        line = capsys.readouterr().err
        assert "MML, seed 0: expected" in line and says in line
