"""The examples of all tasks: as readers yield them, and with their numbers and Z."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hardem_jax.solutions.equations.enumeration import NumberTable
from hardem_jax.solutions.sql.types import MAX_CONDITIONS, Cell, Query, Table


@dataclass(frozen=True)
class Document:
    """A text in which an answer may stand.

    Attributes:
        id: unique within its data set; names the source (file, article and paragraph).
        text: non-empty; all character offsets of the project point into this string.

    Example:
        >>> Document(id="Rome#0", text="Rome is old.").text[0:4]
        'Rome'
    """

    id: str
    text: str


@dataclass(frozen=True)
class ReadingExample:
    """A question, its documents, and the answer strings that stand in for supervision.

    Attributes:
        id: question id, as predictions are keyed.
        question: non-empty text.
        documents: at least one, in the order of the file.
        aliases: distinct strings searched for in `documents` to build Z (Min et al.,
            2019, section 4); empty where a file for prediction gives no answers.
        golds: strings the official metric compares with, the one to show first; empty
            likewise.
        true_mention: (index into `documents`, start, end) of the annotated mention, in
            characters, end exclusive; None where unknown. For measuring, never for training.
        mentions: Z as the file itself gives it, in its order, each like `true_mention`;
            None where the file gives none, an empty tuple where it gives an empty Z.

    Example:
        >>> example = ReadingExample(
        ...     id="q1",
        ...     question="Which city is old?",
        ...     documents=(Document("Rome#0", "Rome is old."),),
        ...     aliases=("Rome", "Roma"),
        ...     golds=("Rome", "Roma"),
        ...     true_mention=(0, 0, 4),
        ... )
        >>> document, start, end = example.true_mention
        >>> example.documents[document].text[start:end]
        'Rome'
    """

    id: str
    question: str
    documents: tuple[Document, ...]
    aliases: tuple[str, ...]
    golds: tuple[str, ...]
    true_mention: tuple[int, int, int] | None = None
    mentions: tuple[tuple[int, int, int], ...] | None = None


@dataclass(frozen=True)
class OpenQuestion:
    """A question and the strings that count as its answer.

    Attributes:
        id: question id, as predictions are keyed.
        question: text with at least one word.
        answers: strings that the official metric compares with, the one to show first; empty
            where a file for prediction gives none.

    Example:
        >>> OpenQuestion("q1", "which city is old", ("Rome", "Roma")).answers
        ('Rome', 'Roma')
    """

    id: str
    question: str
    answers: tuple[str, ...]


@dataclass(frozen=True)
class Passage:
    """A retrieved passage.

    Attributes:
        id: unique within the collection.
        title: of the article; may be empty.
        text: the passage, without the title.
        score: the retriever's, comparable within a question; None where unknown.
        has_answer: whether the text mentions an answer; None where unknown.
    """

    id: str
    title: str
    text: str
    score: float | None = None
    has_answer: bool | None = None


@dataclass(frozen=True)
class NumericExample:
    """A question on a passage whose answer is a number.

    Attributes:
        id: question id, as predictions are keyed.
        passage_id: shared by the questions on one passage, which follow one another.
        passage: non-empty text, perhaps cut; offsets are those of the whole text.
        question: non-empty text.
        answer: y, finite; None for a question that is only asked.
        golds: the answer and the validated answers as the file has them, for
            `hardem_jax.metrics.drop`: objects with "number", "date" and "spans".
        true_equation: the row ``(n1, o1, n2, o2)`` that is meant, where it is known, as in a
            generated corpus. For measuring, never for training.
    """

    id: str
    passage_id: str
    passage: str
    question: str
    answer: float | None
    golds: tuple[dict[str, Any], ...]
    true_equation: tuple[int, int, int, int] | None = None


@dataclass(frozen=True)
class NumericQuestion:
    """A question with its numbers and its Z.

    Attributes:
        id, passage_id, passage, question, golds: as in `NumericExample`
            (golds are a list once they were on disk).
        spans: ``[M, 2]`` int32, characters of every number of the text: those of the passage,
            then those of the question, each in its own text.
        values: ``[N]`` float64, special numbers first, then those of ``spans``.
        kinds: ``[N]`` int8, SPECIAL, PASSAGE or QUESTION.
        equations: ``[Z, 4]`` int32, all of Z in document order.
        true_equation: index of the true equation in Z, -1 if unknown. For measuring, never
            for training.
    """

    id: str
    passage_id: str
    passage: str
    question: str
    golds: Sequence[dict[str, Any]]
    spans: np.ndarray
    values: np.ndarray
    kinds: np.ndarray
    equations: np.ndarray
    true_equation: int = -1

    @property
    def table(self) -> NumberTable:
        """The numbers by slot."""
        return NumberTable(self.values, self.kinds)


Match = Literal["execution", "denotation"]


@dataclass(frozen=True)
class TableQuestion:
    """A question on a table with its answer, and nothing that says how it is found.

    Attributes:
        id: as predictions are keyed.
        question: non-empty text.
        table: what the question is about; its readers have texts in lower case.
        answer: cells of a query's result, or what people wrote.
        match: when a result is the answer: "execution", if it is equal (WikiSQL); "denotation", if
            it matches by `hardem_jax.metrics.wikitablequestions`.
        values: for "denotation", the number or date of each item where the data says so.
    """

    id: str
    question: str
    table: Table
    answer: tuple[Cell, ...]
    match: Match = "execution"
    values: tuple[str, ...] | None = None

    @property
    def answer_texts(self) -> tuple[str, ...]:
        """The answer of a question matched by denotation.

        Raises:
            TypeError: it holds what is no text, as answers matched by execution may.
        """
        texts = tuple(cell for cell in self.answer if isinstance(cell, str))
        if len(texts) != len(self.answer):
            raise TypeError(f"question {self.id}: expected texts, found {self.answer}")
        return texts


@dataclass(frozen=True)
class QueryQuestion:
    """A question with its Z.

    Attributes:
        id, question, answer, match, values: as in `TableQuestion`
            (tuples are lists once they were on disk).
        table_id: of its table.
        words: ``[W, 2]`` int32 characters of the question's words, see `split_words`.
        queries: ``[Z, 15]`` int16, see `hardem_jax.solutions.sql.Query.from_row`.
        num_queries: |Z| before the rules' cap.
        max_conditions: of the queries that were tried, see `hardem_jax.solutions.sql.Solutions`.
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
        query: what was annotated, values as they are in the file; None if nothing was.
    """

    id: str
    question: str
    table: Table
    query: Query | None
