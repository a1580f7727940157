"""Queries on a table, to look at."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from hardem_jax.data.build_options import WikiSQLOptions
from hardem_jax.data.examples import Match, QueryQuestion, TableQuestion
from hardem_jax.data.solve import missing_cell, query_question
from hardem_jax.errors import InputError
from hardem_jax.metrics.wikitablequestions import Denotation, result_texts
from hardem_jax.notebook.base import Solution, Z, count
from hardem_jax.notebook.marks import Mark, classes, marked_text
from hardem_jax.notebook.page import element
from hardem_jax.notebook.tables import to_cell, to_table
from hardem_jax.solutions.arguments import check_choice, check_text
from hardem_jax.solutions.sql.columns import mask_rows
from hardem_jax.solutions.sql.engine import rows_of_conditions
from hardem_jax.solutions.sql.enumeration import SqlRules
from hardem_jax.solutions.sql.types import (
    AGGREGATORS,
    Cell,
    Condition,
    Query,
    Table,
    column_names,
    plain_cell,
)

_DEFAULT = WikiSQLOptions().rules
# Larger tables show the rows that solutions use, up to this many.
_ROWS = 40


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

    def _title(self) -> str:
        answer = ", ".join(map(cell_text, self.answer)) or "(none)"
        return f"{count(len(self), 'query', 'queries')} with the answer {answer}"

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

    def _place(self, solution: TableQuery) -> str:
        return rows_text(solution.rows, len(self.table.rows))

    def _body(self) -> list[Element]:
        return [
            element("p", "Question", class_="label"),
            marked_text(
                self.question, self.marks(), self._listed(), self._strength, labelled=False
            ),
            element("p", f"Table of {count(len(self.table.rows), 'row')}", class_="label"),
            element("div", self._rows(self._listed()), class_="rows"),
        ]

    def marks(self) -> list[Mark]:
        """The words of the question that are values of conditions."""
        uses: dict[tuple[int, int], list[int]] = {}
        for index, z in enumerate(self):
            for span in dict.fromkeys(z.values):
                uses.setdefault(span, []).append(index)
        return [Mark(*span, tuple(used)) for span, used in uses.items()]

    def _rows(self, listed: frozenset[int]) -> Element:
        # (row, column) -> queries that select the cell, and those that compare it.
        selected: dict[tuple[int, int], list[int]] = {}
        compared: dict[tuple[int, int], list[int]] = {}
        for index, z in enumerate(self):
            columns = {condition.column for condition in z.query.conditions}
            for row in (-1, *z.rows):
                selected.setdefault((row, z.query.select), []).append(index)
                for column in columns:
                    compared.setdefault((row, column), []).append(index)

        def cell(tag: str, row: int, column: int, *content: Element | str) -> Element:
            solved, asked = selected.get((row, column), ()), compared.get((row, column), ())
            pointed = sorted(listed.intersection((*solved, *asked)))
            names = ["used"] * bool(solved) + ["asked"] * bool(asked)
            names += ["number"] * (self.table.types[column] == "real")
            found = element(tag, *content, class_=classes(pointed, *names))
            if solved:
                found.set("style", f"--p:{self._strength(solved):.3f}")
            return found

        columns = range(len(self.table.header))
        heads = [cell("th", -1, column, *self._head(column)) for column in columns]
        table = element("table", element("thead", element("tr", element("th"), *heads)))
        body = element("tbody")
        previous = -1
        for row in self._shown_rows():
            _skip(body, row - previous - 1, len(columns))
            values = [_shown(value) for value in self.table.rows[row]]
            cells = [cell("td", row, column, values[column]) for column in columns]
            body.append(element("tr", element("th", str(row), class_="index"), *cells))
            previous = row
        _skip(body, len(self.table.rows) - previous - 1, len(columns))
        table.append(body)
        return table

    def _head(self, column: int) -> list[Element | str]:
        """A column's head, and the name that solutions have for it where that is another one."""
        head, name = self.table.header[column], column_names(self.table.header)[column]
        return [head] if name == head else [head, " ", element("span", name, class_="note")]

    def _shown_rows(self) -> list[int]:
        total = len(self.table.rows)
        if total <= _ROWS:
            return list(range(total))
        # A solution of many rows says little of any of them.
        used = {row for z in self if len(z.rows) <= _ROWS for row in z.rows}
        return sorted(used)[:_ROWS] or list(range(_ROWS))


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
            `hardem_jax.solutions.sql.Table`.
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
        InputError: the table has columns of different lengths, or one of the arguments is beyond
            what Z can hold.
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
    # A `Table` has its cells as they are.
    cells = _answer(answer, match, plain_cell if read is table else to_cell)
    asked = TableQuestion("question", question, read, cells, match)
    found = query_question(asked, rules, Denotation)
    return stored_queries(found, read, rules)


def stored_queries(found: QueryQuestion, table: Table, rules: SqlRules) -> Queries:
    """The queries of a question whose Z is known, such as one of a build.

    Args:
        found: the question with its Z, or with a part of it.
        table: of the question.
        rules: that Z follows.
    """
    question, words = found.question, found.words

    @functools.cache
    def rows_of(conditions: tuple[Condition, ...]) -> tuple[int, ...]:
        return tuple(mask_rows(rows_of_conditions(table, conditions)))

    solutions = []
    for row in found.queries:
        query = Query.from_row(row, question, words)
        numbers = tuple(row.tolist())
        used = [numbers[3 + 4 * i : 7 + 4 * i] for i in range(numbers[2])]
        solutions.append(
            TableQuery(
                query.text(table.header),
                query,
                AGGREGATORS[query.aggregator],
                table.header[query.select],
                tuple((int(words[a, 0]), int(words[b, 1])) for _, _, a, b in used),
                rows_of(query.conditions),
                numbers,
            )
        )
    size, most, cells = found.num_queries, found.max_conditions, tuple(found.answer)
    return Queries(tuple(solutions), table, question, cells, found.match, size, most, rules)


def _answer(answer: Any, match: Match, convert: Callable[[Any, str], Cell]) -> tuple[Cell, ...]:
    if getattr(answer, "ndim", None) == 0:
        answer = np.asarray(answer)[()]
    many = isinstance(answer, Iterable) and not isinstance(answer, (str, bytes))
    cells = tuple(convert(cell, "answer") for cell in (answer if many else (answer,)))
    return result_texts(cells) if match == "denotation" else cells


def cell_text(cell: Cell) -> str:
    """A cell as people read it.

    Example:
        >>> [cell_text(cell) for cell in (0.1 + 0.2, 6.626e-34, 12467.0, None)]
        ['0.3', '6.626e-34', '12467', 'NULL']
    """
    return "NULL" if cell is None else result_texts([cell])[0]


def rows_text(rows: Sequence[int], total: int) -> str:
    """Some of a table's rows, by their numbers from 0.

    Example:
        >>> rows_text([4], 9), rows_text(range(9), 9), rows_text([0, 2, 3, 5], 9)
        ('row 4', 'every row', 'rows 0, 2, 3, ...')
    """
    if len(rows) == total > 1:
        return "every row"
    few = ", ".join(map(str, rows[:3])) + ", ..." * (len(rows) > 3)
    return f"row{'s' * (len(rows) != 1)} {few}"


def _shown(cell: Cell) -> Element | str:
    if cell is None:
        return element("span", "NULL", class_="null")
    return cell_text(cell)


def _skip(body: Element, rows: int, columns: int) -> None:
    """A line for the rows that are not shown."""
    if rows:
        text = f"… {count(rows, 'row')} …"
        body.append(element("tr", element("td", text, class_="skipped", colspan=str(columns + 1))))
