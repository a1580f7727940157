"""WikiSQL's metrics: literal tables, and the official engine's own answers."""

import pytest

from hardem_jax.queries import metrics as wikisql
from hardem_jax.queries.solutions.types import Condition, Query

RESULTS = [(["ann"], ["ann"], 1), (["ann"], ["Ann"], 0), (["ann", "bo"], ["bo", "ann"], 0)]
RESULTS += [(["ann", "ann"], ["ann"], 0), ([42.0], [42], 1), (["42"], [42], 0)]
RESULTS += [(("ann",), ["ann"], 1), ([], [], 1), ([None], [None], 1), ([0], [0], 1)]
RESULTS += [([""], [""], 1), ([], [None], 0), ([None], [], 0)]
RESULTS += [([float("inf")], [float("inf")], 1), (None, [], 0), (None, [None], 0)]


@pytest.mark.parametrize(("result", "gold", "right"), RESULTS)
def test_execution(result, gold, right):
    assert wikisql.execution_match(result, gold) is bool(right)


A, B = Condition(0, 0, "Duke"), Condition(2, 1, 1996)


@pytest.mark.parametrize(
    ("query", "gold", "right"),
    [
        (Query(1, 0, (A, B)), Query(1, 0, (A, B)), 1),
        (Query(1, 0, (B, A)), Query(1, 0, (A, B)), 1),
        (Query(1, 0, (A, A)), Query(1, 0, (A,)), 1),  # sets, as in the official evaluator
        (Query(1, 0, (A,)), Query(1, 0, (A, B)), 0),
        (Query(1, 0, (A, B)), Query(1, 0, (A,)), 0),  # superfluous conditions
        (Query(1, 0, (A,)), Query(1, 0), 0),
        (Query(2, 0, (A, B)), Query(1, 0, (A, B)), 0),
        (Query(1, 3, (A, B)), Query(1, 0, (A, B)), 0),
        (Query(1, 0), Query(1, 0), 1),
        (Query(1, 0, (Condition(0, 0, "dUKE"),)), Query(1, 0, (A,)), 1),
        (Query(1, 0, (Condition(0, 0, "Duke "),)), Query(1, 0, (A,)), 0),
        (Query(1, 0, (Condition(0, 0, "ß"),)), Query(1, 0, (Condition(0, 0, "SS"),)), 0),
        (Query(1, 0, (Condition(0, 2, "Duke"),)), Query(1, 0, (A,)), 0),
        (Query(1, 0, (Condition(1, 0, "Duke"),)), Query(1, 0, (A,)), 0),
        (Query(1, 0, (Condition(2, 1, "1996"),)), Query(1, 0, (B,)), 1),
        (Query(1, 0, (Condition(2, 1, 1996.0),)), Query(1, 0, (B,)), 0),  # "1996.0"
        (None, Query(1, 0), 0),
    ],
)
def test_logical_form(query, gold, right):
    assert wikisql.logical_form_match(query, gold) is bool(right)
