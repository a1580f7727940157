"""What scores are of, and what tells evaluations apart."""

import dataclasses

import pytest

from experiments import drop, multi_span, narrativeqa, nq_open, squad_layout, triviaqa, wikisql
from hardem_jax.cli.evaluate import _print_table
from hardem_jax.equations import task as equations
from hardem_jax.equations.task import EquationTask
from hardem_jax.programs import task as programs
from hardem_jax.programs.task import ProgramTask
from hardem_jax.queries import task as queries
from hardem_jax.queries.task import QueryTask

#: What is printed under "N questions": the other scores of a task are shares of something else.
OF_ALL = {
    EquationTask: (equations.METRIC_NAMES, {"em", "f1"}),
    QueryTask: (
        queries.METRIC_NAMES | queries.GOLD_METRIC_NAMES,
        {"accuracy", "non-empty accuracy", "logical form"},
    ),
    ProgramTask: (programs.METRIC_NAMES, {"accuracy"}),
}


@pytest.mark.parametrize("task", OF_ALL)
def test_a_score_is_of_all_questions_or_says_of_what(task):
    names, expected = OF_ALL[task]
    assert {name for name in names - set(task.SHARES) if " |Z|=" not in name} == expected
    assert set(task.SHARES) <= names


def test_the_name_of_a_split_is_no_markup(capsys):
    _print_table("dev[small]: % of 14 questions", {"em": 1.0}, {})
    assert "dev[small]: % of 14 questions" in capsys.readouterr().out


@pytest.mark.parametrize(
    "module", [drop, multi_span, narrativeqa, nq_open, squad_layout, triviaqa, wikisql]
)
def test_what_is_written_does_not_distinguish_evaluations(module):
    """Nor does what is identified by its contents, wherever it lies."""
    fields = dataclasses.fields(module.COMMANDS["evaluate"])
    distinguishing = {field.name for field in fields if not field.metadata}
    files = {field.name for field in fields if "Path" in str(field.type)}
    assert "checkpoint" in distinguishing and distinguishing & files <= {"gold"}
