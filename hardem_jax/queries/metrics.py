"""Execution and logical-form accuracy of WikiSQL's official evaluator (Zhong et al., 2017).

Execution compares results: a prediction is correct if the list it returns equals that of the
annotated query, including order and length. Two empty results are equal, and so are two
aggregates over no rows, ``[None]``. A prediction that cannot be executed is wrong.

Logical form compares queries: column, aggregator, and the conditions as a set, with values
compared as lower-case text, so that "5" equals 5 but 5 does not equal 5.0. The evaluator's option
`--ordered` compares the conditions as a list.

SQLova (Hwang et al., 2019) also requires a nonempty result (``[None]`` is not empty), and reports
accuracies with this criterion during training; here it is `nonempty_execution`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from hardem_jax.errors import InputError
from hardem_jax.queries.solutions.types import Query
from hardem_jax.tables.table import Cell

T = TypeVar("T")
Result = Sequence[Cell]


def execution_match(result: Result | None, gold: Result) -> bool:
    """Whether the result of a predicted query equals that of the annotated one.

    Args:
        result: result of the predicted query; None if it cannot be executed.
        gold: result of the annotated query.

    Example:
        >>> execution_match([42.0], [42]), execution_match([], []), execution_match(None, [])
        (True, True, False)
    """
    return result is not None and list(result) == list(gold)


def nonempty_execution_match(result: Result | None, gold: Result) -> bool:
    """As `execution_match`, but the result must not be empty.

    Example:
        >>> nonempty_execution_match([], []), nonempty_execution_match([None], [None])
        (False, True)
    """
    return bool(result) and execution_match(result, gold)


def logical_form_match(query: Query | None, gold: Query) -> bool:
    """Whether a predicted query equals the annotated one, conditions in any order.

    Args:
        query: the predicted query; None if there is none.
        gold: the annotated query.

    Example:
        >>> from hardem_jax.queries.solutions.types import Condition
        >>> team, year = Condition(0, 0, "Duke"), Condition(2, 1, 1996)
        >>> query, gold = Query(1, 0, (year, team)), Query(1, 0, (team, year))
        >>> logical_form_match(query, gold), ordered_logical_form_match(query, gold)
        (True, False)
    """
    return _same_head(query, gold) and set(comparable_conditions(query)) == set(
        comparable_conditions(gold)
    )


def ordered_logical_form_match(query: Query | None, gold: Query) -> bool:
    """Whether a predicted query equals the annotated one, conditions in the same order."""
    return _same_head(query, gold) and comparable_conditions(query) == comparable_conditions(gold)


def execution_accuracy(
    results: Mapping[str, Result | None], golds: Mapping[str, Result]
) -> dict[str, float | int]:
    """Share of correct executions over all questions of `golds`.

    Args:
        results: question id -> result of the predicted query, None if it cannot be executed.
        golds: question id -> result of the annotated query.

    Returns:
        `execution` and `nonempty_execution` in percent; counts `questions`, `missing` (questions
        without a result, which are wrong) and `unknown` (results for other questions).

    Raises:
        InputError: `golds` is empty.

    Example:
        >>> execution_accuracy({"dev-0": ["ann"], "dev-1": None}, {"dev-0": ["ann"], "dev-1": []})
        {'execution': 50.0, 'nonempty_execution': 50.0, 'questions': 2, 'missing': 1, 'unknown': 0}
    """
    matches = {"execution": execution_match, "nonempty_execution": nonempty_execution_match}
    return _accuracies(matches, results, golds)


def logical_form_accuracy(
    queries: Mapping[str, Query | None], golds: Mapping[str, Query]
) -> dict[str, float | int]:
    """Share of queries that equal the annotated ones, over all questions of `golds`.

    Args:
        queries: question id -> predicted query, None if there is none.
        golds: question id -> annotated query.

    Returns:
        `logical_form` and `ordered_logical_form` in percent; counts as in `execution_accuracy`.

    Raises:
        InputError: `golds` is empty.

    Example:
        >>> accuracies = logical_form_accuracy({"dev-0": Query(1, 0)}, {"dev-0": Query(1, 0)})
        >>> accuracies["logical_form"], accuracies["questions"]
        (100.0, 1)
    """
    matches = {
        "logical_form": logical_form_match,
        "ordered_logical_form": ordered_logical_form_match,
    }
    return _accuracies(matches, queries, golds)


def _accuracies(
    matches: Mapping[str, Callable[[T | None, T], bool]],
    predictions: Mapping[str, T | None],
    golds: Mapping[str, T],
) -> dict[str, float | int]:
    if not golds:
        raise InputError("no questions to score: expected at least one with a gold, found 0")
    percent = 100.0 / len(golds)
    shares: dict[str, float | int] = {
        name: percent * sum(match(predictions.get(key), gold) for key, gold in golds.items())
        for name, match in matches.items()
    }
    missing = sum(predictions.get(key) is None for key in golds)
    unknown = len(predictions.keys() - golds.keys())
    return shares | {"questions": len(golds), "missing": missing, "unknown": unknown}


def _same_head(query: Query | None, gold: Query) -> bool:
    return query is not None and (query.select, query.aggregator) == (gold.select, gold.aggregator)


def comparable_conditions(query: Query | None) -> list[tuple[int, int, str]]:
    """Column, operator and value of each condition, as `logical_form_match` compares them."""
    conditions = () if query is None else query.conditions
    return [(c.column, c.operator, str(c.value).lower()) for c in conditions]
