"""A slow executor of programs, in plain Python over lists of rows, to compare the fast one with.

It follows the docstring of `hardem_jax.programs.solutions.types` and shares no code with
`hardem_jax.programs.solutions.execute`.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from hardem_jax.programs.solutions.parts import read_cell
from hardem_jax.programs.solutions.types import (
    NUMBER_RESULTS,
    OPERATORS,
    PARTS,
    Field,
    Link,
    Program,
)
from hardem_jax.tables.table import Table

# Texts or numbers, never compared with each other.
Key = Any
Value = tuple[Key, str | float]
Fields = Mapping[int, Sequence[Sequence[Value]]]
"""For the code of each field, the list of (key, cell shown) of every row."""


def table_values(table: Table) -> Fields:
    """The values of every field of a table, read cell by cell, and its row numbers."""
    fields: dict[int, list] = {}
    for column in range(len(table.header)):
        read = [read_cell(row[column]) for row in table.rows]
        for part in range(len(PARTS)):
            rows = [values.get(part, ()) for values in read]
            if any(rows):
                fields[Field(column, part).code] = rows
    number = Field(len(table.header), PARTS.index("number"))
    fields[number.code] = [((row, row),) for row in map(float, range(1, len(table.rows) + 1))]
    return fields


class Reference:
    """Executes programs over the values of every field (`Fields`)."""

    def __init__(
        self,
        fields: Fields,
        num_rows: int,
        totals: Collection[int] = (),
        truths: tuple[str, str] = ("yes", "no"),
    ):
        self._fields, self._rows, self._truths = fields, range(num_rows), truths
        self._ordinary = [row for row in self._rows if row not in totals]

    def rows_of(self, link: Link) -> list[int]:
        """The rows that satisfy a link."""
        on_text = link.field.is_text and OPERATORS[link.operator] in ("=", "contains")
        rows = self._rows if on_text else self._ordinary
        return [r for r in rows if _holds(link, self._keys(link.field, r))]

    def execute(self, program: Program) -> list | None:
        """The result of a program; None if it has none."""
        if not _is_typed(program):
            return None
        sets = [self.rows_of(link) for link in program.links]
        if program.shape.connective == "versus":
            return self._versus(program, *sets)
        rows = self._final(program, sets)
        return self._result(program, rows) if rows else None

    def _keys(self, field: Field, row: int) -> list[Key]:
        return [key for key, _ in self._values(field, row)]

    def _values(self, field: Field, row: int) -> Sequence[Value]:
        return self._fields[field.code][row] if field.code in self._fields else ()

    def _final(self, program: Program, sets: Sequence[Sequence[int]]) -> list[int]:
        targets = self._ordinary
        match program.shape.connective:
            case "all":
                rows = targets
            case "one":
                rows = list(sets[0])
            case "and":
                rows = [r for r in sets[0] if r in sets[1]]
            case "or":
                rows = [r for r in self._rows if r in sets[0] or r in sets[1]]
            case "and not":
                rows = [r for r in sets[0] if r not in sets[1]]
            case "to":
                rows, targets = map(list, sets)
            case other:
                raise ValueError(other)
        if not rows:
            return []
        return self._modified(program.shape.modifier, program.modify, rows, targets)

    def _modified(self, modifier, field, rows, targets) -> list[int]:
        match modifier:
            case "none":
                return rows
            case "first":
                return [min(rows)]
            case "last":
                return [max(rows)]
            case "previous":
                return [r for r in targets if r < min(rows)][-1:]
            case "next":
                return [r for r in targets if r > max(rows)][:1]
            case "same":
                known = {key for r in rows for key in self._keys(field, r)}
                return [
                    r for r in targets if r not in rows and known.intersection(self._keys(field, r))
                ]
            case "highest":
                return self._extreme(max, field, rows)
            case "lowest":
                return self._extreme(min, field, rows)
            case "higher" | "next higher":
                above = self._beyond(max, lambda key, bound: key > bound, field, rows, targets)
                return self._extreme(min, field, above) if modifier == "next higher" else above
            case "lower" | "next lower":
                below = self._beyond(min, lambda key, bound: key < bound, field, rows, targets)
                return self._extreme(max, field, below) if modifier == "next lower" else below
        raise ValueError(modifier)

    def _extreme(self, choose: Callable, field: Field, rows: list[int]) -> list[int]:
        keys = [key for r in rows for key in self._keys(field, r)]
        return [r for r in rows if choose(keys) in self._keys(field, r)] if keys else []

    def _beyond(self, choose, is_beyond, field, rows, targets) -> list[int]:
        keys = [key for r in rows for key in self._keys(field, r)]
        if not keys:
            return []
        bound = choose(keys)
        return [r for r in targets if any(is_beyond(key, bound) for key in self._keys(field, r))]

    def _result(self, program: Program, rows: list[int]) -> list | None:
        result, field = program.shape.result, program.select
        if result == "count":
            return [float(len(rows))]
        assert field is not None
        if result in ("gap", "total"):
            return self._pair(result, field, program.modify, rows)
        values = [value for r in rows for value in self._values(field, r)]
        if not values:
            return None
        keys = [key for key, _ in values]
        match result:
            case "values":
                return [shown for _, shown in values]
            case "count distinct":
                return [float(len(set(keys)))]
            case "sum":
                return _number(lambda: math.fsum(keys))
            case "average":
                return _number(lambda: math.fsum(keys) / len(keys))
            case "range":
                return _number(lambda: max(keys) - min(keys)) if len(set(keys)) > 1 else None
        shown = {}
        for key, cell in values:
            shown.setdefault(key, cell)
        counts = Counter(key for r in rows for key in set(self._keys(field, r)))
        match result:
            case "most common":
                wanted = {max(counts.values())} if len(counts) > 1 else set()
            case "least common":
                wanted = {min(counts.values())} if len(counts) > 1 else set()
            case "repeated":
                wanted = set(counts.values()) - {1}
            case _:
                raise ValueError(result)
        return [cell for key, cell in shown.items() if counts[key] in wanted] or None

    def _pair(self, result: str, first: Field, second: Field | None, rows) -> list | None:
        assert second is not None
        if len(rows) > 1:
            return None
        a, b = self._keys(first, rows[0]), self._keys(second, rows[0])
        if not a or not b:
            return None
        return _number(lambda: abs(a[0] - b[0]) if result == "gap" else a[0] + b[0])

    def _versus(self, program: Program, left: Sequence[int], right: Sequence[int]) -> list | None:
        if not left or not right:
            return None
        result = program.shape.result
        if result == "count difference":
            return [float(abs(len(left) - len(right)))]
        if result == "is more":
            return self._whether(len(left) > len(right))
        if result == "is within":
            return self._whether(set(left) <= set(right))
        assert program.select is not None
        a, b = ({k for r in rows for k in self._keys(program.select, r)} for rows in (left, right))
        if len(a) != 1 or len(b) != 1:
            return None
        (a,), (b,) = a, b
        match result:
            case "difference":
                return _number(lambda: abs(a - b))
            case "is higher":
                return self._whether(a > b)
            case "is same":
                return self._whether(a == b)
        raise ValueError(result)

    def _whether(self, truth: bool) -> list:
        return [self._truths[0] if truth else self._truths[1]]


def _holds(link: Link, keys: list[Key]) -> bool:
    value: Key = link.value
    match OPERATORS[link.operator]:
        case "empty":
            return not keys
        case "not empty":
            return bool(keys)
        case "=":
            return value in keys
        case "!=":
            return bool(keys) and value not in keys
        case ">":
            return any(key > value for key in keys)
        case ">=":
            return any(key >= value for key in keys)
        case "<":
            return any(key < value for key in keys)
        case "<=":
            return any(key <= value for key in keys)
        case "contains":
            return any(
                key != value and _has_words(key.split(" "), value.split(" ")) for key in keys
            )
    raise ValueError(link.operator)


def _has_words(words: list[str], wanted: list[str]) -> bool:
    starts = range(len(words) - len(wanted) + 1)
    return any(words[start : start + len(wanted)] == wanted for start in starts)


def _number(compute: Callable[[], float]) -> list[float] | None:
    try:
        number = compute()
    except OverflowError:
        return None
    return [float(number)] if math.isfinite(number) else None


def _is_typed(program: Program) -> bool:
    """Whether results and modifiers that need numbers have fields of numbers."""
    shape, select, modify, _ = program
    if shape.result in NUMBER_RESULTS and select is not None and select.is_text:
        return False
    return modify is None or shape.modifier == "same" or not modify.is_text
