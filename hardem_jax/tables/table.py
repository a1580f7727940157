"""Tables, their cells, and the words of a question about one."""

from __future__ import annotations

import decimal
import math
import re
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from hardem_jax.errors import check_many, check_text, check_texts

T = TypeVar("T")
_MAX_TABLES = 256

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
        rows: cells, one per column; None is NULL. Engines compare texts in lower case.

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
    """A text, number, bool or None as a plain value; else `TypeError`, which begins with ``where``.
    A whole `Decimal` becomes an integer, any other a float."""
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


def column_names(header: Sequence[str]) -> list[str]:
    """Distinct names, regardless of case, as SQLite compares them. The first column with a name
    keeps it; others, and those without, get their number appended, again while that is taken."""
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


def plain_text(text: str) -> str:
    """A text as in cells: accents composed, and one blank for white space, none at the ends."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def clean_question(text: str) -> str:
    """A question as `plain_text`, with which its words are compared, and a hyphen for the sign of
    "−5"."""
    return re.sub(r"−(?=\.?[0-9])", "-", plain_text(text))


def split_words(question: str) -> np.ndarray:
    """The offsets of the words of a question, ``[W, 2]`` int32, end exclusive.

    A word is a run of letters, digits and underscores, or one other non-blank character; a Chinese
    character is a word, too, for nothing marks where longer ones begin. Wordpieces of BERT's
    tokenizers never cross a boundary of words, so a span of words is one of wordpieces.
    """
    check_text(question, "question")
    return np.array([match.span() for match in _WORD.finditer(question)], np.int32).reshape(-1, 2)


#: Above, float64 no longer tells whole numbers apart.
MAX_WHOLE = 2**53


class IdentityCache(Generic[T]):
    """Caches a function's results for the ``size`` most recently used objects, by identity.
    Identity, because equal tables may differ in SQL: 1 == 1.0, but their texts differ."""

    def __init__(self, make: Callable[..., T], size: int = _MAX_TABLES):
        self._make, self._size = make, size
        # Keeps the object alive, so that its id is not reused.
        self._entries: OrderedDict[int, tuple[object, T]] = OrderedDict()

    def __call__(self, key) -> T:
        if (entry := self._entries.get(id(key))) is not None:
            self._entries.move_to_end(id(key))
            return entry[1]
        value = self._make(key)
        self._entries[id(key)] = (key, value)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)
        return value


def mask_rows(mask: int) -> list[int]:
    """The rows in a mask, ascending."""
    return [row for row, bit in enumerate(bin(mask)[:1:-1]) if bit == "1"]


def masks_to_matrix(masks: Sequence[int], num_rows: int) -> np.ndarray:
    """Masks as ``[M, R]`` float64, 1 for the rows in them."""
    size = (num_rows + 7) // 8
    data = b"".join([mask.to_bytes(size, "little") for mask in masks])
    octets = np.frombuffer(data, np.uint8).reshape(len(masks), size)
    return np.unpackbits(octets, axis=1, count=num_rows, bitorder="little").astype(np.float64)
