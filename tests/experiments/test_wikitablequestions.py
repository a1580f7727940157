"""The commands for WikiTableQuestions, from official files to an answer, on a tiny stand-in."""

import functools
import json

import pytest

from experiments import wikitablequestions
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.programs.reward_features import PROGRAM_FEATURES
from hardem_jax.programs.task import ProgramSplit
from hardem_jax.tables.metrics import Denotation, score
from hardem_jax.tables.wikitablequestions import read_wikitablequestions
from tests import commands
from tests.commands import OBEYED, SHOWN
from tests.data.builders.inputs import write_wikitablequestions
from tests.tables.search_runs import assert_learns_a_reward
from tests.tiny import write_checkpoint

call = functools.partial(commands.call, wikitablequestions)
fails = functools.partial(commands.fails, wikitablequestions)
output_of = functools.partial(commands.output_of, wikitablequestions)
NUM_QUESTIONS = 6


def train_flags(root, out):
    return [
        *("train", "--data", root / "built", "--dev", root / "built", "--dev-split", "train"),
        *("--out", out, "--num-devices", 2, "--batches.batch-size", 4, "--batches.buckets", 32),
        *("--model.encoder", root / "bert", "--model.hidden-size", 8, "--model.max-tokens", 32),
        *("--loop.num-steps", 2, "--loop.eval-every", 2, "--loop.log-every", 1),
        *("--loop.no-progress", "objective:hard-em"),
    ]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A checkpoint, a build and a finished run."""
    root = tmp_path_factory.mktemp("wtq")
    write_checkpoint(root / "bert")
    (root / "official").mkdir()
    write_wikitablequestions(root / "official")
    call("prepare", "--folder", root / "official", "--out", root / "built")
    call(*train_flags(root, root / "run"))
    return root


def test_tables_of_ones_own_have_programs(tmp_path, capsys):
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "a.csv").write_text("Who,Goals\nAnn,3\nBo,5\nCy,9\n")
    (tmp_path / "train.csv").write_text("question,table,answer\nWho is below Bo?,a.csv,CY\n")
    prepare = ["prepare", "--folder", tmp_path, "--out", tmp_path / "built", "--layout", "csv"]
    call(*prepare)
    [question] = ProgramSplit(tmp_path / "built", "train").questions
    assert (question.id, question.answer) == ("train-0", ["CY"]) and question.num_programs
    assert "found csv" in fails(capsys, *prepare, "--number", 2)


@pytest.mark.slow
def test_evaluation_scores_all_questions(root, capsys):
    predictions = root / "predictions.json"
    command = ["evaluate", "--num-devices", 1, "--run-dir", root / "run", "--data", root / "built"]
    command += ["--split", "train"]
    files = ("--predictions", predictions, "--official", root / "official.tsv")
    scores = commands.evaluation(output_of(capsys, *command, *files))["scores"]
    [at_end] = commands.logged(root / "run", "eval")
    assert scores["accuracy"] == pytest.approx(at_end["accuracy"])
    rows = json.loads(predictions.read_text())
    assert len(rows) == NUM_QUESTIONS and scores["answered"] == 100
    assert scores["accuracy"] == pytest.approx(100 * sum(r["correct"] for r in rows) / len(rows))
    assert set(rows[0]) == {"id", "question", "program", "result", "correct"}
    # As the official evaluator reads it: all items are texts.
    lines = (line.split("\t") for line in files[-1].read_text().splitlines())
    found = {id: items for id, *items in lines}
    split = read_wikitablequestions(
        root / "official", "random-split-1-train", skips=ExclusionCounts()
    )
    official_score = score(found, {q.id: Denotation(q.answer_texts) for q in split})
    assert official_score["accuracy"] == pytest.approx(scores["accuracy"])
    assert official_score["missing"] == official_score["unknown"] == 0
    printed = output_of(capsys, *command, "--decoding", "result")
    assert "accuracy" in commands.evaluation(printed)["scores"]


@pytest.mark.slow
def test_a_question_about_a_table_of_ones_own(root, tmp_path, capsys):
    table = tmp_path / "mine.csv"
    table.write_text(f"who {OBEYED},yards\nAda {OBEYED},5\nBo,7\n", encoding="utf-8")
    command = ("predict", "--run-dir", root / "run", "--table", table)
    asked = ("--question", "Who ran more than 5 yards?", "--top", 20)
    lines = output_of(capsys, *command, *asked).splitlines()
    assert len(lines) == 40 and all("%  " in line for line in lines[::2])
    chances = [float(line.split("%")[0]) for line in lines[::2]]
    assert chances == sorted(chances, reverse=True)
    assert any(f"who {SHOWN}" in line for line in lines[::2])
    assert all(line.isprintable() for line in lines)
    assert "found only blanks" in fails(capsys, *command, "--question", " ")
    table.write_text("")
    assert "mine.csv" in fails(capsys, *command, "--question", "Who?")


@pytest.mark.slow
def test_the_reward_of_programs_has_a_gradient(root, tmp_path):
    """As the step is traced, which takes a fraction of compiling it."""
    flags = [str(flag) for flag in train_flags(root, tmp_path / "run")][:-1]
    assert_learns_a_reward(wikitablequestions, flags, num_features=len(PROGRAM_FEATURES))
