"""Scores of chosen questions: which count, and how often."""

import dataclasses
import json

import numpy as np
import pytest

from experiments import drop, multi_span, narrativeqa, nq_open, squad_layout, triviaqa, wikisql
from hardem_jax.cli.evaluate import chosen_scores, read_ids
from hardem_jax.data import builders
from hardem_jax.equations import task as equations
from hardem_jax.equations.builds import DropNum
from hardem_jax.equations.config import EquationInference
from hardem_jax.equations.models import NumericQuestions
from hardem_jax.equations.task import EquationTask
from hardem_jax.errors import InputError
from hardem_jax.programs import task as programs
from hardem_jax.programs.task import ProgramTask
from hardem_jax.queries import task as queries
from hardem_jax.queries.task import QueryTask
from tests import official_scripts

#: What is printed under "N questions": the other scores of a task are shares of something else.
OF_ALL = {
    EquationTask: (equations.METRIC_NAMES, {"em", "f1"}),
    QueryTask: (
        queries.METRIC_NAMES | queries.GOLD_METRIC_NAMES,
        {"accuracy", "non-empty accuracy", "logical form"},
    ),
    ProgramTask: (programs.METRIC_NAMES, {"accuracy"}),
}
SCORED, EM = ["a", "b", "b", "c"], {"em": [100.0, 100.0, 0.0, 0.0]}


@pytest.mark.parametrize(
    ("ids", "missing", "em"),
    [
        (["a", "b", "b", "c"], 0, 50),  # all of them, as often as the split has them
        (["a", "b", "c"], 0, 50),  # b once: the mean of its two places
        (["a", "x", "x", "x"], 3, 25),  # what the split lacks counts as often as it is asked for
        (["a", "a", "a", "c"], 0, 75),
        (["c", "x"], 1, 0),
    ],
)
def test_a_question_counts_as_often_as_the_file_has_it(ids, missing, em):
    found = chosen_scores(ids, SCORED, EM)
    assert found == {"questions": len(ids), "missing": missing, "scores": {"em": em}}


@pytest.mark.parametrize("task", OF_ALL)
def test_a_score_is_of_all_questions_or_says_of_what(task):
    names, expected = OF_ALL[task]
    assert {name for name in names - set(task.SHARES) if " |Z|=" not in name} == expected
    assert set(task.SHARES) <= names


def test_ids_of_other_questions_are_refused():
    with pytest.raises(InputError, match="expected ids of the split, found 'x' and others"):
        chosen_scores(["x", "y"], SCORED, EM)


def test_repeated_questions_of_drop_are_scored_as_its_evaluator_does(shared_dir, tmp_path):
    """Its dev file repeats questions, about numbers and others; those about numbers get answers."""
    folder = shared_dir / "data" / "drop"
    builder = builders.SolutionBuilder(
        DropNum(), data_dir=tmp_path / "built", folder=folder, splits=["dev"]
    )
    builder.download_and_prepare()
    data = NumericQuestions.open(tmp_path / "built", "dev")
    answers = [q.golds[0]["number"] if n % 3 else "7" for n, q in enumerate(data.questions)]
    task = EquationTask(EquationInference(), data.rules, data.numbers)
    ids = read_ids(folder / "drop_dataset_dev.json")
    assert len(ids) > len(set(ids)) > len(set(data.scored_ids()))
    found = chosen_scores(ids, data.scored_ids(), task.by_question(data, answers))

    predictions = {q.id: answer for q, answer in zip(data.questions, answers, strict=True)}
    (tmp_path / "answers.json").write_text(json.dumps(predictions))
    official = official_scripts.drop(
        folder / "drop_dataset_dev.json", tmp_path / "answers.json", tmp_path / "scores.json"
    )
    assert found["questions"] == 1164
    np.testing.assert_allclose([found["scores"]["em"], found["scores"]["f1"]], official)


@pytest.mark.parametrize(
    "module", [drop, multi_span, narrativeqa, nq_open, squad_layout, triviaqa, wikisql]
)
def test_what_is_written_does_not_distinguish_evaluations(module):
    """Nor does what is identified by its contents, wherever it lies."""
    fields = dataclasses.fields(module.COMMANDS["evaluate"])
    distinguishing = {field.name for field in fields if not field.metadata}
    files = {field.name for field in fields if "Path" in str(field.type)}
    assert "checkpoint" in distinguishing and distinguishing & files <= {"gold"}
