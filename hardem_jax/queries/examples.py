"""Questions with Z, queries, and those of WikiSQL's files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardem_jax.queries.solutions.types import MAX_CONDITIONS, Query
from hardem_jax.tables.examples import Match, TableQuestion
from hardem_jax.tables.table import Cell, Table


@dataclass(frozen=True)
class QueryQuestion:
    """A question with its Z.

    Attributes:
        id, question, answer, match, values: as in `TableQuestion`
            (tuples are lists once they have been on disk).
        table_id: of its table.
        words: ``[W, 2]`` int32 characters of the question's words, see `split_words`.
        queries: ``[Z, 15]`` int16, see `hardem_jax.queries.solutions.types.Query.from_row`.
        num_queries: |Z| before the rules' cap.
        max_conditions: of the queries that were tried, see
            `hardem_jax.queries.solutions.Solutions`.
    """

    id: str
    question: str
    table_id: str
    answer: Sequence[Cell]
    match: Match
    values: Sequence[str] | None
    words: np.ndarray
    queries: np.ndarray
    num_queries: int
    max_conditions: int = MAX_CONDITIONS

    answer_texts = TableQuestion.answer_texts


@dataclass(frozen=True, kw_only=True)
class AnnotatedQuestion(TableQuestion):
    """A question whose Z is the annotated query: full supervision, to compare with.

    Attributes:
        query: annotated; it executes to ``answer``.
    """

    query: Query


@dataclass(frozen=True)
class WikiSqlExample:
    """A question with its annotated query, as the official files have it.

    Attributes:
        id: split and line number from 0, as in "train-17".
        question: non-empty text.
        table: cells in lower case, as in the official ``.db``.
        query: the annotated query, with values as in the file; None if there is none.
    """

    id: str
    question: str
    table: Table
    query: Query | None
