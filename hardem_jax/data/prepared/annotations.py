"""Annotated queries beside Z: full supervision as an upper bound, and whether Z has them.

Nothing here is part of learning from answers. Values of annotated queries are compared with spans
of the question as text in lower case, as in `hardem_jax.metrics.wikisql.logical_form_match`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.files import new_folder
from hardem_jax.data.prepared.query_records import (
    FORMAT,
    PreparedQueries,
    QueryQuestion,
    SplitWriter,
)
from hardem_jax.data.prepared.records import check_not_empty
from hardem_jax.solutions.sql.engine import check_query
from hardem_jax.solutions.sql.enumeration import ROW_WIDTH, ExecutionError, Query, SqlRules, Table

# Reasons of `ExclusionCounts`, for questions left out:
NOT_ANNOTATED = "no annotated query"
OUTSIDE_TABLE = "annotated query for columns or operators that there are not"
OUTSIDE_RULES = "annotated query with conditions that the rules exclude"
NOT_A_SPAN = "value of the annotated query is no span of the question"


def supervised_split(
    folder: Path,
    gold: Mapping[str, Query],
    out: Path,
    *,
    exclusions: ExclusionCounts | None = None,
    replace: bool = False,
) -> dict[str, Any]:
    """The same split for full supervision: the annotated query is all of Z.

    Its values are the first spans of the question with the same text in either case. Conditions
    are sorted as in every Z.

    Args:
        folder: a prepared split.
        gold: annotated query by question id.
        out: to be created; it may exist if it is empty.
        exclusions: counts the questions left out: no annotated query, for columns or operators that
            there are not, with conditions that the rules of the split exclude (more than
            ``max_conditions``, or several on one column), with a value that is no span.
        replace: whether a complete split of this kind is replaced.

    Returns:
        The content of ``meta.json``.

    Raises:
        InputError: ``folder`` is no prepared split, or ``out`` cannot be written.
    """
    exclusions = ExclusionCounts() if exclusions is None else exclusions
    split = PreparedQueries(folder)
    with new_folder(out, format=FORMAT, replace=replace) as partial:
        writer = SplitWriter(partial)
        for question in split.questions:
            table = split.tables[question.table_id]
            row = _annotated_row(question, table, gold.get(question.id), split.rules)
            if isinstance(row, str):
                exclusions.add(row, question.id)
                continue
            writer.write(dataclasses.replace(question, queries=row[None], num_queries=1), table)
        check_not_empty(out, writer.num_questions, False, exclusions)
        return writer.close(split.meta | {"supervised": True}, exclusions)


def gold_in_solutions(question: QueryQuestion, query: Query) -> int:
    """Where the annotated query is in Z: its first row with the same logical form; -1 if nowhere.

    Conditions may be in any order, and values are compared as text in lower case, as in
    `hardem_jax.metrics.wikisql.logical_form_match`. For measuring, never for training.

    Args:
        question: with its Z.
        query: annotated.

    Example:
        >>> from hardem_jax.data.readers.table_jsonl import TableQuestion
        >>> from hardem_jax.data.prepared.queries import query_question
        >>> from hardem_jax.solutions.sql.enumeration import Condition
        >>> table = Table("1-1", ("player", "no."), ("text", "real"), (("ann", 7.0), ("bo", 9.0)))
        >>> asked = TableQuestion("q", "Who has 7?", table, ("ann",))
        >>> found = query_question(asked, SqlRules())
        >>> gold_in_solutions(found, Query(0, 0, (Condition(1, 0, 7),)))
        1
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


def _annotated_row(
    question: QueryQuestion, table: Table, query: Query | None, rules: SqlRules
) -> np.ndarray | str:
    """The row of Z, or why there is none."""
    if query is None:
        return NOT_ANNOTATED
    try:
        check_query(table, query)
    except ExecutionError:
        return OUTSIDE_TABLE
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
