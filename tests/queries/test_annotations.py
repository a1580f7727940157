"""Annotated queries: where they are in Z, and as a Z of their own."""

import dataclasses

import numpy as np
import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.queries.annotations import (
    NOT_A_SPAN,
    OUTSIDE_RULES,
    annotated_row,
    gold_in_solutions,
)
from hardem_jax.queries.metrics import logical_form_match
from hardem_jax.queries.readers import read_answers
from hardem_jax.queries.records import query_question
from hardem_jax.queries.solutions.types import Condition, Query, SqlRules
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.table import Table

ROWS = (("ann", 7.0, "éire"), ("bo", 9.0, "éire"), ("ann", 9.0, "wales"))
TABLE = Table("1-1", ("player", "no.", "team"), ("text", "real", "text"), ROWS)
TEXT = "Ann of Éire has 9, and 7 has Ann, not 9?"
ANN, EIRE, SEVEN = Condition(0, 0, "ann"), Condition(2, 0, "ÉIRE"), Condition(1, 0, 7)


def found(text=TEXT, answer=("ann",), table=TABLE, **rules):
    asked = TableQuestion("q", text, table, answer)
    return query_question(asked, SqlRules(aggregates_on_text=True, **rules))


@pytest.mark.parametrize(
    ("query", "there"),
    [
        (Query(0, 0, (SEVEN,)), True), (Query(0, 0, (SEVEN, EIRE, ANN)), True), (Query(0, 2), True),
        (Query(0, 0), False),  # three rows
        (Query(2, 0, (SEVEN,)), False), (Query(0, 0, (Condition(1, 0, 9),)), False),
        (Query(0, 0, (Condition(1, 1, 7),)), False),  # two rows
        (Query(0, 0, (Condition(1, 0, 7.0),)), False),  # "7.0" is not what the question says
        (Query(0, 0, (SEVEN, SEVEN)), False), (Query(0, 0, (SEVEN, EIRE, ANN, ANN)), False),
    ],
)  # fmt: skip
def test_a_query_is_in_z_or_it_is_not(query, there):
    question = found()
    places = gold_in_solutions(question, query)
    assert bool(places) == there
    rows = [Query.from_row(row, TEXT, question.words) for row in question.queries]
    same = [logical_form_match(other, query) for other in rows]
    assert not there or same.index(True) == places[0]
    assert gold_in_solutions(found(answer=("nobody",)), query) == []


UNUSED = [-1] * 4


@pytest.mark.parametrize(
    ("query", "row"),
    [
        (Query(0, 3, (ANN,)), [0, 3, 1, 0, 0, 0, 0, *UNUSED, *UNUSED]),
        (Query(1, 0, (EIRE, SEVEN, ANN)), [1, 0, 3, 0, 0, 0, 0, 1, 0, 7, 7, 2, 0, 2, 2]),
        (Query(2, 2), [2, 2, 0, *UNUSED, *UNUSED, *UNUSED]),
        (Query(0, 0, (Condition(1, 2, 9),)), [0, 0, 1, 1, 2, 4, 4, *UNUSED, *UNUSED]),
        (Query(0, 0, (Condition(0, 0, "ANN OF Éire"),)), [0, 0, 1, 0, 0, 0, 2, *UNUSED, *UNUSED]),
    ],
)
def test_an_annotated_query_is_a_row_of_z(query, row):
    question = found()
    made = annotated_row(question, query, SqlRules())
    assert made.tolist() == row and made.dtype == np.int16
    assert logical_form_match(Query.from_row(made, TEXT, question.words), query)
    assert gold_in_solutions(dataclasses.replace(question, queries=made[None]), query) == [0]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (Query(0, 0, (SEVEN, EIRE, ANN, ANN)), OUTSIDE_RULES),
        (Query(0, 0, (Condition(1, 1, 7), Condition(1, 2, 9))), OUTSIDE_RULES),
        (Query(0, 0, (Condition(0, 0, "an"),)), NOT_A_SPAN),
        (Query(0, 0, (Condition(0, 0, "ann "),)), NOT_A_SPAN),
        (Query(0, 0, (Condition(0, 0, ""),)), NOT_A_SPAN),
        (Query(0, 0, (Condition(1, 0, 7.0),)), NOT_A_SPAN),
    ],
)
def test_an_annotated_query_that_z_cannot_hold_has_a_reason(query, reason):
    assert annotated_row(found(), query, SqlRules()) == reason


def test_the_rules_say_what_z_holds():
    shared = Query(0, 0, (Condition(1, 2, 9), Condition(1, 1, 7), Condition(1, 1, 9)))
    row = annotated_row(found(), shared, SqlRules(shared_columns=True))
    assert row[3:].tolist() == [1, 1, 4, 4, 1, 1, 7, 7, 1, 2, 4, 4]
    two = Query(0, 0, (SEVEN, EIRE))
    assert annotated_row(found(), two, SqlRules(max_conditions=1)) == OUTSIDE_RULES


def test_real_annotations_are_in_z_and_spans_of_their_question(shared_dir):
    rules, skips = SqlRules(), ExclusionCounts()
    in_z = rows = 0
    asked = list(read_answers(shared_dir / "data" / "wikisql", "dev", skips=skips))
    for example in asked:
        question = query_question(example, rules)
        places = gold_in_solutions(question, example.query)
        row = annotated_row(question, example.query, rules)
        in_z += bool(places)
        rows += not isinstance(row, str)
        if places and not isinstance(row, str):
            assert row.tolist() == question.queries[places[0]].tolist()
    assert min(in_z, rows) >= 0.97 * len(asked) > 400
