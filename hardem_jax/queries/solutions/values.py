"""Converts values of conditions and cells as WikiSQL's official engine and SQLite do.

The official engine (Zhong et al., 2017) binds the value of a condition by these rules:

- Text and cells are lower-cased (the official files already are). Text is compared by code points,
  so a decomposed "é" does not equal a composed one.
- For a real column, text becomes a number: the whole text if it is a decimal number (ignoring
  commas anywhere), otherwise the first number in it, ``[-+]?\\d*\\.\\d+|\\d+``. A text without one
  raises an `ExecutionError`.
- Whole numbers that float64 rounds are exact in a real column that holds one as an integer of 64
  bits, which is SQLite's "numeric". `read_wikisql` makes no such column, as in the official files.
- Values are bound by column: two conditions on one column both get the last one's value.

SQLite's own conversions between text and numbers are used: they need not give the nearest float64,
and they differ between releases and processors.
"""

from __future__ import annotations

import atexit
import contextlib
import decimal
import functools
import re
import sqlite3
from collections.abc import Iterable, Sequence

from hardem_jax.errors import InputError
from hardem_jax.queries.solutions.types import AGGREGATORS, OPERATORS, Query
from hardem_jax.tables.table import MAX_WHOLE, Cell, Table, plain_cell

_FIRST_NUMBER = re.compile(r"[-+]?\d*\.\d+|\d+")
# Most numeric texts in tables are plain integers, which need no SQLite query.
_PLAIN_INTEGER = re.compile(r"-?[0-9]{1,15}")
_STARTS_LIKE_A_NUMBER = re.compile(r"[\s+\-.0-9]")
# Raised for values that SQLite cannot hold: integers beyond 64 bits, lone surrogates.
SQLITE_ERRORS = (sqlite3.Error, OverflowError, UnicodeEncodeError)


class ExecutionError(Exception):
    """The official engine cannot execute a query; as a prediction, such a query is wrong."""


def check_query(table: Table, query: Query) -> None:
    """Raises `ExecutionError` unless the query's columns, aggregator and operators exist."""
    for column in (query.select, *(c.column for c in query.conditions)):
        if not 0 <= column < len(table.types):
            raise ExecutionError(
                f"table {table.id}: no column {column}, the table has {len(table.types)}"
            )
    if not 0 <= query.aggregator < len(AGGREGATORS):
        raise ExecutionError(f"table {table.id}: no aggregator {query.aggregator}")
    for condition in query.conditions:
        if not 0 <= condition.operator < len(OPERATORS):
            raise ExecutionError(f"table {table.id}: no operator {condition.operator}")


def sql_type(values: Iterable[Cell], column_type: str) -> str:
    """SQLite's type of a column: "numeric", which keeps integers, if float64 would round one."""
    if column_type == "real" and any(
        isinstance(value, int) and MAX_WHOLE < abs(value) < 2**63 for value in values
    ):
        return "numeric"
    return column_type


def sql_types(table: Table) -> tuple[str, ...]:
    """SQLite's types of the columns of a table."""
    columns = zip(*table.rows, strict=True) if table.rows else [()] * len(table.types)
    return tuple(map(sql_type, columns, table.types))


def bound_values(types: Sequence[str], query: Query) -> dict[int, Cell]:
    """What the official engine compares columns of these types with; the last value wins."""
    return {c.column: bound_value(c.value, types[c.column]) for c in query.conditions}


def bound_value(value: str | float | int, column_type: str) -> str | float | int:
    """Converts a condition's value as the official engine does; for types see `sql_type`.

    Raises:
        ExecutionError: text without a number is compared with a real column, or SQLite cannot
            hold the value.
    """
    value = plain_cell(value, "condition")  # type: ignore[assignment]
    if not isinstance(value, str):
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ExecutionError(f"expected a 64-bit integer, found {value}")
        return value
    value = value.lower()
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise ExecutionError(f"expected Unicode text, found {value!r}")
    if column_type == "text":
        return value
    return exact_number(value) if column_type == "numeric" else official_number(value)


def official_number(text: str) -> float:
    """The number in a text that is compared with a real column, by the rules above."""
    number = decimal_number(text)
    if number is None:
        if (first := _FIRST_NUMBER.search(text)) is None:
            raise ExecutionError(f"expected a number for a real column, found {text!r}")
        number = float(first.group())
    return number


def exact_number(text: str) -> float | int:
    """As `official_number`, but an integer where float64 would round a whole number of 64 bits."""
    number = official_number(text)
    if not MAX_WHOLE <= abs(number) <= 2**63:
        return number
    try:
        exact = decimal.Decimal(text.replace(",", ""))
    except decimal.InvalidOperation:
        first = _FIRST_NUMBER.search(text)
        assert first is not None
        exact = decimal.Decimal(first.group())
    whole = int(exact)
    return whole if whole == exact and abs(whole) < 2**63 else number


def decimal_number(text: str) -> float | None:
    """A text that is a number as a whole; None if it is not.

    Follows babel's `parse_decimal` for American English: commas are removed, and the rest is read
    as a Python decimal, so "1e3", "1_000" and "inf" are numbers, too.
    """
    try:
        return float(decimal.Decimal(text.replace(",", "")))
    except decimal.InvalidOperation:
        return None
    except ValueError as error:  # a signalling NaN
        raise ExecutionError(f"expected a number for a real column, found {text!r}") from error


def in_lower_case(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """Cells as the official engine compares them."""
    return tuple(cell.lower() if isinstance(cell, str) else cell for cell in cells)


def stored_cells(values: Sequence[Cell], column_type: str) -> tuple[Cell, ...]:
    """Cells as SQLite stores them: numbers as text in text columns, and vice versa in real ones.

    Texts are lower-cased, and negative zero becomes zero. Text that is not a number stays text in a
    real column.

    Raises:
        InputError: SQLite cannot hold a cell.
    """
    values = in_lower_case(values)
    plain = str if column_type == "text" else float
    as_they_are = all(type(value) is plain and value == value for value in values)
    try:
        if as_they_are:
            if plain is float:
                return tuple(value + 0.0 for value in values)  # type: ignore[operator]
            "".join(values).encode()  # type: ignore[arg-type]
            return values
        with contextlib.closing(sqlite3.connect(":memory:")) as connection:
            connection.execute(f"CREATE TABLE cells (value {column_type})")
            rows = [(value,) for value in values]
            connection.executemany("INSERT INTO cells VALUES (?)", rows)
            stored = connection.execute("SELECT value FROM cells ORDER BY rowid").fetchall()
    except SQLITE_ERRORS as error:
        row, cell = next((r, c) for r, c in enumerate(values) if not _can_be_stored(c))
        raise InputError(
            f"row {row} of a {column_type} column: SQLite cannot store a cell, "
            f"expected Unicode text or 64-bit integers, found {cell!r:.40}"
        ) from error
    return tuple(value for (value,) in stored)


def _can_be_stored(cell: Cell) -> bool:
    if isinstance(cell, str):
        return not any("\ud800" <= character <= "\udfff" for character in cell)
    return not isinstance(cell, int) or -(2**63) <= cell < 2**63


# typed: 7 and 7.0 are equal keys but different texts.
@functools.lru_cache(maxsize=2**16, typed=True)
def number_as_text(value: float | int) -> str:
    """A number as text, for comparison with a text column."""
    return _ask("SELECT CAST(? AS TEXT)", value)


@functools.lru_cache(maxsize=2**16)
def text_addend(text: str) -> int | float:
    """What a text adds to a sum: the number it starts with, or 0; an int if all of it is one."""
    if _PLAIN_INTEGER.fullmatch(text):
        return int(text)
    if not _STARTS_LIKE_A_NUMBER.match(text):
        return 0.0
    return _ask("SELECT sum(?)", text)


@functools.cache
def _connection() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    atexit.register(connection.close)
    return connection


def _ask(statement: str, value: Cell):
    try:
        return _connection().execute(statement, (value,)).fetchone()[0]
    except SQLITE_ERRORS as error:
        raise ExecutionError(f"SQLite cannot store {value!r} ({error})") from error
