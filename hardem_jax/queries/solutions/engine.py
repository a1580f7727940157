"""Executes WikiSQL queries: f of semantic parsing (Min et al., 2019, section 3.2).

`execute_sql` gives what WikiSQL's official engine (Zhong et al., 2017) gives, which passes a query
to SQLite. `hardem_jax.queries.solutions.values` lists its rules for values; the rest is SQLite's:
NULL < numbers < text, and text is compared by code points, which is the order of its UTF-8 bytes.

A row mask is a Python integer whose bit r represents row r. The rows below a value are a prefix of
the sorted column, so binary search gives the masks of =, > and <.

Nothing is executed as SQL; `statement` writes a query for people, with the table's own names.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np

from hardem_jax.errors import InputError
from hardem_jax.queries.solutions.types import (
    AGGREGATORS,
    CELL_AGGREGATORS,
    OPERATORS,
    Condition,
    Query,
    SqlRules,
)
from hardem_jax.queries.solutions.values import (
    ExecutionError,
    bound_value,
    check_query,
    number_as_text,
    sql_type,
    sql_types,
    stored_cells,
    sum_like_sqlite,
    text_addend,
)
from hardem_jax.tables.table import (
    Cell,
    IdentityCache,
    Table,
    column_names,
    mask_rows,
    masks_to_matrix,
)


class Column:
    """A column as the official engine reads it, of type "text" or "real".

    ``cells`` are as SQLite stores them; ``rows_by_value`` and the others are row masks.
    """

    def __init__(self, values: Sequence[Cell], column_type: str):
        self.type, self.sql_type = column_type, sql_type(values, column_type)
        self.cells = stored_cells(values, self.sql_type)
        self.rows_by_value: dict[Cell, int] = {}
        for row, cell in enumerate(self.cells):
            if cell is not None:
                self.rows_by_value[cell] = self.rows_by_value.get(cell, 0) | 1 << row
        self._numbers = sorted(v for v in self.rows_by_value if not isinstance(v, str))  # type: ignore
        self._texts = sorted(v for v in self.rows_by_value if isinstance(v, str))
        # Entry i is the mask of the rows with the i lowest values.
        self._below = [0]
        for value in (*self._numbers, *self._texts):
            self._below.append(self._below[-1] | self.rows_by_value[value])
        self.not_null = self._below[-1]
        self.nulls = ((1 << len(self.cells)) - 1) & ~self.not_null

    def bind(self, value: str | float | int) -> Cell:
        """What the cells are compared with, given the value of a condition; see `bound_value`."""
        value = bound_value(value, self.sql_type)
        if self.type == "real" or isinstance(value, str):
            return value
        return number_as_text(value)

    def compare(self, bound: Cell) -> tuple[int, int, int]:
        """Masks of the rows equal to, above and below a value returned by `bind`."""
        if bound is None or bound != bound:
            return 0, 0, 0
        if isinstance(bound, str):
            start = len(self._numbers) + bisect_left(self._texts, bound)
        else:
            start = bisect_left(self._numbers, bound)
        below, equal = self._below[start], self.rows_by_value.get(bound, 0)
        return equal, self.not_null & ~(below | equal), below

    def result(self, aggregator: int, mask: int) -> list[Cell] | None:
        """What a query with these rows returns; None if it cannot be executed."""
        try:
            return [self.aggregate(aggregator, mask)] if aggregator else self.select(mask)
        except ExecutionError:
            return None

    def select(self, mask: int) -> list[Cell]:
        return [self.cells[row] for row in mask_rows(mask)]

    def aggregate(self, aggregator: int, mask: int) -> Cell:
        """The aggregate over the rows of a mask; if all are NULL, NULL or a count of 0."""
        mask &= self.not_null
        if aggregator == 3:
            return mask.bit_count()
        if not mask:
            return None
        if aggregator in (1, 2):
            order = [*self._numbers, *self._texts]
            values = reversed(order) if aggregator == 1 else order
            return next(value for value in values if self.rows_by_value[value] & mask)
        # The mask excludes NULL, the only None among the addends.
        addends: Any = [self.addends[row] for row in mask_rows(mask)]
        total = sum_like_sqlite(addends, average=aggregator == 5)
        return None if total != total else total

    @functools.cached_property
    def addends(self) -> list[int | float | None]:
        """What each cell adds to a sum; None for cells left out of sums."""
        return [text_addend(c) if isinstance(c, str) else c for c in self.cells]  # type: ignore


class TypedTable:
    """The columns of a table, indexed by value.

    ``holders`` has, for each value, the text columns in which a span of the question may equal it,
    with their rows; ``longest`` is the length of the longest of these texts.
    """

    def __init__(self, table: Table):
        cells = zip(*table.rows, strict=True) if table.rows else [()] * len(table.types)
        self.columns = []
        for column, values, type_ in zip(table.header, cells, table.types, strict=True):
            try:
                self.columns.append(Column(values, type_))
            except InputError as error:
                raise InputError(f"table {table.id}, column {column!r}: {error}") from error
        self.num_rows = len(table.rows)
        self.every_row = (1 << self.num_rows) - 1
        self.holders: dict[Cell, list[tuple[int, int]]] = {}
        for index, column in enumerate(self.columns):
            if column.type == "text":
                for value, mask in column.rows_by_value.items():
                    self.holders.setdefault(value, []).append((index, mask))
        self.longest = max((len(text) for text in self.holders if isinstance(text, str)), default=0)

    @functools.cached_property
    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        """``[R, 2 S]`` float64, each cell's addend, and 1 if it is not NULL; and ``[S]`` float64,
        a bound on the difference between two float64 sums of the same cells."""
        addends = [[addend or 0.0 for addend in column.addends] for column in self.columns]
        addends = np.array(addends, np.float64)
        not_null = masks_to_matrix([c.not_null for c in self.columns], self.num_rows)
        with np.errstate(over="ignore"):
            sizes = np.abs(addends).sum(axis=1)
            rounding = 4 * (self.num_rows + 2) * np.finfo(np.float64).eps * sizes
        return np.concatenate([addends, not_null]).T, rounding


_typed = IdentityCache(TypedTable)


def typed_table(table: Table) -> TypedTable:
    """The `TypedTable` of a table, cached for the most recently used tables."""
    if not isinstance(table, Table):
        raise TypeError(f"table: expected a Table, found {type(table).__name__}")
    return _typed(table)


def execute_sql(table: Table, query: Query, *, as_written: bool = False) -> list[Cell]:
    """f(z): the selected cells in the order of the rows, or one aggregate.

    An aggregate over no rows is None; a count is 0. Sorted columns are cached for the most recently
    used tables; a query on one of them takes a few microseconds.

    Args:
        table: the table to query.
        query: any number of conditions, in any order.
        as_written: False returns cells as they are compared: text in lower case. True returns
            selected cells, MAX and MIN as the table holds them, for display.

    Raises:
        ExecutionError: a column does not exist, or the official engine cannot execute the query.
        InputError: the table has a cell that SQLite cannot hold.

    Example:
        >>> from hardem_jax.queries.solutions.types import Condition
        >>> table = Table("1-1", ("player", "no."), ("text", "real"), (("Ann", 7.0), ("Bo", 9.0)))
        >>> between = (Condition(1, 1, "6"), Condition(1, 2, "8"))
        >>> execute_sql(table, Query(0, 0, between))  # 6 is lost: no. > 8 AND no. < 8
        []
        >>> execute_sql(table, Query(0, 1), as_written=True)
        ['Bo']
    """
    typed = typed_table(table)
    check_query(table, query)
    mask = rows_of_conditions(table, query.conditions)
    selected = typed.columns[query.select]
    if not query.aggregator:
        return _original_cells(table, query.select, mask) if as_written else selected.select(mask)
    value = selected.aggregate(query.aggregator, mask)
    if as_written and AGGREGATORS[query.aggregator] in ("max", "min") and value is not None:
        return _original_cells(table, query.select, mask & selected.rows_by_value[value])[:1]
    return [value]


def rows_of_conditions(table: Table, conditions: Sequence[Condition]) -> int:
    """The mask of the rows that meet all conditions of a query, in its order.

    Raises:
        ExecutionError: the official engine cannot compare a value.
        InputError: the table has a cell that SQLite cannot hold.

    Example:
        >>> from hardem_jax.queries.solutions.types import Condition
        >>> table = Table("1-1", ("no.",), ("real",), ((7.0,), (9.0,)))
        >>> [bin(rows_of_conditions(table, [Condition(0, 1, text)])) for text in ("6", "8")]
        ['0b11', '0b10']
    """
    typed = typed_table(table)
    # Two conditions on a column share the value of the last.
    bound = {c.column: typed.columns[c.column].bind(c.value) for c in conditions}
    mask = typed.every_row
    for condition in conditions:
        mask &= typed.columns[condition.column].compare(bound[condition.column])[condition.operator]
    return mask


def _original_cells(table: Table, column: int, mask: int) -> list[Cell]:
    return [table.rows[row][column] for row in mask_rows(mask)]


def statement(table: Table, query: Query) -> str:
    """A query as SQL that can be pasted into SQLite.

    Names are quoted, and quotation marks inside them doubled. Values are what the official engine
    compares: the number in a span for a real column, otherwise text, regardless of case (of ASCII
    letters, as far as SQLite goes). SQLite wants distinct names: see `column_names`.

    Args:
        table: gives the names of table and columns.
        query: on this table.

    Raises:
        ExecutionError: a column does not exist, or a span has no number for a real column.

    Example:
        >>> from hardem_jax.queries.solutions.types import Condition
        >>> table = Table("results.csv", ("player", "no."), ("text", "real"), ())
        >>> query = Query(1, 1, (Condition(0, 0, "O'Hara"), Condition(1, 2, "under 8")))
        >>> print(statement(table, query))
        SELECT MAX("no.") FROM "results.csv" WHERE "player" = 'O''Hara' COLLATE NOCASE AND "no." < 8
    """
    check_query(table, query)
    names = [_quoted(name) for name in column_names(table.header)]
    types = sql_types(table)
    bound = {c.column: bound_value(c.value, types[c.column]) for c in query.conditions}
    shown = {c.column: c.value for c in query.conditions}
    tests = []
    for condition in query.conditions:
        name, value = names[condition.column], bound[condition.column]
        if isinstance(value, str):  # in lower case: as the question has it
            value = shown[condition.column]
        tests.append(f"{name} {OPERATORS[condition.operator]} {_literal(value)}")
    selected = names[query.select]
    if query.aggregator:
        selected = f"{AGGREGATORS[query.aggregator].upper()}({selected})"
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    return f"SELECT {selected} FROM {_quoted(table.id)}{where}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Cell) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "' COLLATE NOCASE"
    if isinstance(value, float) and not math.isfinite(value):
        # SQLite has no names for these: too large a number is infinite, and what is none is NULL.
        return "NULL" if math.isnan(value) else f"{math.copysign(9, value):.0f}e999"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return repr(value)


def allowed(table: TypedTable, masks: Sequence[int], rules: SqlRules) -> np.ndarray:
    """``[M, S, 6]`` bool: which heads the rules allow, by set of rows, column and aggregator."""
    heads = np.ones((len(masks), len(table.columns), len(AGGREGATORS)), bool)
    if not rules.aggregates_on_text:
        texts = np.array([column.type == "text" for column in table.columns], bool)
        heads &= ~(texts[:, None] & CELL_AGGREGATORS)
    if not rules.aggregates_of_one_row:
        single = np.array([mask.bit_count() == 1 for mask in masks], bool)
        heads &= ~(single[:, None, None] & CELL_AGGREGATORS)
    return heads
