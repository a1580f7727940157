"""Executes programs (f); their semantics are defined in `types`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hardem_jax.programs.solutions.parts import Key
from hardem_jax.programs.solutions.table import FieldValues, program_table
from hardem_jax.programs.solutions.types import MOVES, NUMBER_RESULTS, SHAPES, Links, Shape
from hardem_jax.tables.table import Table, mask_rows

Result = list[str | float]


def execute(table: Table, row: Sequence[int] | np.ndarray, links: Links) -> Result | None:
    """The result of a program, ``[ROW_WIDTH]`` integers; None if it has none, see `types`."""
    shape, f, g, a, b, ordinary = _operands(table, row, links)
    if (shape.has_select and f is None) or (shape.has_modify and g is None):
        return None
    if (f and f.field.is_text and shape.result in NUMBER_RESULTS) or (
        g and g.field.is_text and (shape.modifier != "same")
    ):
        return None
    if shape.connective == "versus":
        return compare(shape.result, f, a, b, links.truths)
    start, final = _start_and_final(shape, g, a, b, ordinary)
    if shape.result in ("gap", "total"):
        assert f is not None and g is not None
        return two_fields(shape.result, f, g, start)
    return aggregate(shape.result, f, final)


def rows_of_program(
    table: Table, row: Sequence[int] | np.ndarray, links: Links
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The rows that a program starts from, and its final ones, each ascending. For "versus", which
    has no modifier, both are the rows of either link."""
    shape, _, *operands = _operands(table, row, links)
    start, final = _start_and_final(shape, *operands)
    return tuple(mask_rows(start)), tuple(mask_rows(final))


def _operands(table: Table, row: Sequence[int] | np.ndarray, links: Links) -> tuple[Any, ...]:
    """Shape, both fields (None if there is no such field), the rows of its links, and all rows."""
    number, select, modify, first, second = (int(entry) for entry in row)
    shape, indexed = SHAPES[number], program_table(table)
    a = links.masks[first] if shape.num_links > 0 else indexed.ordinary
    b = links.masks[second] if shape.num_links > 1 else 0
    return shape, indexed.fields.get(select), indexed.fields.get(modify), a, b, indexed.ordinary


def _start_and_final(
    shape: Shape, g: FieldValues | None, a: int, b: int, ordinary: int
) -> tuple[int, int]:
    if shape.connective == "versus":
        return a | b, a | b
    start, targets = connect(shape.connective, a, b), b if shape.connective == "to" else ordinary
    if shape.result in ("gap", "total"):
        return start, start
    return start, modify_rows(shape.modifier, g, start, targets)


def connect(connective: str, a: int, b: int) -> int:
    """The rows that a connective starts from, given those of its links."""
    if connective == "and":
        return a & b
    if connective == "or":
        return a | b
    return a & ~b if connective == "and not" else a


def modify_rows(modifier: str, g: FieldValues | None, rows: int, targets: int) -> int:
    """The final rows of a modifier, given those it starts from and those where a move may end."""
    if modifier in MOVES:
        return arrive(modifier, g, reach(modifier, g, rows) & targets)
    if not rows or modifier == "none":
        return rows
    if g is None:
        return first_row(rows) if modifier == "first" else last_row(rows)
    return g.highest(rows) if modifier == "highest" else g.lowest(rows)


def reach(modifier: str, g: FieldValues | None, rows: int) -> int:
    """The rows that a move could end at if they were the only target; may be a negative integer."""
    if not rows:
        return 0
    if g is None:  # all rows before the first of them, or after the last
        return first_row(rows) - 1 if modifier == "previous" else -1 << rows.bit_length()
    if modifier == "same":
        shared = 0
        for key in {value.key for value in g.values(rows)}:
            shared |= g.rows_with[key]
        return shared & ~rows
    extremes = g.extremes(rows)
    if extremes is None:
        return 0
    return g.above(extremes[1]) if modifier.endswith("higher") else g.below(extremes[0])


def arrive(modifier: str, g: FieldValues | None, reached: int) -> int:
    """The final rows of a move, among the targets in reach."""
    if modifier in ("same", "higher", "lower"):
        return reached
    if g is None:
        return last_row(reached) if modifier == "previous" else first_row(reached)
    return g.lowest(reached) if modifier == "next higher" else g.highest(reached)


def first_row(mask: int) -> int:
    """The set of the first row of a set."""
    return mask & -mask


def last_row(mask: int) -> int:
    """The set of the last row of a set."""
    return 1 << mask.bit_length() >> 1


def aggregate(result: str, f: FieldValues | None, rows: int) -> Result | None:
    """A result over the final rows, except of two fields and of "versus"."""
    if not rows:
        return None
    if result == "count":
        return [float(rows.bit_count())]
    assert f is not None
    if not rows & f.valued:
        return None
    if result == "values":
        return [value.shown for value in f.values(rows)]
    if result == "range":
        lowest, highest = f.extremes(rows) or (0.0, 0.0)
        return _finite(highest - lowest) if highest > lowest else None
    if result in ("sum", "average"):
        numbers = [float(value.key) for value in f.values(rows)]
        return _finite(total(numbers) / (len(numbers) if result == "average" else 1))
    counts = key_counts(f, rows)
    if result == "count distinct":
        return [float(len(counts))]
    if result == "repeated":
        wanted = {count for count in counts.values() if count > 1}
    elif len(counts) < 2:
        return None
    else:
        wanted = {(max if result == "most common" else min)(counts.values())}
    shown: dict[Key, str | float] = {}
    for value in f.values(rows):
        if counts[value.key] in wanted:
            shown.setdefault(value.key, value.shown)
    return list(shown.values()) or None


def total(numbers: Sequence[float]) -> float:
    """The exact sum, rounded once; infinite if it is too large."""
    try:
        return math.fsum(numbers)
    except OverflowError:
        return math.inf


def key_counts(f: FieldValues, rows: int) -> dict[Key, int]:
    """How many rows of a set hold each key, in order of first appearance."""
    counts: dict[Key, int] = {}
    for row in mask_rows(rows & f.valued):
        for key in dict.fromkeys(value.key for value in f.rows[row]):
            counts[key] = counts.get(key, 0) + 1
    return counts


def two_fields(result: str, f: FieldValues, g: FieldValues, rows: int) -> Result | None:
    """ "gap" or "total" of two fields in the only row of a set."""
    if rows.bit_count() != 1:
        return None
    a, b = f.only_key(rows), g.only_key(rows)
    if a is None or b is None:
        return None
    assert not isinstance(a, str) and not isinstance(b, str)
    return _finite(abs(a - b) if result == "gap" else a + b)


def compare(
    result: str, f: FieldValues | None, a: int, b: int, truths: tuple[str, str]
) -> Result | None:
    """A result of "versus" over two sets of rows; ``truths`` are the words for true and false."""
    if result == "count difference":
        return [float(abs(a.bit_count() - b.bit_count()))]
    if result == "is more":
        return [truths[a.bit_count() <= b.bit_count()]]
    if result == "is within":
        return [truths[a & ~b != 0]]
    assert f is not None
    left, right = f.only_key(a), f.only_key(b)
    if left is None or right is None:
        return None
    if result == "is same":
        return [truths[left != right]]
    assert not isinstance(left, str) and not isinstance(right, str)
    if result == "is higher":
        return [truths[left <= right]]
    return _finite(abs(left - right))


def _finite(number: float) -> Result | None:
    return [number] if math.isfinite(number) else None
