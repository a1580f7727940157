"""Execution-guided decoding as in SQLova (Hwang et al., 2019; Wang et al., 2018).

Decisions are made one after the other, and those that cannot be executed or select no row are
passed over: first the head, then each condition by itself, then how many conditions there are. See
`hardem_jax.queries.most_likely` for the most likely query of all.
"""

from __future__ import annotations

import numpy as np

from hardem_jax.queries.most_likely import QueryScores
from hardem_jax.queries.solutions.columns import TypedTable, typed_table
from hardem_jax.queries.solutions.results import allowed
from hardem_jax.queries.solutions.rules import SqlRules
from hardem_jax.queries.solutions.types import ROW_WIDTH
from hardem_jax.queries.solutions.values import ExecutionError
from hardem_jax.tables.table import Table

_BEAM = _MAX_COLUMNS = 4


def execution_guided(
    table: Table,
    question: str,
    words: np.ndarray,
    scores: QueryScores,
    rules: SqlRules,
) -> np.ndarray:
    """The query that SQLova's execution-guided decoding finds, ``[ROW_WIDTH]`` int16.

    1. Of the four best heads on the four most likely columns, the first that the rules allow
       (`SqlRules.aggregates_on_text`); if none is, the last.
    2. Of the conditions on the four most likely columns, with values from the four most likely
       first and last words, the four best; those that no row meets are dropped.
    3. The number n of conditions that maximises P(n) times the probability of the n-th.

    Two things differ from the original. It keeps a condition that no row meets if the aggregator is
    COUNT, since 0 is a result; here it is passed over. And a column has at most one condition.
    """
    typed = typed_table(table)
    head = _head(typed, scores, rules)
    kept: list[tuple[float, tuple[int, int, int, int]]] = []
    for log_prob, condition in _conditions(scores):
        column, operator, first, last = condition
        value = question[words[first, 0] : words[last, 1]]
        if any(column == used for _, (used, *_) in kept) or column >= len(typed.columns):
            continue
        try:
            bound = typed.columns[column].bind(value)
        except ExecutionError:
            continue
        if typed.columns[column].compare(bound)[operator]:
            kept.append((log_prob, condition))
    limit = min(rules.max_conditions, len(scores.number) - 1)
    totals = [float(scores.number[0])]
    totals += [float(scores.number[n + 1]) + kept[n][0] for n in range(min(limit, len(kept)))]
    number = int(np.argmax(totals))
    row = np.full(ROW_WIDTH, -1, np.int16)
    content = [*head, number, *np.ravel(sorted(condition for _, condition in kept[:number]))]
    row[: len(content)] = content
    return row


def _head(typed: TypedTable, scores: QueryScores, rules: SqlRules) -> tuple[int, int]:
    columns = min(len(typed.columns), len(scores.select))
    heads = scores.select[:columns, None] + scores.aggregator[:columns]
    outside = np.argsort(-scores.select[:columns], kind="stable")[_BEAM:]
    heads[outside] = -np.inf
    order = np.argsort(-heads, axis=None, kind="stable")[:_BEAM]
    places = [divmod(flat, heads.shape[1]) for flat in order.tolist()]
    is_allowed = allowed(typed, [typed.every_row], rules)[0]
    return next((place for place in places if is_allowed[place]), places[-1])


def _conditions(scores: QueryScores) -> list[tuple[float, tuple[int, int, int, int]]]:
    """The best conditions and their log-probabilities, best first."""
    found = []
    for column in np.argsort(-scores.column[:, 1], kind="stable")[:_MAX_COLUMNS].tolist():
        for operator in range(scores.operator.shape[1]):
            firsts, lasts = scores.first[column, operator], scores.last[column, operator]
            for first in np.argsort(-firsts, kind="stable")[:_BEAM].tolist():
                for last in np.argsort(-lasts, kind="stable")[:_BEAM].tolist():
                    parts = scores.column[column, 1], scores.operator[column, operator]
                    log_prob = float(sum(parts) + firsts[first] + lasts[last])
                    if first <= last and log_prob > -np.inf:
                        found.append((log_prob, (column, operator, first, last)))
    return sorted(found, key=lambda item: -item[0])[:_BEAM]
