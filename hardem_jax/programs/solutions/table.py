"""Tables indexed by the values of their fields.

A set of rows is a Python integer whose bit r represents row r, for tables of any length. The rows
with a key below a number are a prefix of the sorted keys, so conditions and superlatives are binary
searches over such sets.
"""

from __future__ import annotations

import functools
import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from hardem_jax.programs.solutions.parts import Key, Value, read_cell
from hardem_jax.programs.solutions.types import PARTS, Field
from hardem_jax.tables.metrics import result_texts
from hardem_jax.tables.table import Cell, IdentityCache, Table, mask_rows

NUMBER = PARTS.index("number")
TEXT = PARTS.index("text")
# The longest run of words that "contains" looks up.
MAX_GRAM = 8
# Similar words share so many letters at their start, and differ by so many at their end.
MIN_STEM, MAX_ENDING = 4, 3
_TOTALS = {"total", "subtotal", "overall", "career", "average", "sum", "combined", "all"}


class FieldValues:
    """The values of a ``field`` in every row, none if a row lacks it, as ``rows``.

    ``rows_with`` has the set of rows of each key, in order of first appearance; ``valued`` are all
    of them. ``many`` tells whether some row has several values.
    """

    def __init__(self, field: Field, rows: Sequence[tuple[Value, ...]]):
        self.field = field
        self.rows = tuple(rows)
        self.many = any(len(values) > 1 for values in rows)
        self.rows_with: dict[Key, int] = {}
        for row, values in enumerate(rows):
            for value in values:
                self.rows_with[value.key] = self.rows_with.get(value.key, 0) | 1 << row
        self._sorted: list[float] = [] if field.is_text else sorted(self.rows_with)  # type: ignore
        self._below = [0]  # entry i: the rows with one of the i lowest keys
        for key in self._sorted:
            self._below.append(self._below[-1] | self.rows_with[key])
        self.valued = sum(1 << row for row, values in enumerate(rows) if values)
        self._known_extremes: dict[int, tuple[float, float]] = {}

    def below(self, number: float) -> int:
        """Rows with a key below a number."""
        return self._below[bisect_left(self._sorted, number)]

    def above(self, number: float) -> int:
        """Rows with a key above a number."""
        return self.valued & ~(self.below(number) | self.rows_with.get(number, 0))

    def highest(self, mask: int) -> int:
        """The rows of a set with its maximum; none if all lack the field."""
        extremes = self.extremes(mask)
        return mask & self.rows_with[extremes[1]] if extremes else 0

    def lowest(self, mask: int) -> int:
        """The rows of a set with its minimum; none if all lack the field."""
        extremes = self.extremes(mask)
        return mask & self.rows_with[extremes[0]] if extremes else 0

    def extremes(self, mask: int) -> tuple[float, float] | None:
        """Minimum and maximum key of a number field over a set of rows; None if all lack it."""
        mask &= self.valued
        if not mask:
            return None
        if (known := self._known_extremes.get(mask)) is None:
            top = range(1, len(self._sorted))
            low = bisect_left(top, True, key=lambda i: bool(mask & self._below[i]))
            high = bisect_left(top, True, key=lambda i: not mask & ~self._below[i])
            known = self._known_extremes[mask] = self._sorted[low], self._sorted[high]
        return known

    def values(self, mask: int) -> Iterator[Value]:
        """The values of a set of rows, by row."""
        for row in mask_rows(mask & self.valued):
            yield from self.rows[row]

    def only_key(self, mask: int) -> Key | None:
        """The key of all values in a set of rows; None if there are several or none."""
        mask &= self.valued
        if not mask:
            return None
        key = self.rows[(mask & -mask).bit_length() - 1][0].key
        if mask & ~self.rows_with[key]:
            return None
        if self.many and any(value.key != key for value in self.values(mask)):
            return None
        return key


class ProgramTable:
    """A table with the fields that programs use, by code.

    A part that some cell of a column has makes a field, except "item" and "count" where no cell
    has two items, "first" where none has a "second", and parts that equal an earlier one.

    A total row is one whose first text is "total", "average", "career" or the like, or begins or
    ends with "total" and has at most three words. If most rows were totals, none is. The
    ``ordinary`` rows are all others.
    """

    def __init__(self, table: Table):
        self.header = table.header
        self.num_rows = len(table.rows)
        self.every_row = (1 << self.num_rows) - 1
        self.fields: dict[int, FieldValues] = {}
        columns = zip(*table.rows, strict=True) if table.rows else [()] * len(table.header)
        for column, cells in enumerate(columns):
            self._add_column(column, cells)
        number = Field(len(table.header), NUMBER)
        rows = [(Value(float(row), float(row)),) for row in range(1, self.num_rows + 1)]
        self.row_number = number.code
        if rows:
            self.fields[number.code] = FieldValues(number, rows)
        self.ordinary = self.every_row & ~self._totals()

    def _totals(self) -> int:
        firsts: dict[int, Key] = {}
        for values in self.fields.values():
            if values.field.part == TEXT:
                for row, found in enumerate(values.rows):
                    if found:
                        firsts.setdefault(row, found[0].key)
        totals = sum(1 << row for row, key in firsts.items() if _is_total(str(key)))
        return totals if 2 * totals.bit_count() <= self.num_rows else 0

    def _add_column(self, column: int, cells: Sequence[Cell]) -> None:
        read = [read_cell(cell) for cell in cells]
        if any(TEXT in values for values in read):  # numbers between texts are some, too
            pairs = zip(cells, read, strict=True)
            read = [read_cell(*result_texts([cell])) if values else {} for cell, values in pairs]
        rows = {part: tuple(values.get(n, ()) for values in read) for n, part in enumerate(PARTS)}
        if all(len(items) < 2 for items in rows["item"]):
            rows["item"] = rows["count"] = ()
        if not any(rows["second"]):
            rows["first"] = ()
        seen = set()
        for n, part in enumerate(PARTS):
            if any(rows[part]) and rows[part] not in seen:
                seen.add(rows[part])
                field = Field(column, n)
                self.fields[field.code] = FieldValues(field, rows[part])

    @functools.cached_property
    def holders(self) -> dict[Key, list[tuple[int, int]]]:
        """For each key of a text field, the codes of the fields that hold it and in which rows."""
        found: dict[Key, list[tuple[int, int]]] = {}
        for code, values in self.fields.items():
            if values.field.is_text:
                for key, mask in values.rows_with.items():
                    found.setdefault(key, []).append((code, mask))
        return found

    @functools.cached_property
    def containers(self) -> dict[str, list[tuple[int, int]]]:
        """For each run of words within longer keys of "text", the same: its fields and rows."""
        found: dict[str, dict[int, int]] = {}
        for code, values in self.fields.items():
            if values.field.part == TEXT:
                for key, mask in values.rows_with.items():
                    for gram in _grams(str(key).split(" ")):
                        rows = found.setdefault(gram, {})
                        rows[code] = rows[code] | mask if code in rows else mask
        return {gram: list(rows.items()) for gram, rows in found.items()}

    @functools.cached_property
    def _vocabulary(self) -> dict[str, list[str]]:
        """The words of all texts by their first letters."""
        words = {word for key in (*self.holders, *self.containers) for word in str(key).split(" ")}
        found: dict[str, list[str]] = {}
        for word in sorted(words):
            if len(word) >= MIN_STEM and word[0].isalpha():
                found.setdefault(word[:MIN_STEM], []).append(word)
        return found

    def similar(self, key: str) -> Sequence[str]:
        """What a text stands for: itself if some cell has it or it is not one word of letters.
        Other words stand for those of the cells that differ from them by at most 3 letters at the
        end, after at least 4 that are the same."""
        known = key in self.holders or key in self.containers
        if known or len(key) <= MIN_STEM or " " in key or not key[0].isalpha():
            return (key,)
        return [
            word
            for word in self._vocabulary.get(key[:MIN_STEM], ())
            if len(os.path.commonprefix((word, key))) >= max(len(word), len(key)) - MAX_ENDING
        ]


def _is_total(key: str) -> bool:
    words = key.split(" ")
    return key in _TOTALS or (len(words) <= 3 and "total" in (words[0], words[-1]))


def _grams(words: Sequence[str]) -> set[str]:
    """The runs of at most `MAX_GRAM` words of a text, except the whole text."""
    size = len(words)
    return {
        " ".join(words[start:end])
        for start in range(size)
        for end in range(start + 1, min(start + MAX_GRAM, size) + 1)
        if end - start < size
    }


program_table = IdentityCache(ProgramTable)
"""The `ProgramTable` of a table, cached for the most recently used ones."""
