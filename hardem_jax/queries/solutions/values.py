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

Sums and averages are SQLite's to the last bit. It adds from the first row to the last. Releases
before 3.43 add float64 naively; later ones compensate for rounding (Kahan, Babuska, Neumaier), so
that last bits may differ, for example in 0.1 + 0.2 + 0.3. `sum_like_sqlite` follows the SQLite of
this Python. Sums of integers are the same in all releases.

SQLite's own conversions between text and numbers are used: they need not give the nearest float64,
and they differ between releases and processors.
"""

from __future__ import annotations

import atexit
import contextlib
import decimal
import functools
import math
import operator
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
COMPENSATED_SUMS = sqlite3.sqlite_version_info >= (3, 43)
_INT64 = 2**63
# Integers up to here have exact float64 arithmetic; SQLite splits larger ones.
_EXACT = 2**52


class ExecutionError(Exception):
    """The official engine cannot execute a query; as a prediction, such a query is wrong."""


def check_query(table: Table, query: Query) -> None:
    """Raises `ExecutionError` unless the query's columns, aggregator and operators exist."""
    columns = [query.select, *(c.column for c in query.conditions)]
    named = [("column", column, len(table.types)) for column in columns]
    named.append(("aggregator", query.aggregator, len(AGGREGATORS)))
    named += [("operator", c.operator, len(OPERATORS)) for c in query.conditions]
    for name, index, count in named:
        if not 0 <= index < count:
            raise ExecutionError(f"table {table.id}: no {name} {index}, there are {count}")


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


def bound_value(value: str | float | int, column_type: str) -> str | float | int:
    """What the official engine compares with a column, given a condition's value."""
    value = plain_cell(value, "condition")  # type: ignore[assignment]
    if not _can_be_stored(value):
        raise ExecutionError(f"expected Unicode text or a 64-bit integer, found {value!r:.40}")
    if not isinstance(value, str):
        return value
    value = value.lower()
    if column_type == "text":
        return value
    return exact_number(value) if column_type == "numeric" else official_number(value)


def official_number(text: str) -> float:
    """The number in a text that is compared with a real column, by the rules above."""
    return _official_number(text)[0]


def exact_number(text: str) -> float | int:
    """As `official_number`, but an integer where float64 would round a whole number of 64 bits."""
    number, exact = _official_number(text)
    if not MAX_WHOLE <= abs(number) <= 2**63:
        return number
    whole = int(exact)
    return whole if whole == exact and abs(whole) < 2**63 else number


def _official_number(text: str) -> tuple[float, decimal.Decimal]:
    """A number in a text as float64 and exactly: the whole text if it is one, else the first.

    Follows babel's `parse_decimal` for American English: commas are removed, and the rest is read
    as a Python decimal, so "1e3", "1_000" and "inf" are numbers, too.
    """
    try:
        exact = decimal.Decimal(text.replace(",", ""))
        return float(exact), exact
    except decimal.InvalidOperation:
        first = _FIRST_NUMBER.search(text)
    except ValueError:  # a signalling NaN
        first = None
    if first is None:
        raise ExecutionError(f"expected a number for a real column, found {text!r}")
    return float(first.group()), decimal.Decimal(first.group())


def in_lower_case(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """Cells as the official engine compares them."""
    return tuple(cell.lower() if isinstance(cell, str) else cell for cell in cells)


def stored_cells(values: Sequence[Cell], column_type: str) -> tuple[Cell, ...]:
    """Cells as SQLite stores them: numbers as text in text columns, and vice versa in real ones.
    Text that is not a number stays text. Texts are lower-cased, and negative zero becomes zero."""
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
            connection.executemany("INSERT INTO cells VALUES (?)", [(value,) for value in values])
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


def sum_like_sqlite(
    addends: Sequence[int | float], average: bool = False, compensated: bool = COMPENSATED_SUMS
) -> int | float:
    """SQLite's sum or average of integers and float64, in the order given; NaN is NULL there.

    It has none of integers that exceed 64 bits. Since SQLite 3.43, any float among the addends
    prevents that; before, the float must come before the overflow.
    """
    leading, integer, overflow = _leading_integers(addends)
    if overflow and compensated:  # a float anywhere turns the sum into a float
        overflow = all(isinstance(addend, int) for addend in addends)
    if overflow and not average:
        raise ExecutionError("expected a 64-bit sum, found a larger one")
    if leading == len(addends) and not average:
        return integer
    if compensated:
        total = _compensated(integer, addends[leading:])
    else:  # `sum` would compensate, since Python 3.12
        total = functools.reduce(operator.add, addends, 0.0)
    return total / len(addends) if average else total


def _leading_integers(addends: Sequence[int | float]) -> tuple[int, int, bool]:
    """The number of leading integers, their sum, and whether the next one would overflow it."""
    integer = 0
    for count, addend in enumerate(addends):
        if not isinstance(addend, int):
            return count, integer, False
        if not -_INT64 <= integer + addend < _INT64:
            return count, integer, True
        integer += addend
    return len(addends), integer, False


def _compensated(integer: int, addends: Sequence[int | float]) -> float:
    total, *low = _parts(integer)
    error = sum(low)
    for addend in addends:
        for part in _parts(addend):
            added = total + part
            larger, smaller = (total, part) if abs(total) > abs(part) else (part, total)
            error += (larger - added) + smaller
            total = added
    return total + error if math.isfinite(error) else total


def _parts(addend: int | float) -> tuple[float, ...]:
    """A float, or the two floats into which SQLite splits an integer too large for float64. Avoids
    `math.fmod`, which would round the integer to float64 first."""
    if isinstance(addend, float) or -_EXACT < addend < _EXACT:
        return (float(addend),)
    low = addend % 2**14 if addend > 0 else -(-addend % 2**14)
    return float(addend - low), float(low)
