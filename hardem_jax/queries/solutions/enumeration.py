"""SQL queries as solutions (Min et al., 2019, section 3.2): Z from a table, a question, an answer.

Z_tot holds every query allowed by `SqlRules`; Z holds those that execute to the answer. They are
not executed one by one: sets of conditions with the same rows have the same results, so each
distinct set of rows is compared with the answer once per column and aggregator, in arrays, and
only the matching queries are written out.

Z is ordered by number of conditions, selected column, aggregator, and then by the first, second
and third condition, each by column, operator, first word and last word; "first-only" takes its
first query. Conditions within a query are sorted in the same way, so that each set of conditions
is one query.

`AnswerTest` tells whether single queries are in Z, without enumerating it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from hardem_jax.errors import check_many, check_text
from hardem_jax.queries.solutions.columns import TypedTable, typed_table
from hardem_jax.queries.solutions.combine import Combinations
from hardem_jax.queries.solutions.conditions import SpanCondition, find_conditions
from hardem_jax.queries.solutions.engine import ExecutionError, OfficialEngine, execute_sql
from hardem_jax.queries.solutions.results import allowed, results_equal, results_matching
from hardem_jax.queries.solutions.rules import SqlRules
from hardem_jax.queries.solutions.types import (
    AGGREGATORS,
    MAX_CONDITIONS,
    OPERATORS,
    ROW_WIDTH,
    Condition,
    Query,
)
from hardem_jax.queries.solutions.values import in_lower_case
from hardem_jax.tables.table import Cell, Table, plain_cell, split_words

__all__ = [
    "AGGREGATORS",
    "MAX_CONDITIONS",
    "OPERATORS",
    "ROW_WIDTH",
    "AnswerTest",
    "Cell",
    "Condition",
    "ExecutionError",
    "OfficialEngine",
    "Query",
    "Solutions",
    "SqlRules",
    "Table",
    "enumerate_sql",
    "execute_sql",
    "split_words",
]


@dataclasses.dataclass(frozen=True)
class Solutions:
    """Z of a question.

    Attributes:
        queries: ``[Z, ROW_WIDTH]`` int16, see `Query.from_row`; without duplicates, in the order
            described in the module docstring.
        size: number of solutions before `SqlRules.cap`.
        max_conditions: maximum number of conditions searched; below that of the rules if there
            were too many combinations (`SqlRules.max_combinations`).
    """

    queries: np.ndarray
    size: int
    max_conditions: int

    @property
    def cut(self) -> int:
        """Number of solutions left out by the cap."""
        return self.size - len(self.queries)


def enumerate_sql(
    table: Table,
    question: str,
    answer: Sequence[Cell] = (),
    rules: SqlRules | None = None,
    *,
    words: np.ndarray | None = None,
    match: Callable[[list[Cell]], bool] | None = None,
) -> Solutions:
    """Z: every query of Z_tot that executes to the answer.

    Process the questions on one table consecutively: indexed tables are cached, but only the most
    recently used ones.

    Args:
        table: the table of the question.
        question: its spans are the values of conditions.
        answer: y, the list of cells that the official engine returns, even for a single cell. A
            result is correct if the lists are equal, ignoring case; the text "7" is not the
            number 7. Ignored if ``match`` is given.
        rules: Z_tot; None for the default.
        words: the words of the question; None for `split_words`.
        match: decides whether a result is correct, if equality is not the criterion. It gets each
            distinct result list once. This is slower, because every column and aggregator is
            executed over every set of rows.

    Raises:
        InputError: SQLite cannot hold a cell of the table, or the question has too many words.
        TypeError: an argument has the wrong type, such as a string instead of a list of cells.

    Example:
        >>> rows = (("ann", 7.0), ("bo", 9.0), ("cy", 9.0))
        >>> table = Table("1-1", ("player", "no."), ("text", "real"), rows)
        >>> question = "Who has 7?"
        >>> solutions = enumerate_sql(table, question, ["ann"])
        >>> for row in solutions.queries:
        ...     print(Query.from_row(row, question, split_words(question)).text(table.header))
        SELECT player WHERE no. = '7'
    """
    rules = rules or SqlRules()
    check_text(question, "question")
    check_many(answer, "answer", "cells")
    answer = in_lower_case(plain_cell(cell, "answer") for cell in answer)
    words = split_words(question) if words is None else np.asarray(words)
    typed = typed_table(table)
    conditions = find_conditions(typed, question, words, rules)
    combinations = Combinations(conditions, typed, rules)
    masks = list(dict.fromkeys(mask for level in combinations.levels for mask in level))
    valid = _valid(typed, masks, answer, rules, match)
    total = valid.sum(1)
    names = {masks[m]: m for m in np.flatnonzero(total).tolist()}
    sizes = [
        sum(weight * int(total[names[mask]]) for mask, weight in level.items() if mask in names)
        for level in combinations.levels
    ]
    blocks, left = [np.empty((0, ROW_WIDTH), np.int16)], rules.cap
    for number, size in enumerate(sizes):
        if size and (left is None or left > 0):
            if left is None or size <= left:
                parts = _all_queries(number, combinations, names, valid)
            else:
                parts = _first_queries(number, combinations, names, valid, left)
            blocks += [_rows(number, *part, conditions, combinations.base) for part in parts]
            left = None if left is None else left - size
    return Solutions(np.concatenate(blocks), sum(sizes), combinations.max_conditions)


class AnswerTest:
    """Tells which of some queries are in Z, without enumerating Z.

    A query is in Z if the rules allow it, at least one row meets its conditions, and its result is
    the answer. `SqlRules.cap` and `SqlRules.max_combinations` only limit enumeration and are
    ignored here. Sets of rows are compared with the answer once, so that a query like an earlier
    one costs a look-up.

    Args:
        table, question, answer, rules, words, match: as for `enumerate_sql`.

    Attributes:
        conditions: ``[M, 4]`` int16, every condition of Z_tot: column, operator, first and last
            word. They do not depend on the answer.
        heads: ``[S, 6]`` bool, selected columns and aggregators that the rules allow over several
            rows.

    Example:
        >>> table = Table("1-1", ("player", "no."), ("text", "real"), (("ann", 7.0), ("bo", 9.0)))
        >>> test = AnswerTest(table, "Who has 7?", ["ann"])
        >>> test(np.array([[0, 0, 1, 1, 0, 2, 2] + [-1] * 8, [0, 0, 0] + [-1] * 12]))
        array([ True, False])
    """

    def __init__(
        self,
        table: Table,
        question: str,
        answer: Sequence[Cell] = (),
        rules: SqlRules | None = None,
        *,
        words: np.ndarray | None = None,
        match: Callable[[list[Cell]], bool] | None = None,
    ):
        self._rules = rules or SqlRules()
        self._answer = in_lower_case(plain_cell(cell, "answer") for cell in answer)
        self._match = match
        self._table = typed_table(table)
        words = split_words(question) if words is None else np.asarray(words)
        found = find_conditions(self._table, question, words, self._rules)
        self._masks = {condition[:4]: condition.mask for condition in found}
        self._valid: dict[int, np.ndarray] = {}
        self.conditions = np.array([*self._masks], np.int16).reshape(-1, 4)
        self.heads = allowed(self._table, [0b11], self._rules)[0]

    def __call__(self, queries: np.ndarray) -> np.ndarray:
        """Whether each query is in Z.

        Args:
            queries: ``[N, ROW_WIDTH]`` int, see `Query.from_row`; any numbers. Those whose
                conditions are not on ascending columns, one each, are not in Z.

        Returns:
            ``[N]`` bool.
        """
        rows = queries.tolist()
        masks = [self._rows_of(row) for row in rows]
        new = list({mask for mask in masks if mask and mask not in self._valid})
        valid = _valid(self._table, new, self._answer, self._rules, self._match)
        self._valid.update(zip(new, valid, strict=True))
        columns, aggregators = len(self._table.columns), len(AGGREGATORS)
        return np.array(
            [
                bool(mask)
                and 0 <= select < columns
                and 0 <= aggregator < aggregators
                and bool(self._valid[mask][select * aggregators + aggregator])
                for mask, (select, aggregator, *_) in zip(masks, rows, strict=True)
            ],
            bool,
        )

    def _rows_of(self, query: Sequence[int]) -> int:
        """The mask of the rows that meet the conditions of a query; 0 if it is not in Z_tot."""
        if not 0 <= (count := query[2]) <= self._rules.max_conditions:
            return 0
        mask, previous = self._table.every_row, -1
        for start in range(3, 3 + 4 * count, 4):
            column, operator, first, last = query[start : start + 4]
            if column <= previous:
                return 0
            mask &= self._masks.get((column, operator, first, last), 0)
            previous = column
        return mask


def _valid(
    table: TypedTable,
    masks: Sequence[int],
    answer: Sequence[Cell],
    rules: SqlRules,
    match: Callable[[list[Cell]], bool] | None,
) -> np.ndarray:
    """``[M, 6 S]`` bool: which results are correct, by selected column and aggregator."""
    if not masks or not table.columns:
        return np.zeros((len(masks), 0), bool)
    if match is not None:
        valid = results_matching(table, masks, match)
    else:
        valid = results_equal(table, masks, answer)
    return (valid & allowed(table, masks, rules)).reshape(len(masks), -1)


def _all_queries(
    number: int, combinations: Combinations, names: dict[int, int], valid: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Selections and codes of all queries with ``number`` conditions."""
    codes, rows = combinations.write_out(number, names)
    used = np.flatnonzero(valid.any(0))
    selected, index = np.nonzero(valid[:, used][rows].T)
    yield used[selected], np.array(codes, np.int64)[index]


def _first_queries(
    number: int, combinations: Combinations, names: dict[int, int], valid: np.ndarray, limit: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The first ``limit`` of them, without writing out the others."""
    for selected in np.flatnonzero(valid.any(0)).tolist():
        wanted = {mask: m for mask, m in names.items() if valid[m, selected]}
        codes, _ = combinations.write_out(number, wanted, limit)
        yield np.full(len(codes), selected), np.array(codes, np.int64)
        limit -= len(codes)
        if not limit:
            return


def _rows(
    number: int,
    selected: np.ndarray,
    codes: np.ndarray,
    conditions: Sequence[SpanCondition],
    base: int,
) -> np.ndarray:
    rows = np.full((len(codes), ROW_WIDTH), -1, np.int16)
    rows[:, 0], rows[:, 1] = np.divmod(selected, len(AGGREGATORS))
    rows[:, 2] = number
    table = np.array([condition[:4] for condition in conditions], np.int16)
    for i in range(number):
        indices = codes // base ** (number - 1 - i) % base
        rows[:, 3 + 4 * i : 7 + 4 * i] = table[indices]
    return rows
