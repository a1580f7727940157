"""A slow executor of programs, in plain Python over lists of rows, to compare the fast one with.

It follows the docstring of `hardem_jax.programs.solutions.types` and shares no code with
`hardem_jax.programs.solutions.execute`.
"""

import math
import operator
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
from hardem_jax.tables.metrics import result_texts
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
        cells = [row[column] for row in table.rows]
        if any(PARTS.index("text") in read_cell(cell) for cell in cells):
            cells = [cell if cell is None else result_texts([cell])[0] for cell in cells]
        read = [read_cell(cell) for cell in cells]
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
        return [r for r in rows if _holds(link, self._keys(link.field, [r]))]

    def execute(self, program: Program) -> list | None:
        """The result of a program; None if it has none."""
        if not _is_typed(program):
            return None
        sets = [self.rows_of(link) for link in program.links]
        if program.shape.connective == "versus":
            return self._versus(program, *sets)
        rows = self._final(program, *sets)
        return self._result(program, rows) if rows else None

    def _values(self, field: Field | None, rows: Sequence[int]) -> list[Value]:
        assert field is not None
        known = self._fields.get(field.code)
        return [value for row in rows for value in known[row]] if known else []

    def _keys(self, field: Field | None, rows: Sequence[int]) -> list[Key]:
        return [key for key, _ in self._values(field, rows)]

    def _final(self, program: Program, a: Sequence[int] = (), b: Sequence[int] = ()) -> list[int]:
        connective, targets = program.shape.connective, self._ordinary
        if connective == "all":
            a = targets
        elif connective == "and":
            a = [r for r in a if r in b]
        elif connective == "or":
            a = [r for r in self._rows if r in a or r in b]
        elif connective == "and not":
            a = [r for r in a if r not in b]
        elif connective == "to":
            targets = b
        return self._modified(program.shape.modifier, program.modify, list(a), targets) if a else []

    def _modified(self, modifier: str, field: Field | None, rows: list[int], targets) -> list[int]:
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
        keys = self._keys(field, rows)
        if not keys:
            return []
        match modifier.removeprefix("next "):
            case "same":
                others = [r for r in targets if r not in rows]
                return [r for r in others if {*keys}.intersection(self._keys(field, [r]))]
            case "highest":
                return [r for r in rows if max(keys) in self._keys(field, [r])]
            case "lowest":
                return [r for r in rows if min(keys) in self._keys(field, [r])]
            case "higher":
                nearest, beyond = "lowest", max(keys).__lt__
            case "lower":
                nearest, beyond = "highest", min(keys).__gt__
            case _:
                raise ValueError(modifier)
        reached = [r for r in targets if any(map(beyond, self._keys(field, [r])))]
        if modifier.startswith("next ") and reached:
            return self._modified(nearest, field, reached, targets)
        return reached

    def _result(self, program: Program, rows: list[int]) -> list | None:
        result, field = program.shape.result, program.select
        if result == "count":
            return [float(len(rows))]
        values, keys = self._values(field, rows), self._keys(field, rows)
        if result in ("gap", "total"):
            others = self._keys(program.modify, rows)
            if len(rows) > 1 or not keys or not others:
                return None
            combine = operator.add if result == "total" else lambda a, b: abs(a - b)
            return _number(lambda: combine(keys[0], others[0]))
        if not values:
            return None
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
        counts = Counter(key for r in rows for key in set(self._keys(field, [r])))
        if result == "repeated":
            wanted = set(counts.values()) - {1}
        else:
            extreme = {"most common": max, "least common": min}[result]
            wanted = {extreme(counts.values())} if len(counts) > 1 else set()
        # As where a key first appears.
        shown = dict(reversed(values))
        return [shown[key] for key in dict.fromkeys(keys) if counts[key] in wanted] or None

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
        a, b = ({*self._keys(program.select, rows)} for rows in (left, right))
        if len(a) != 1 or len(b) != 1:
            return None
        (a,), (b,) = a, b
        if result == "difference":
            return _number(lambda: abs(a - b))
        return self._whether(a > b if result == "is higher" else a == b)

    def _whether(self, truth: bool) -> list:
        return [self._truths[0] if truth else self._truths[1]]


_COMPARED = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


def _holds(link: Link, keys: list[Key]) -> bool:
    name, value = OPERATORS[link.operator], link.value  # None of "empty" and "not empty"
    match name:
        case "empty":
            return not keys
        case "not empty":
            return bool(keys)
        case "=":
            return value in keys
        case "!=":
            return bool(keys) and value not in keys
        case "contains":
            return any(key != value and f" {value} " in f" {key} " for key in keys)
    compare: Callable[[Key, Key], bool] = _COMPARED[name]
    return any(compare(key, value) for key in keys)


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
