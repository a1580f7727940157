"""Which of the chosen programs are annotated, on a tiny stand-in for WikiTableQuestions."""

import gzip
import json

import numpy as np
import pytest

from experiments import wikitablequestions
from experiments.paper.annotated_programs import AnnotatedPrograms
from experiments.solution_sets.squall.search import judge
from hardem_jax.analysis.finished_runs import read_runs
from hardem_jax.cli.command import run_command
from hardem_jax.metrics.wikitablequestions import Denotation
from hardem_jax.tasks.tables.programs import ProgramQuestions, ProgramTask, links_of
from hardem_jax.tasks.trained import Trained
from tests.commands import call
from tests.data.builders.inputs import PLACES, write_wikitablequestions
from tests.tiny import write_checkpoint

# The first is right, the second is not in Z, the third has no program; a question has none.
SQL = {
    "nt-0": f"select c1 from w where c2 = '{PLACES[0].lower()}'",
    "nt-1": "select count ( * ) from w",
    "nt-2": "select c1 from w where c3 = 1999",
    "nt-3": "select c1 , c2 from w",
    "nt-4": f"select c1 from w where c2 = '{PLACES[2].lower()}'",
}


def write_annotations(file, sql):
    with gzip.open(file, "wt", encoding="utf-8") as lines:
        lines.writelines(json.dumps({"id": id, "sql": text}) + "\n" for id, text in sql.items())
    return file


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A build and a comparison of two runs."""
    root = tmp_path_factory.mktemp("annotated")
    bert, official = write_checkpoint(root / "bert"), root / "official"
    official.mkdir()
    write_wikitablequestions(official)
    call(wikitablequestions, "prepare", "--folder", official, "--out", root / "built")
    call(
        *(wikitablequestions, "compare", "--data", root / "built", "--dev", root / "built"),
        *("--dev-split", "train", "--out", root / "runs", "--num-devices", 1, "--shown", 0),
        *("--batches.batch-size", 4, "--batches.buckets", 32, "--batches.max-solutions", 64),
        *("--model.encoder", bert, "--model.hidden-size", 8, "--model.max-tokens", 32),
        *("--loop.num-steps", 2, "--loop.eval-every", 2, "--loop.no-progress", "--seeds", 0),
        *("--objectives", "mml", "hard-em"),
    )
    return root


def run(root, *more, sql=SQL):
    file = write_annotations(root / "squall.jsonl.gz", sql)
    argv = ["--data", root / "built", "--split", "train", "--squall", file, *more]
    run_command(AnnotatedPrograms, prog="test", argv=[str(argument) for argument in argv])


def expected(folder, data):
    """Chosen, hit@1 and hit@5 of the questions that have their annotation in Z."""
    trained = Trained(ProgramTask, folder, "last", batch_size=2)
    readings = dict(trained.reader.read(trained.params, trained.model.inputs(data)))
    found = {"chosen": [], "hit@1": [], "hit@5": []}
    for index, question in enumerate(data.questions):
        if question.id not in ("nt-0", "nt-1", "nt-4"):
            continue
        reading, table = readings[index], data.tables[question.table_id]
        links = links_of(question, table, data.rules)
        asked = SQL[question.id], question.question, table, Denotation(question.answer)
        annotated = [judge(*asked, row[None], links).found for row in reading.rows]
        assert any(annotated) and not all(annotated)
        order = np.argsort(-reading.solutions, kind="stable")
        found["hit@1"].append(annotated[order[0]])
        found["hit@5"].append(any(annotated[place] for place in order[:5]))
        answer = trained.task.answer(question, table, reading)
        found["chosen"].append(judge(*asked, np.array([answer.row]), links).found)
    return {metric: [100.0 * hit for hit in hits] for metric, hits in found.items()}


@pytest.mark.slow
def test_chosen_programs_are_compared_with_annotations(root, capsys):
    saved = root / "saved.jsonl"
    run(root, "--runs", root / "runs", "--against", "MML", "--save", saved)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "3 questions whose annotated program is read, of 5"
    # No answer is right, so there is no share of the right ones.
    assert "| chosen | chosen - MML | p | hit@1 |" in printed[1] and "nan" not in printed[2]
    data = ProgramQuestions.open(root / "built", "train")
    for found, name in zip(read_runs(saved), ("hard-em-0", "mml-0"), strict=True):
        wanted = expected(root / "runs" / name, data)
        assert {metric: list(found.by_question[metric]) for metric in wanted} == wanted
        assert len(found.by_question["accuracy"]) == 6
        line = next(line for line in printed if line.startswith(f"| {found.objective} "))
        assert f" {np.mean(wanted['chosen']):.1f} [" in line
    # One run alone, of the first questions.
    run(root, "--runs", root / "runs" / "mml-0", "--questions", 2)
    assert capsys.readouterr().out.startswith("2 questions whose annotated program is read, of 2")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "runs", "line"),
    [
        ({"nt-99": "select c1 from w"}, "runs", "expected annotations of train, found none"),
        ({"nt-3": SQL["nt-3"]}, "runs", "expected annotated programs in Z, found none"),
        (SQL, "official", "expected runs that have ended, found none"),
        (SQL, "nowhere", "expected a folder of runs, found none"),
    ],
)
def test_what_cannot_be_compared_is_named(sql, runs, line, root, capsys):
    with pytest.raises(SystemExit, match="2"):
        run(root, "--runs", root / runs, sql=sql)
    assert line in capsys.readouterr().err
