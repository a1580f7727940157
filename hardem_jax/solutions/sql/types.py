"""Tables, queries and the words of a question.

Z_tot of the paper's third category (Min et al., 2019, section 3.2) is every non-nested query with
at most three conditions

    SELECT aggregator(column) WHERE column operator value AND ...

whose values are spans of the question. One query is a `Query`; a whole set Z is an integer
array, see `Query.from_row`.
"""

import decimal
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardem_jax.solutions.arguments import check_many, check_text, check_texts

AGGREGATORS = ("", "max", "min", "count", "sum", "avg")
"""In the order of the official files; "" selects plain cells."""

OPERATORS = ("=", ">", "<")
"""In the order of the official files."""

MAX_CONDITIONS = 3
"""K in the paper."""

ROW_WIDTH = 3 + 4 * MAX_CONDITIONS

# Each is a wordpiece of its own.
_IDEOGRAPH = r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f]"
# Combining accents stay with their letter.
_WORD = re.compile(rf"{_IDEOGRAPH}|(?:(?!{_IDEOGRAPH})[\w\u0300-\u036f])+|[^\w\s]")

Cell = str | float | int | None
_CELL_TYPES = {str, float, int, type(None)}


@dataclass(frozen=True)
class Table:
    """A table as in the official files.

    Rows may be any sequences of cells, and cells may be NumPy scalars or decimals.

    Attributes:
        id: unique among the tables of a file.
        header: column names, duplicates allowed.
        types: "text" or "real" for each column.
        rows: cells, one per column; None is NULL. Text may be in any case: the engines compare it
            in lower case.

    Raises:
        ValueError: rows, names and types do not have the same length.
        TypeError: a string instead of a list, or a cell that is not a string, number or None.
    """

    id: str
    header: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self):
        for name in ("header", "types"):
            texts = check_texts(getattr(self, name), f"table {self.id}: {name}")
            object.__setattr__(self, name, texts)
        check_many(self.rows, f"table {self.id}: rows", "rows")
        object.__setattr__(self, "rows", tuple(map(self._row, self.rows)))
        if len(self.types) != len(self.header):
            raise ValueError(f"table {self.id}: {len(self.header)} names, {len(self.types)} types")
        if unknown := set(self.types) - {"text", "real"}:
            raise ValueError(f"table {self.id}: expected text or real columns, found {unknown}")
        for number, row in enumerate(self.rows):
            if len(row) != len(self.header):
                raise ValueError(
                    f"table {self.id}, row {number}: expected {len(self.header)} cells, "
                    f"found {len(row)}"
                )

    def _row(self, row: Sequence[Any]) -> tuple[Cell, ...]:
        check_many(row, f"table {self.id}: row", "cells")
        if {*map(type, row)} <= _CELL_TYPES:
            return tuple(row)
        return tuple(plain_cell(cell, f"table {self.id}: row {list(row)!r}") for cell in row)


def plain_cell(cell: Any, where: str) -> Cell:
    """Converts a cell to a plain Python value.

    Args:
        cell: a string, a number, True, False or None; a whole `Decimal` becomes an integer, any
            other a float.
        where: the start of the error message.

    Raises:
        TypeError: the cell is something else.

    Example:
        >>> plain_cell(np.int64(7), "answer"), plain_cell(np.str_("Ann"), "answer")
        (7, 'Ann')
    """
    if type(cell) in _CELL_TYPES:
        return cell
    plain: Any = cell
    # `item` makes an integer of nanoseconds.
    if isinstance(cell, np.generic) and not isinstance(cell, (np.datetime64, np.timedelta64)):
        plain = cell.item()
    if isinstance(plain, decimal.Decimal):
        whole = plain.is_finite() and plain == plain.to_integral_value()
        plain = int(plain) if whole else math.nan if plain.is_nan() else float(plain)
    if isinstance(plain, bool):  # SQLite stores booleans as integers
        return int(plain)
    if type(plain) not in _CELL_TYPES:
        expected = "expected strings, numbers or None as cells"
        raise TypeError(f"{where}: {expected}, found {type(cell).__name__} {cell!r}")
    return plain


@dataclass(frozen=True)
class Condition:
    """``column operator value``, with column and operator (`OPERATORS`) by index."""

    column: int
    operator: int
    value: str | float | int


@dataclass(frozen=True)
class Query:
    """A non-nested query.

    Attributes:
        select: index of the selected column.
        aggregator: index in `AGGREGATORS`.
        conditions: joined by AND.

    Example:
        >>> question = "Who wears number 42?"
        >>> words = split_words(question)
        >>> query = Query.from_row([0, 0, 1, 1, 0, 3, 3] + [-1] * 8, question, words)
        >>> query
        Query(select=0, aggregator=0, conditions=(Condition(column=1, operator=0, value='42'),))
        >>> query.text(("player", "no."))
        "SELECT player WHERE no. = '42'"
    """

    select: int
    aggregator: int
    conditions: tuple[Condition, ...] = ()

    @classmethod
    def from_row(cls, row, question: str, words: np.ndarray) -> "Query":
        """The query encoded by a row of Z.

        Args:
            row: [ROW_WIDTH] integers: selected column, aggregator, number of conditions, then
                column, operator, first word and last word (inclusive) of each condition; entries
                after the last condition are ignored.
            question: the text whose spans are the values.
            words: [W, 2] character offsets, see `split_words`.
        """
        select, aggregator, count, *rest = (int(number) for number in row)
        conditions = []
        for i in range(count):
            column, operator, first, last = rest[4 * i : 4 * i + 4]
            conditions.append(
                Condition(column, operator, question[words[first, 0] : words[last, 1]])
            )
        return cls(select, aggregator, tuple(conditions))

    def text(self, header: Sequence[str]) -> str:
        """The query as readable SQL, for display only; see `column_names` for repeated names.

        Example:
            >>> Query(1, 3, (Condition(0, 0, "oslo"),)).text(("city", "city"))
            "SELECT COUNT(city_2) WHERE city = 'oslo'"
        """
        names = column_names(header)
        column = names[self.select]
        selected = (
            f"{AGGREGATORS[self.aggregator].upper()}({column})" if self.aggregator else column
        )
        shown = [
            f"{names[c.column]} {OPERATORS[c.operator]} "
            + (f"'{c.value}'" if isinstance(c.value, str) else f"{c.value}")
            for c in self.conditions
        ]
        return f"SELECT {selected}" + (f" WHERE {' AND '.join(shown)}" if shown else "")


def column_names(header: Sequence[str]) -> list[str]:
    """Distinct names, regardless of case, as SQLite compares them.

    The first column with a name keeps it. Others, and those without a name, get their number
    appended, repeatedly if the table already has that name.

    Example:
        >>> column_names(["City", "Year", "city", ""])
        ['City', 'Year', 'city_3', '_4']
    """
    names, seen = [], {""}
    taken = {name.lower() for name in header}
    for number, name in enumerate(header, start=1):
        if (repeated := name.lower()) in seen:
            while name.lower() in taken:
                name = f"{name}_{number}"
            taken.add(name.lower())
        seen.add(repeated)
        names.append(name)
    return names


def split_words(question: str) -> np.ndarray:
    """Returns the offsets of the words of a question.

    A word is a run of letters, digits and underscores, or one other non-blank character; a Chinese
    character is a word, too, for nothing marks where longer ones begin. Every word boundary is a
    boundary between wordpieces of BERT's tokenizers, so a span of words is a span of wordpieces,
    whatever the vocabulary.

    Returns:
        [W, 2] int32 character offsets, end exclusive.

    Example:
        >>> split_words("over $1,000?").tolist()
        [[0, 4], [5, 6], [6, 7], [7, 8], [8, 11], [11, 12]]
    """
    check_text(question, "question")
    spans = [match.span() for match in _WORD.finditer(question)]
    return np.array(spans, np.int32).reshape(-1, 2)
