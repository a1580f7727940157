"""The examples of all tasks: as readers yield them, and with their numbers and Z."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hardem_jax.solutions.equations.enumeration import NumberTable
from hardem_jax.solutions.sql.types import MAX_CONDITIONS, Cell, Query, Table

#: The choice that says that the documents hold no answer.
UNKNOWN = "unknown"


def is_unknown(choice: str) -> bool:
    """Whether a choice says that there is no answer.

    Example:
        >>> is_unknown("Unknown"), is_unknown("no")
        (True, False)
    """
    return choice.lower() == UNKNOWN


@dataclass(frozen=True)
class Document:
    """A text that may contain an answer.

    Attributes:
        id: unique within its data set; names the source (file, article and paragraph).
        text: non-empty; all character offsets in the project refer to this string.

    Example:
        >>> Document(id="Rome#0", text="Rome is old.").text[0:4]
        'Rome'
    """

    id: str
    text: str


@dataclass(frozen=True)
class ReadingExample:
    """A question, its documents, and the answer strings that serve as weak supervision.

    Attributes:
        id: question id, by which predictions are keyed.
        question: non-empty text.
        documents: at least one, in the order of the file.
        aliases: distinct strings to search for in `documents` to build Z (Min et al., 2019,
            section 4); empty if a file for prediction gives no answers.
        golds: reference answers for the official metric, starting with the one to display;
            empty if a file for prediction gives no answers.
        true_mention: (index into `documents`, start, end) of the annotated mention, in
            characters, end exclusive; None if unknown. For measurement only, never for training.
        mentions: Z as given by the file, in its order, each like `true_mention`; None if the
            file gives no Z, an empty tuple if it gives an empty one.
        all_required: the answer consists of all `aliases`, each at one or more of its mentions,
            instead of any one of them.

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
    all_required: bool = False


@dataclass(frozen=True)
class OpenQuestion:
    """A question and the strings that count as its answer.

    Attributes:
        id: question id, by which predictions are keyed.
        question: text with at least one word.
        answers: reference answers for the official metric, starting with the one to display;
            empty if a file for prediction gives none.

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
        title: title of the article; may be empty.
        text: the passage, without the title.
        score: the retriever's score, comparable only within a question; None if unknown.
        has_answer: whether the text mentions an answer; None if unknown.
    """

    id: str
    title: str
    text: str
    score: float | None = None
    has_answer: bool | None = None


@dataclass(frozen=True)
class NumericExample:
    """A question about a passage whose answer is a number.

    Attributes:
        id: question id, by which predictions are keyed.
        passage_id: shared by the questions on one passage, which are consecutive.
        passage: non-empty text, possibly truncated at the end.
        question: non-empty text.
        answer: y, finite; None in files for prediction.
        golds: the answer and the validated answers as in the file, for
            `hardem_jax.metrics.drop`: objects with "number", "date" and "spans".
        true_equation: the correct row ``(n1, o1, n2, o2)`` if known, as in a synthetic corpus.
            For measurement only, never for training.
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
            (golds are a list once they have been on disk).
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


#: How results are compared with an answer, see `data.solve.answer_match`.
Match = Literal["cells", "execution", "denotation"]


@dataclass(frozen=True)
class TableQuestion:
    """A question about a table with its answer but no query.

    Attributes:
        id: question id, by which predictions are keyed.
        question: non-empty text.
        table: the table; readers convert its texts to lower case.
        answer: cells of a query's result, or an answer written by a person.
        match: how results are compared with the answer: "cells" as a person does, see `same_cells`;
            "execution" requires equality (WikiSQL); "denotation" uses
            `hardem_jax.metrics.wikitablequestions`.
        values: for "denotation", the number or date of each item if the data gives it.
    """

    id: str
    question: str
    table: Table
    answer: tuple[Cell, ...]
    match: Match = "execution"
    values: tuple[str, ...] | None = None

    @property
    def answer_texts(self) -> tuple[str, ...]:
        """Returns the answer of a question that is matched by denotation.

        Raises:
            TypeError: a cell is not text, which only "denotation" rules out.
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
            (tuples are lists once they have been on disk).
        table_id: of its table.
        words: ``[W, 2]`` int32 characters of the question's words, see `split_words`.
        queries: ``[Z, 15]`` int16, see `hardem_jax.solutions.sql.Query.from_row`.
        num_queries: |Z| before the rules' cap.
        max_conditions: of the queries that were tried, see `hardem_jax.solutions.sql.Solutions`.
        log_weights: ``[Z]`` float32 log-scores of the queries from outside, see
            `hardem_jax.data.scores`; None without.
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
    log_weights: np.ndarray | None = None

    answer_texts = TableQuestion.answer_texts


@dataclass(frozen=True)
class ProgramQuestion:
    """A question with its Z, programs.

    Attributes:
        id, question, table_id, words: as in `QueryQuestion`.
        answer: items, written by a person (a list once it has been on disk).
        values: number or date of each item if the data gives it, likewise.
        fields: ``[F, 3]`` int32, of every field that has values: its code, the number of rows that
            have one, and the number of distinct ones. See `hardem_jax.solutions.programs.types`.
        links: ``[M, 4]`` int16, conditions that the question's words allow, see `Links`.
        link_rows: ``[M]`` int32, how many rows satisfy each.
        programs: ``[Z, 5]`` int16, see `Program.from_row`.
        num_programs: |Z| before the rules' cap.
    """

    id: str
    question: str
    table_id: str
    answer: Sequence[str]
    values: Sequence[str] | None
    words: np.ndarray
    fields: np.ndarray
    links: np.ndarray
    link_rows: np.ndarray
    programs: np.ndarray
    num_programs: int


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
