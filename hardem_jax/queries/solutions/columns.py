"""Table columns that are sorted once, so that evaluating a condition is a lookup of a row mask.

A row mask is a Python integer whose bit r represents row r. The rows below a value are a prefix of
the sorted column, so binary search gives the masks of =, > and <. All is exactly as in WikiSQL's
engine on SQLite, see `values` and `sums`: NULL < numbers < text; text is compared by code points,
which is the order of its UTF-8 bytes.
"""

from __future__ import annotations

import decimal
import functools
import math
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hardem_jax.errors import InputError
from hardem_jax.queries.solutions.sums import sum_like_sqlite
from hardem_jax.queries.solutions.values import (
    ExecutionError,
    bound_value,
    number_as_text,
    sql_type,
    stored_cells,
    text_addend,
)
from hardem_jax.tables.table import (
    MAX_WHOLE,
    Cell,
    IdentityCache,
    Table,
    mask_rows,
    masks_to_matrix,
)

NUMBER = re.compile(r"[-+]?(?:[0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.[0-9]+)?|[-+]?\.[0-9]+")
# Integers up to here have exact float64 arithmetic, with a factor of 2 to spare.
_EXACT = 2**52


class Column:
    """A column as the official engine reads it, of type "text" or "real".

    Attributes:
        cells: as SQLite stores them.
        rows_by_value: for each value except NULL, the mask of the rows that hold it.
        not_null, nulls: masks of the rows with a value and without one.
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
        """The aggregate over the rows of a mask; if all are NULL, NULL or a count of 0.

        Raises:
            ExecutionError: a sum of integers exceeds 64 bits.
        """
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

    @functools.cached_property
    def addend_array(self) -> np.ndarray:
        """``[R]`` float64, 0 for None."""
        return np.array([addend or 0.0 for addend in self.addends], np.float64)


def plain_value(value: Cell) -> Cell:
    """Converts numbers and numeric text to float, and other text to a plain form.

    Whole numbers from 2^53 become integers, which keep all digits.
    """
    if value is None or value != value:
        return None
    if isinstance(value, str):
        text = " ".join(unicodedata.normalize("NFC", value.casefold()).split())
        number = text.replace("\u2212", "-")  # the minus sign
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


def same_cells(answer: Sequence[Cell]) -> Callable[[Sequence[Cell]], bool]:
    """What compares results with an answer as a person does, cell by cell and in order.

    Texts are compared regardless of case, white space and the composition of accents; a number may
    be written as text, with thousands commas; fractions may differ in their last digits.
    """
    wanted = [plain_value(cell) for cell in answer]

    def matches(result: Sequence[Cell]) -> bool:
        return len(result) == len(wanted) and all(
            plain_value(cell) == value or _nearly(plain_value(cell), value)
            for cell, value in zip(result, wanted, strict=True)
        )

    return matches


def _nearly(cell: Cell, value: Cell) -> bool:
    if not (isinstance(cell, float) and isinstance(value, float)):
        return False
    whole = cell.is_integer() and value.is_integer()  # such as ids, of which each digit counts
    return not whole and math.isclose(cell, value, rel_tol=1e-12)


class TypedTable:
    """The columns of a table, indexed by value.

    Attributes:
        columns: from left to right.
        every_row: mask of all ``num_rows``.
        holders: for each bound value, the text columns in which a span of the question may equal
            it, with the mask of rows.
        longest: length of the longest text in ``holders``, in characters.
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
    def sums(self) -> np.ndarray:
        """``[R, 2 S]`` float64: each cell's addend, and 1 if it is not NULL."""
        addends = [column.addend_array for column in self.columns]
        masks = [column.not_null for column in self.columns]
        return np.concatenate([np.stack(addends), masks_to_matrix(masks, self.num_rows)]).T

    @functools.cached_property
    def rounding(self) -> np.ndarray:
        """``[S]`` float64: bound on the difference between two float64 sums of the same cells."""
        with np.errstate(over="ignore"):
            sizes = np.array([np.abs(column.addend_array).sum() for column in self.columns])
            return 4 * (self.num_rows + 2) * np.finfo(np.float64).eps * sizes

    @functools.cached_property
    def exact_sums(self) -> np.ndarray:
        """``[S]`` bool: whether sums are exact, so that the order of addends does not matter."""
        return np.array([_is_exact(column.addend_array) for column in self.columns], bool)


_typed = IdentityCache(TypedTable)


def typed_table(table: Table) -> TypedTable:
    """The `TypedTable` of a table, cached for the most recently used tables."""
    if not isinstance(table, Table):
        raise TypeError(f"table: expected a Table, found {type(table).__name__}")
    return _typed(table)


def _is_exact(addends: np.ndarray) -> bool:
    """Whether these are finite integers whose sum is exact in float64."""
    with np.errstate(over="ignore"):  # the sum of numbers near the largest is inexact, too
        return bool((addends == np.rint(addends)).all() and np.abs(addends).sum() < _EXACT)
