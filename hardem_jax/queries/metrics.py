"""Execution and logical-form accuracy of WikiSQL's official evaluator (Zhong et al., 2017).

Execution compares results: a prediction is correct if the list it returns equals that of the
annotated query, including order and length. Two empty results are equal, and so are two
aggregates over no rows, ``[None]``. A prediction that cannot be executed is wrong.

Logical form compares queries: column, aggregator, and the conditions as a set, with values
compared as lower-case text, so that "5" equals 5 but 5 does not equal 5.0.

SQLova (Hwang et al., 2019) also requires a nonempty result (``[None]`` is not empty), and reports
accuracies with this criterion during training; here it is the score ``non-empty accuracy``.
"""

from __future__ import annotations

from collections.abc import Sequence

from hardem_jax.queries.solutions.types import Query
from hardem_jax.tables.table import Cell

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


def logical_form_match(query: Query | None, gold: Query) -> bool:
    """Whether a predicted query equals the annotated one, conditions in any order.

    Args:
        query: the predicted query; None if there is none.
        gold: the annotated query.

    Example:
        >>> from hardem_jax.queries.solutions.types import Condition
        >>> team, year = Condition(0, 0, "Duke"), Condition(2, 1, 1996)
        >>> logical_form_match(Query(1, 0, (year, team)), Query(1, 0, (team, year)))
        True
    """
    if query is None or (query.select, query.aggregator) != (gold.select, gold.aggregator):
        return False
    return set(comparable_conditions(query)) == set(comparable_conditions(gold))


def comparable_conditions(query: Query) -> list[tuple[int, int, str]]:
    """Column, operator and value of each condition, as `logical_form_match` compares them."""
    return [(c.column, c.operator, str(c.value).lower()) for c in query.conditions]
