"""Annotated queries and Z: full supervision as an upper bound, and whether Z has them."""

from __future__ import annotations

import itertools

import numpy as np

from hardem_jax.queries.examples import QueryQuestion
from hardem_jax.queries.solutions.types import ROW_WIDTH, Query, SqlRules

# Reasons of `ExclusionCounts`, for questions left out:
OUTSIDE_RULES = "annotated query with conditions that the rules exclude"
NOT_A_SPAN = "value of the annotated query is no span of the question"


def annotated_row(question: QueryQuestion, query: Query, rules: SqlRules) -> np.ndarray | str:
    """The annotated query as a row of Z, ``[15]`` int16, or the reason why Z cannot hold it.

    Its values are the first spans of the question with the same text in either case. Conditions
    are sorted as in every Z.
    """
    columns = [condition.column for condition in query.conditions]
    shared = len(set(columns)) < len(columns)
    if len(columns) > rules.max_conditions or (shared and not rules.shared_columns):
        return OUTSIDE_RULES
    conditions = []
    for condition in query.conditions:
        span = _first_span(question, str(condition.value).lower())
        if span is None:
            return NOT_A_SPAN
        conditions.append((condition.column, condition.operator, *span))
    row = np.full(ROW_WIDTH, -1, np.int16)
    head = query.select, query.aggregator, len(conditions)
    content = [*head, *itertools.chain(*sorted(conditions))]
    row[: len(content)] = content
    return row


def gold_in_solutions(question: QueryQuestion, query: Query) -> int:
    """Where the annotated query is in Z: its first row with the same logical form; -1 if nowhere.

    Conditions may be in any order, and values are compared as text in lower case, as in
    `hardem_jax.queries.metrics.logical_form_match`. For measuring, never for training.
    """
    count = len(query.conditions)
    if 3 + 4 * count > ROW_WIDTH:
        return -1
    head = query.select, query.aggregator, count
    places = np.flatnonzero((question.queries[:, :3] == head).all(1))
    parts = question.queries[places, 3 : 3 + 4 * count].reshape(len(places), count, 4)
    # [Z, place in the row, annotated condition]
    same = np.ones((len(places), count, count), bool)
    for j, condition in enumerate(query.conditions):
        same[:, :, j] = (parts[..., :2] == (condition.column, condition.operator)).all(-1)
        wanted, spans = str(condition.value).lower(), parts[same[:, :, j]][:, 2:]
        spans, which = np.unique(spans, axis=0, return_inverse=True)
        texts = [_text(question, first, last) == wanted for first, last in spans.tolist()]
        same[:, :, j][same[:, :, j]] = np.array(texts, bool)[which.reshape(-1)]
    found = np.zeros(len(places), bool)
    for order in itertools.permutations(range(count)):
        found |= same[:, np.arange(count), list(order)].all(1)
    return int(places[np.argmax(found)]) if found.any() else -1


def _text(question: QueryQuestion, first: int, last: int) -> str:
    return question.question[question.words[first, 0] : question.words[last, 1]].lower()


def _first_span(question: QueryQuestion, text: str) -> tuple[int, int] | None:
    bounds = question.words.tolist()
    for first, (start, _) in enumerate(bounds):
        for last in range(first, len(bounds)):
            # Lower case is never shorter than the text itself.
            if bounds[last][1] - start > len(text):
                break
            if _text(question, first, last) == text:
                return first, last
    return None
