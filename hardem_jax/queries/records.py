"""Questions on tables with Z, all queries of that result, and their records."""

from __future__ import annotations

import dataclasses
import decimal
import json
import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hardem_jax.data.data_sets import Record, RecordKind
from hardem_jax.data.exclusions import with_help
from hardem_jax.errors import InputError, check_choice
from hardem_jax.queries.annotations import annotated_row
from hardem_jax.queries.examples import AnnotatedQuestion, QueryQuestion
from hardem_jax.queries.solutions.conditions import NUMBER
from hardem_jax.queries.solutions.enumeration import enumerate_sql
from hardem_jax.queries.solutions.types import ROW_WIDTH, SqlRules
from hardem_jax.tables.csv import make_table
from hardem_jax.tables.examples import Match, TableQuestion
from hardem_jax.tables.metrics import Denotation
from hardem_jax.tables.records import TABLE_TEXTS, TableSolver
from hardem_jax.tables.table import MAX_WHOLE, Cell, Table, split_words

NO_QUERY = with_help(
    "no query gives the answer",
    "compare the answer with the cells (several: in their order); programs do more than queries",
)

# and warning, for questions kept:
FEWER_CONDITIONS = "too many combinations, queries with most conditions not tried"


def query_question(question: TableQuestion, rules: SqlRules) -> QueryQuestion:
    """The question with its Z; `InputError` says what is beyond what Z can hold."""
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
    if question.match == "cells" and not found.size:
        cells = tuple(_as_cell(cell, question.table) for cell in question.answer)
        if cells != question.answer:
            return query_question(dataclasses.replace(question, answer=cells), rules)
    return dataclasses.replace(
        asked, queries=found.queries, num_queries=found.size, max_conditions=found.max_conditions
    )


def _as_cell(value: Cell, table: Table) -> Cell:
    """What is in the table in place of a text of its file, such as 175 for "175 cm"."""
    if missing_cell("cells", [value], table.rows):
        [[value]] = make_table("", [""], [[str(value)]]).rows
    return value


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
    """What decides whether a result is the answer, in Z as in scores; None for "execution"."""
    check_choice(question.match, Match, "match")
    if question.match == "cells":
        return SameCells(question.answer)
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


def plain_value(value: Cell) -> Cell:
    """Converts numbers and numeric text to float, and other text to a plain form. Whole numbers
    from 2^53 become integers, which keep all digits."""
    if value is None or value != value:
        return None
    if isinstance(value, str):
        text = " ".join(unicodedata.normalize("NFC", value.casefold()).split())
        number = f"-{text[1:]}" if text[:1] in ("\u2212", "\u2013") else text  # minus, en dash
        if not NUMBER.fullmatch(number):
            return text
        value = number.replace(",", "")
    number = float(value) + 0.0  # turns -0.0 into 0.0
    if abs(number) < MAX_WHOLE or isinstance(value, float):
        return number
    if math.isinf(number):  # digits beyond float64, of which each counts
        return value
    exact = decimal.Decimal(value)
    return int(exact) if exact == exact.to_integral_value() else number


class SameCells:
    """Compares results with an answer as a person does, cell by cell and in order.

    Texts are compared regardless of case, white space and the composition of accents; a number may
    be written as text, with thousands commas; fractions may differ in their last digits.
    ``wanted`` are the cells in plain form.
    """

    def __init__(self, answer: Sequence[Cell]):
        self.wanted = [plain_value(cell) for cell in answer]

    def __call__(self, result: Sequence[Cell]) -> bool:
        return len(result) == len(self.wanted) and all(
            _same(plain_value(cell), value) for cell, value in zip(result, self.wanted, strict=True)
        )

    def holds(self, cell: Cell) -> bool:
        """Whether a cell is one of the answer's."""
        plain = plain_value(cell)
        return any(_same(plain, value) for value in self.wanted)


def _same(cell: Cell, value: Cell) -> bool:
    if not (isinstance(cell, float) and isinstance(value, float)):
        return cell == value
    whole = cell.is_integer() and value.is_integer()  # such as ids, of which each digit counts
    return cell == value if whole else math.isclose(cell, value, rel_tol=1e-12)


def to_query_question(record: Mapping[str, Any]) -> QueryQuestion:
    """The question of a record, without its table; answer and values are lists."""
    return QueryQuestion(
        **RECORDS.values(record, "id", "question", "table_id", "match"),
        answer=json.loads(record["answer"]),
        values=json.loads(record["values"]),
    )


RECORDS = RecordKind(
    name="queries",
    to_example=to_query_question,
    texts=("id", "question", "answer", "match", "values", *TABLE_TEXTS),
    numbers=("num_queries", "max_conditions"),
    arrays={"words": ("int32", 2), "queries": ("int16", ROW_WIDTH)},
    solutions="queries",
    no_solution=NO_QUERY,
    with_table=True,
)


@dataclasses.dataclass(frozen=True)
class QuerySolver(TableSolver):
    """Queries that execute to the answer (section 4.3); for an `AnnotatedQuestion`, its own."""

    rules: SqlRules = SqlRules()
    kind: ClassVar[RecordKind] = RECORDS

    unsolved = staticmethod(unsolved)

    def solve(self, example: TableQuestion) -> tuple[QueryQuestion, str]:
        question = query_question(example, self.rules)
        # A question that no query answers is not one to train on, whatever was annotated.
        if not isinstance(example, AnnotatedQuestion) or not question.num_queries:
            return question, ""
        row = annotated_row(question, example.query, self.rules)
        if isinstance(row, str):
            return unsolved(example), row
        return dataclasses.replace(question, queries=row[None], num_queries=1), ""

    def facts(self, record: Record) -> dict[str, Any]:
        facts = super().facts(record)
        if record["max_conditions"] < self.rules.max_conditions:
            facts["warning"] = FEWER_CONDITIONS
        if not facts["found"]:
            answer, rows = (json.loads(record[name]) for name in ("answer", "rows"))
            facts["note"] = missing_cell(record["match"], answer, rows)
        return facts
