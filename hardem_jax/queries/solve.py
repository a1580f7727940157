"""Z of a question about a table: all queries of that result."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from hardem_jax.errors import InputError
from hardem_jax.queries.examples import QueryQuestion
from hardem_jax.queries.solutions.columns import plain_value, same_cells
from hardem_jax.queries.solutions.enumeration import SqlRules, enumerate_sql
from hardem_jax.queries.solutions.types import ROW_WIDTH
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.metrics import Denotation
from hardem_jax.tables.table import Cell, split_words

NO_QUERY = "no query gives the answer"

# and warning, for questions kept:
FEWER_CONDITIONS = "too many combinations, queries with most conditions not tried"


def query_question(question: TableQuestion, rules: SqlRules) -> QueryQuestion:
    """The question with its Z.

    Raises:
        InputError: question, table or answer are beyond what Z can hold.
    """
    asked = unsolved(question)
    for cell in question.answer:
        if isinstance(cell, int) and not -(2**63) <= cell < 2**63:
            raise InputError(f"answer: expected integers of 64 bits or text, found {cell!s:.40}")
    found = enumerate_sql(
        question.table,
        question.question,
        question.answer,
        rules,
        words=asked.words,
        match=answer_match(question),
    )
    return dataclasses.replace(
        asked,
        queries=found.queries,
        num_queries=found.size,
        max_conditions=found.max_conditions,
    )


def unsolved(question: TableQuestion) -> QueryQuestion:
    """The question with an empty Z."""
    return QueryQuestion(
        id=question.id,
        question=question.question,
        table_id=question.table.id,
        answer=question.answer,
        match=question.match,
        values=question.values,
        words=split_words(question.question),
        queries=np.zeros((0, ROW_WIDTH), np.int16),
        num_queries=0,
    )


def answer_match(
    question: TableQuestion | QueryQuestion,
) -> Callable[[Sequence[Cell]], bool] | None:
    """What decides whether a result is the answer, in Z as in scores; None for "execution".

    Raises:
        TypeError: an answer matched by denotation is not a list of texts.
    """
    if question.match == "cells":
        return same_cells(question.answer)
    if question.match == "execution":
        return None
    return Denotation(question.answer_texts, question.values).matches


def missing_cell(match: str, answer: Sequence[Cell], rows: Iterable[Iterable[Cell]]) -> str:
    """The first text of an answer that no cell can match, in words; "" if there is none.

    Example:
        >>> missing_cell("cells", ["bo"], [["Ann", 7]]), missing_cell("cells", ["7"], [["Ann", 7]])
        ("no cell is the text 'bo'", '')
    """
    if match == "denotation":  # has many ways to match
        return ""
    read = plain_value if match == "cells" else str.lower
    known = {read(cell) for row in rows for cell in row if isinstance(cell, str)}
    for cell in answer:
        # A number may be that of a cell, or an aggregate.
        if isinstance(cell, str) and isinstance(text := read(cell), str) and text not in known:
            return f"no cell is the text {cell!r:.60}"
    return ""
