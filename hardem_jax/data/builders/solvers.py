"""Examples in, records with Z out: the part of a build that takes time, done in any process.

A solver is a frozen dataclass of rules. It can be pickled, and what it makes of an example depends
only on that example and the rules, so it does not matter which machine runs it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from hardem_jax.data.annotations import annotated_row
from hardem_jax.data.builders.features import (
    Kind,
    Record,
    numeric_record,
    program_record,
    query_record,
    reading_record,
)
from hardem_jax.data.examples import (
    AnnotatedQuestion,
    NumericExample,
    ProgramQuestion,
    QueryQuestion,
    ReadingExample,
    TableQuestion,
)
from hardem_jax.data.readers.narrativeqa import add_rouge_mentions
from hardem_jax.data.solve import (
    NOT_ENUMERABLE,
    MakeMatcher,
    MakeTarget,
    numeric_question,
    program_question,
    query_question,
)
from hardem_jax.errors import InputError
from hardem_jax.solutions.equations.enumeration import EquationRules
from hardem_jax.solutions.equations.numbers import NumberConfig
from hardem_jax.solutions.programs.rules import ProgramRules
from hardem_jax.solutions.programs.types import ROW_WIDTH as PROGRAM_WIDTH
from hardem_jax.solutions.rouge.search import RougeRules
from hardem_jax.solutions.spans import AliasMatcher, enumerate_spans
from hardem_jax.solutions.sql.enumeration import ROW_WIDTH, SqlRules
from hardem_jax.solutions.sql.enumeration import split_words as split_question
from hardem_jax.words import split_words


class Solver(Protocol):
    """Finds Z."""

    kind: ClassVar[Kind]

    def records(self, examples: Sequence[Any], /) -> Iterator[Record]:
        """As many records as examples, in their order."""
        ...


def with_mentions(example: ReadingExample) -> ReadingExample:
    """The example with every mention of an alias in every document as its ``mentions``.

    Example:
        >>> from hardem_jax.data.examples import Document
        >>> documents = (Document("a", "Rome is old."), Document("b", "Old Rome, new Rome"))
        >>> with_mentions(ReadingExample("q", "?", documents, ("rome",), ("rome",))).mentions
        ((0, 0, 4), (1, 4, 8), (1, 14, 18))
    """
    matcher = AliasMatcher(example.aliases)
    found = tuple(
        (index, start, end)
        for index, document in enumerate(example.documents)
        for start, end in enumerate_spans(split_words(document.text), matcher).tolist()
    )
    return dataclasses.replace(example, mentions=found)


@dataclasses.dataclass(frozen=True)
class SpanSolver:
    """Mentions of the answer (Min et al., 2019, section 4.1)."""

    kind: ClassVar[Kind] = "reading"

    def records(self, examples: Sequence[ReadingExample]) -> Iterator[Record]:
        return map(reading_record, map(with_mentions, examples))


@dataclasses.dataclass(frozen=True)
class RougeSolver:
    """Spans that resemble the answer (section 4.1, NarrativeQA)."""

    rules: RougeRules = RougeRules()
    kind: ClassVar[Kind] = "reading"

    def records(self, examples: Sequence[ReadingExample]) -> Iterator[Record]:
        return map(reading_record, add_rouge_mentions(examples, self.rules))


@dataclasses.dataclass(frozen=True)
class EquationSolver:
    """Equations that give the answer (section 4.2)."""

    numbers: NumberConfig = NumberConfig()
    rules: EquationRules = EquationRules()
    kind: ClassVar[Kind] = "numeric"

    def records(self, examples: Sequence[NumericExample]) -> Iterator[Record]:
        for example in examples:
            yield numeric_record(numeric_question(example, self.numbers, self.rules))


@dataclasses.dataclass(frozen=True)
class QuerySolver:
    """Queries that execute to the answer (section 4.3); for an `AnnotatedQuestion`, its own.

    Attributes:
        rules: Z_tot.
        denotation: see `data.solve.query_question`; a class or function of a module.
    """

    rules: SqlRules = SqlRules()
    denotation: MakeMatcher | None = None
    kind: ClassVar[Kind] = "queries"

    def records(self, examples: Sequence[TableQuestion]) -> Iterator[Record]:
        for example in examples:
            try:
                question, defect = query_question(example, self.rules, self.denotation), ""
            except InputError as error:  # beyond what Z can hold: kept, and marked
                question, defect = _without_queries(example), f"{NOT_ENUMERABLE}: {error}"
            # A question that no query answers is not one to train on, whatever was annotated.
            if isinstance(example, AnnotatedQuestion) and question.num_queries:
                row = annotated_row(question, example.query, self.rules)
                if isinstance(row, str):
                    question, defect = _without_queries(example), row
                else:
                    question = dataclasses.replace(question, queries=row[None], num_queries=1)
            yield query_record(question, example.table, defect)


@dataclasses.dataclass(frozen=True)
class ProgramSolver:
    """Programs whose result matches the answer.

    Attributes:
        rules: Z_tot.
        denotation: see `data.solve.program_question`; a class or function of a module.
    """

    rules: ProgramRules
    denotation: MakeTarget
    kind: ClassVar[Kind] = "programs"

    def records(self, examples: Sequence[TableQuestion]) -> Iterator[Record]:
        for example in examples:
            try:
                question, defect = program_question(example, self.rules, self.denotation), ""
            except InputError as error:  # beyond what Z can hold: kept, and marked
                question, defect = _without_programs(example), f"{NOT_ENUMERABLE}: {error}"
            yield program_record(question, example.table, defect)


def _without_programs(example: TableQuestion) -> ProgramQuestion:
    return ProgramQuestion(
        id=example.id,
        question=example.question,
        table_id=example.table.id,
        answer=example.answer_texts,
        values=example.values,
        words=split_question(example.question),
        fields=np.zeros((0, 3), np.int32),
        links=np.zeros((0, 4), np.int16),
        link_rows=np.zeros(0, np.int32),
        programs=np.zeros((0, PROGRAM_WIDTH), np.int16),
        num_programs=0,
    )


def _without_queries(example: TableQuestion) -> QueryQuestion:
    return QueryQuestion(
        id=example.id,
        question=example.question,
        table_id=example.table.id,
        answer=example.answer,
        match=example.match,
        values=example.values,
        words=split_question(example.question),
        queries=np.zeros((0, ROW_WIDTH), np.int16),
        num_queries=0,
    )
