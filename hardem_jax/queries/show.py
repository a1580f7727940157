"""Queries on a table, to look at."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hardem_jax.data.batching.padding import fitting
from hardem_jax.errors import InputError, check_choice, check_text
from hardem_jax.queries.annotations import gold_in_solutions
from hardem_jax.queries.builds import WikiSQL
from hardem_jax.queries.examples import QueryQuestion
from hardem_jax.queries.records import missing_cell, query_question, to_query_question
from hardem_jax.queries.solutions.engine import rows_of_conditions
from hardem_jax.queries.solutions.types import AGGREGATORS, Condition, Query, SqlRules
from hardem_jax.show.base import Solution, Z
from hardem_jax.show.record import (
    Cells,
    Choose,
    Entry,
    Record,
    Text,
    View,
    count,
    everything,
    index_of,
    places_in,
    uses,
)
from hardem_jax.tables.examples import Match, TableQuestion
from hardem_jax.tables.metrics import result_texts
from hardem_jax.tables.records import table_of
from hardem_jax.tables.show import cell_text, grid, rows_text, to_cell, to_table
from hardem_jax.tables.table import Cell, Table, clean_question, mask_rows, plain_cell

_DEFAULT = WikiSQL().rules


@dataclasses.dataclass(frozen=True)
class TableQuery(Solution):
    """A query that executes to the answer.

    Attributes:
        query: its columns, aggregator and conditions by index.
        aggregator: "max", "min", "count", "sum" or "avg"; "" if it selects plain cells.
        column: name of the selected column.
        values: start and exclusive end, in the question, of the value of each condition.
        rows: the rows that meet the conditions, from 0.
        row: ``[15]`` numbers as in training, see `Query.from_row`.
    """

    query: Query
    aggregator: str
    column: str
    values: tuple[tuple[int, int], ...]
    rows: tuple[int, ...]
    row: tuple[int, ...]

    def cells(self) -> Cells:
        """The cells that it selects, and those that its conditions compare."""
        columns = dict.fromkeys(condition.column for condition in self.query.conditions)
        return Cells(self.query.select, self.rows, [(column, self.rows) for column in columns])


@dataclasses.dataclass(frozen=True, repr=False)
class Queries(Z[TableQuery]):
    """Z of a question on a table.

    Attributes:
        table: with the types of its columns.
        question: the question.
        answer: y, a list of cells.
        match: how results were compared with it.
        size: |Z| before the rules' cap; more than `len` if Z was cut.
        max_conditions: of the queries that were tried.
        rules: Z_tot.
    """

    table: Table
    question: str
    answer: tuple[Cell, ...]
    match: Match
    size: int
    max_conditions: int
    rules: SqlRules

    def record(self) -> Record:
        answer = ", ".join(map(cell_text, self.answer)) or "(none)"
        return Record(
            title=f"{count(len(self), 'query', 'queries')} with the answer {answer}",
            notes=self._notes(),
            solutions=[
                Entry(i, z.text, rows_text(z.rows, len(self.table.rows)), cells=z.cells())
                for i, z in enumerate(self)
            ],
            size=len(self),
            texts=[Text("Question", self.question, uses([z.values for z in self]), numbered=False)],
            table=grid(self.table),
            moments=self._moments(),
        )

    def _notes(self) -> list[str]:
        notes = []
        if self.size > len(self) == self.rules.cap:
            notes.append(f"The first of {count(self.size, 'query', 'queries')}.")
        if self.max_conditions < self.rules.max_conditions:
            most = count(self.max_conditions, "condition")
            notes.append(f"Too many combinations: queries with more than {most} were not tried.")
        if not len(self) and not self.is_slice:
            notes.append("No query over the words of the question gives it.")
            if missing := missing_cell(self.match, self.answer, self.table.rows):
                notes.append(f"{missing[0].upper()}{missing[1:]}.")
            if self.match == "execution" and any(isinstance(cell, str) for cell in self.answer):
                notes.append('match="cells" also accepts "7" for the number 7.')
        return notes


def find_queries(
    table: Any,
    question: str,
    answer: Cell | Iterable[Cell],
    match: Match = "cells",
    rules: SqlRules = _DEFAULT,
) -> Queries:
    """Finds every query that executes to the answer: Z of WikiSQL (Min et al., 2019, section 4.3).

    A query selects a column, perhaps aggregated, where up to three conditions hold; the values of
    conditions are words of the question.

    Args:
        table: a dict from column name to values, a pandas DataFrame, the path of a CSV file, or a
            `hardem_jax.queries.solutions.Table`.
        question: its words are the values of conditions.
        answer: a cell, or the list of all cells that a query must return; dates, True and NaN are
            read as those of a column are.
        match: "cells" requires the same cells as a person reads them, where "7" is 7; "execution"
            compares as WikiSQL does, where it is not; "denotation" as WikiTableQuestions does,
            which also reads dates, and ignores the order of cells and what stands in brackets.
        rules: Z_tot.

    Returns:
        The queries, those with fewer conditions first; at most ``rules.cap``.

    Raises:
        InputError: columns differ in length, or an argument is beyond what Z can hold.
        TypeError: an argument has the wrong type.

    Example:
        >>> table = {"Player": ["Ann", "Bo", "Cy"], "No.": [7, 8, 9]}
        >>> z = find_queries(table, "Who wears 8?", "Bo")
        >>> z
        1 query with the answer Bo
          [0]  SELECT Player WHERE No. = '8'  row 1
        >>> z[0].column, z[0].values, z[0].rows
        ('Player', ((10, 11),), (1,))
    """
    check_text(question, "question")
    if not question.strip():
        raise InputError("question: expected a question, found only blanks")
    check_choice(match, Match, "match")
    read = to_table(table)
    # A `Table` has its cells as they are, those of others are cleaned.
    cells = _answer(answer, match, plain_cell if read is table else to_cell)
    text = question if read is table else clean_question(question)
    asked = TableQuestion("question", text, read, cells, match)
    return stored_queries(query_question(asked, rules), read, rules)


def stored_queries(found: QueryQuestion, table: Table, rules: SqlRules) -> Queries:
    """The queries of a question whose Z, or a part of it, is known."""
    question, words = found.question, found.words

    @functools.cache
    def rows_of(conditions: tuple[Condition, ...]) -> tuple[int, ...]:
        return tuple(mask_rows(rows_of_conditions(table, conditions)))

    def read(row: np.ndarray) -> TableQuery:
        query, numbers = Query.from_row(row, question, words), tuple(row.tolist())
        spans = (numbers[5 + 4 * i : 7 + 4 * i] for i in range(numbers[2]))
        return TableQuery(
            query.text(table.header),
            query,
            AGGREGATORS[query.aggregator],
            table.header[query.select],
            tuple((int(words[a, 0]), int(words[b, 1])) for a, b in spans),
            rows_of(query.conditions),
            numbers,
        )

    solutions = tuple(map(read, found.queries))
    size, most, cells = found.num_queries, found.max_conditions, tuple(found.answer)
    return Queries(solutions, table, question, cells, found.match, size, most, rules)


def query_texts(question: QueryQuestion, rows: np.ndarray, table: Table) -> list[str]:
    text, words = question.question, question.words
    return [Query.from_row(row, text, words).text(table.header) for row in rows]


def query_record(
    question: QueryQuestion, table: Table, rules: SqlRules, choose: Choose = everything
) -> Record:
    """A question on a table with its queries."""
    chosen = choose(query_texts(question, question.queries, table))
    part = dataclasses.replace(question, queries=question.queries[list(chosen)])
    answer = ", ".join(map(cell_text, question.answer))
    record = stored_queries(part, table, rules).record()
    return record.of_question(question.question, answer, chosen, question.num_queries)


def question_record(data: Any, index: int, choose: Choose = everything) -> Record:
    """A question of `hardem_jax.queries.task.QueryQuestions` with its Z."""
    question = data.questions[index]
    return query_record(question, data.tables[question.table_id], data.rules, choose)


def built_record(
    record: Mapping[str, Any], options: Mapping[str, Any], choose: Choose = everything
) -> Record:
    """A record of a build with its Z."""
    rules = SqlRules(**options["rules"])
    return query_record(to_query_question(record), table_of(record), rules, choose)


def _answer(answer: Any, match: Match, convert: Callable[[Any, str], Cell]) -> tuple[Cell, ...]:
    if getattr(answer, "ndim", None) == 0:
        answer = np.asarray(answer)[()]
    many = isinstance(answer, Iterable) and not isinstance(answer, (str, bytes))
    cells = tuple(convert(cell, "answer") for cell in (answer if many else (answer,)))
    return result_texts(cells) if match == "denotation" else cells


def views(
    task: Any, config: Any, data: Any, inputs: Any, readings: Sequence[tuple[int, Any]]
) -> list[View]:
    """What a model says about each question."""
    del config
    return [_view(task, data, data.questions[i], inputs[i], reading) for i, reading in readings]


def _view(task: Any, data: Any, question: QueryQuestion, read: Any, reading: Any) -> View:
    from hardem_jax.queries.task import cells_text  # imports jax

    table = data.tables[question.table_id]
    # Those that the model reads in full and that its row has room for.
    rows = read.queries[fitting(read.id, len(read.queries), len(reading.solutions))]
    answer = task.answer(question, table, reading)
    gold = (data.golds or {}).get(question.id)
    known = dataclasses.replace(question, queries=rows)
    return View(
        id=question.id,
        question=question.question,
        answer=cells_text(question.answer),
        solutions=query_texts(question, rows, table),
        probabilities=np.exp(reading.solutions).tolist(),
        true=next(iter(gold_in_solutions(known, gold)), -1) if gold else -1,
        prediction="" if answer is None else answer.query.text(table.header),
        probability=0.0 if answer is None else float(np.exp(answer.log_prob)),
        predicted=-1 if answer is None else index_of(rows, answer.row),
        places=places_in(question.queries, rows),
    )
