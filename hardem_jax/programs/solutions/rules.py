"""What makes a program: its shapes, fields and pairs of links, and which programs are in Z_tot."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from hardem_jax.errors import require
from hardem_jax.programs.solutions.execute import aggregate, connect, modify_rows
from hardem_jax.programs.solutions.table import ProgramTable
from hardem_jax.programs.solutions.types import (
    LOCAL,
    NUMBER_PARTS,
    OPERATORS,
    PARTS,
    SHAPES,
    TEXT_PARTS,
    Field,
    Links,
    Shape,
)

_DATE_PARTS = ("time", "date", "year", "last year", "month", "day")
_ADDABLE = ("number", "second number", "count")
_COMPARABLE = (*_ADDABLE, "year", "last year", "date", "time")
_GROUPS = (*TEXT_PARTS, "number", "year", "last year", "month")
_SELECTABLE = {
    "values": tuple(part for part in PARTS if part != "time"),
    "count distinct": _GROUPS,
    "most common": _GROUPS,
    "least common": _GROUPS,
    "repeated": _GROUPS,
    "sum": _ADDABLE,
    "average": _ADDABLE,
    "total": _ADDABLE,
    "range": _COMPARABLE,
    "gap": _COMPARABLE,
    "difference": _COMPARABLE,
    "is higher": _COMPARABLE,
    "is same": PARTS,
}
_MODIFIABLE = {
    "highest": NUMBER_PARTS,
    "lowest": NUMBER_PARTS,
    "same": (*TEXT_PARTS, "number", "second number", "year", "month", "date"),
    "higher": _COMPARABLE,
    "lower": _COMPARABLE,
    "next higher": _COMPARABLE,
    "next lower": _COMPARABLE,
}
# What the row number can be selected by, or modify.
_OF_ROW_NUMBERS = ("values", "difference", "is higher", "higher", "lower")
_HELD = tuple(OPERATORS.index(operator) for operator in ("=", "contains"))


@dataclasses.dataclass(frozen=True)
class ProgramRules:
    """Z_tot: which fields, links and shapes there are, and how many programs are kept.

    Two links of a program never share a word of the question, and at most one has no span. Those of
    "or" have the same field and operator, "=" or "contains"; the second of "and not" has one of
    these, too. The two fields of "gap" and "total" are different, in ascending order.

    Unless ``redundant``, everything in a program counts; otherwise a simpler one says the same:

    - each link of "and" and "or" and the second of "and not" changes the set of rows, the second of
      "to" changes the final rows, and the two sets of "versus" differ;
    - "first", "last", "highest" and "lowest" leave out a row;
    - sums and averages have two values or more, and a "count distinct" is not the number of rows.

    Attributes:
        parts: allow parts of cells other than "text" and "number".
        dates: allow times, dates, years, months and days (only with ``parts``).
        superlatives: allow "highest", "lowest", "first" and "last".
        neighbours: allow "previous" and "next".
        nested: allow "same", "higher", "lower", "next higher" and "next lower".
        groups: allow "most common", "least common" and "repeated".
        distinct: allow "count distinct".
        sums: allow "sum", "average", "range" and "total".
        differences: allow "difference", "count difference" and "gap".
        comparisons: allow "is higher", "is same", "is more" and "is within".
        negation: allow "!=" and "and not".
        alternatives: allow "or".
        inclusive: allow ">=" and "<=".
        contains: allow "contains".
        similar: allow words of the question to stand for similar ones of cells.
        empty: allow "empty" and "not empty".
        row_numbers: allow the row number as a field.
        redundant: allow links and modifiers that change nothing, see above.
        max_links: 0 to 2.
        max_pairs: bounds time and memory: with more pairs of links, programs have at most one link.
        cap: a larger Z is cut to a uniform sample of this many programs; None keeps all.
    """

    parts: bool = True
    dates: bool = True
    superlatives: bool = True
    neighbours: bool = True
    nested: bool = True
    groups: bool = True
    distinct: bool = True
    sums: bool = True
    differences: bool = True
    comparisons: bool = True
    negation: bool = True
    alternatives: bool = True
    inclusive: bool = True
    contains: bool = True
    similar: bool = True
    empty: bool = True
    row_numbers: bool = True
    redundant: bool = False
    max_links: int = 2
    max_pairs: int = 2**14
    cap: int | None = 2**12

    def __post_init__(self) -> None:
        require(self, "max_links", at_least=0, at_most=2)
        require(self, "max_pairs", "cap", at_least=1)

    def allows_field(self, field: Field, num_columns: int) -> bool:
        """Whether programs may use a field of a table with this number of columns.

        Example:
            >>> ProgramRules(dates=False).allows_field(Field(0, PARTS.index("year")), 3)
            False
        """
        if field.column == num_columns:
            return self.row_numbers
        part = PARTS[field.part]
        if part in ("text", "number"):
            return True
        return self.parts and (self.dates or part not in _DATE_PARTS)

    def allows_shape(self, shape: Shape) -> bool:
        """Whether programs may have a shape; that it is one of `SHAPES` is taken for granted.

        Example:
            >>> ProgramRules(max_links=1).allows_shape(Shape("count", "none", "and"))
            False
        """
        return shape.num_links <= self.max_links and _left_out(self).isdisjoint(shape)

    def shapes(self) -> list[int]:
        """Indices in `SHAPES` of those allowed."""
        return [index for index, shape in enumerate(SHAPES) if self.allows_shape(shape)]


@functools.lru_cache(maxsize=64)
def _left_out(rules: ProgramRules) -> frozenset[str]:
    """Results, modifiers and connectives that the rules do not allow."""
    optional = (
        (rules.superlatives, ("highest", "lowest", "first", "last")),
        (rules.neighbours, ("previous", "next")),
        (rules.nested, ("same", "higher", "lower", "next higher", "next lower")),
        (rules.groups, ("most common", "least common", "repeated")),
        (rules.distinct, ("count distinct",)),
        (rules.sums, ("sum", "average", "range", "total")),
        (rules.differences, ("difference", "count difference", "gap")),
        (rules.comparisons, ("is higher", "is same", "is more", "is within")),
        (rules.negation, ("and not",)),
        (rules.alternatives, ("or",)),
    )
    return frozenset(name for allowed, names in optional if not allowed for name in names)


def may_select(shape: Shape, field: Field, num_columns: int) -> bool:
    """Whether a field can be the select field of a shape.

    Example:
        >>> may_select(Shape("sum", "none", "all"), Field(0, PARTS.index("text")), 3)
        False
    """
    if field.column == num_columns:
        return shape.result in _OF_ROW_NUMBERS
    return PARTS[field.part] in _SELECTABLE[shape.result]


def may_modify(shape: Shape, field: Field, num_columns: int) -> bool:
    """Whether a field can be the modifier field of a shape.

    Example:
        >>> may_modify(Shape("values", "highest", "all"), Field(0, PARTS.index("time")), 3)
        True
    """
    name = shape.result if shape.modifier == "none" else shape.modifier
    if field.column == num_columns:
        return name in _OF_ROW_NUMBERS
    return PARTS[field.part] in (_SELECTABLE if shape.modifier == "none" else _MODIFIABLE)[name]


def may_pair(connective: str, links: Links, first: int, second: int) -> bool:
    """Whether a connective can join two links, in this order.

    Args:
        connective: one that has two links.
        links: the links of a question.
        first, second: indices of two of them.
    """
    (a_field, a_operator, a_start, a_end), (b_field, b_operator, b_start, b_end) = (
        links.array[index].tolist() for index in (first, second)
    )
    if max(a_start, b_start) <= min(a_end, b_end):
        return False
    if connective == "or":
        return (a_field, a_operator) == (b_field, b_operator) and a_operator in _HELD
    return connective != "and not" or b_operator in _HELD


def table_fields(table: ProgramTable, rules: ProgramRules) -> np.ndarray:
    """The fields of a table that programs may use.

    Returns:
        ``[F, 3]`` int32: code, number of rows that have the field, number of distinct keys.
    """
    width = len(table.header)
    found = [
        (code, values.valued.bit_count(), len(values.rows_with))
        for code, values in table.fields.items()
        if rules.allows_field(values.field, width)
    ]
    return np.array(found, np.int32).reshape(-1, 3)


Pairs = list[tuple[int, int]]


def links_and_pairs(links: Links, rules: ProgramRules) -> tuple[int, Pairs]:
    """How many links a program of this question may have; if two, the pairs of links, ascending,
    that share no word and do not both lack a span."""
    if rules.max_links < 2:
        return rules.max_links, []
    first, last = links.array[:, 2], links.array[:, 3]
    separate = np.maximum(first[:, None], first) > np.minimum(last[:, None], last)
    if np.count_nonzero(separate) > 2 * rules.max_pairs:  # each pair twice
        return 1, []
    return 2, [(i, j) for i, j in np.argwhere(np.triu(separate, 1)).tolist()]


class AllowedPrograms:
    """The programs that the rules allow; Z is those that execute to the answer."""

    def __init__(self, table: ProgramTable, links: Links, rules: ProgramRules):
        self._table, self._links, self._rules = table, links, rules

    def __contains__(self, row: Sequence[int] | np.ndarray) -> bool:
        """Whether a row of ``ROW_WIDTH`` integers is one of them, see `Program.from_row`. Whether
        it has a result does not matter."""
        number, *rest = (int(entry) for entry in row)
        if not 0 <= number < len(SHAPES) or not self._is_allowed(SHAPES[number], *rest):
            return False
        return self._rules.redundant or not self._is_redundant(SHAPES[number], *rest)

    def _is_allowed(self, shape: Shape, select: int, modify: int, first: int, second: int) -> bool:
        if not self._rules.allows_shape(shape):
            return False
        width, fields = len(self._table.header), self._table.fields
        for code, has, may in (
            (select, shape.has_select, may_select),
            (modify, shape.has_modify, may_modify),
        ):
            if not has and code == -1:
                continue
            values = fields.get(code) if has else None
            if values is None or not self._rules.allows_field(values.field, width):
                return False
            if not may(shape, values.field, width):
                return False
        if shape.result in ("gap", "total") and select >= modify:
            return False
        used, unused = (first, second)[: shape.num_links], (first, second)[shape.num_links :]
        if any(not 0 <= link < len(self._links) for link in used) or any(n != -1 for n in unused):
            return False
        if shape.num_links < 2:
            return True
        if shape.is_symmetric and first >= second:
            return False
        return self._max_links > 1 and may_pair(shape.connective, self._links, first, second)

    @functools.cached_property
    def _max_links(self) -> int:
        return links_and_pairs(self._links, self._rules)[0]

    def _is_redundant(
        self, shape: Shape, select: int, modify: int, first: int, second: int
    ) -> bool:
        """Whether a simpler program says the same, see `ProgramRules`."""
        f, g = self._table.fields.get(select), self._table.fields.get(modify)
        every, masks = self._table.ordinary, self._links.masks
        a = masks[first] if shape.num_links > 0 else every
        b = masks[second] if shape.num_links > 1 else every
        if shape.connective == "versus":
            return a == b
        if shape.connective == "to":
            return modify_rows(shape.modifier, g, a, b) == modify_rows(shape.modifier, g, a, every)
        rows = connect(shape.connective, a, b)
        if shape.num_links == 2 and rows in (a, b):
            return True
        if shape.modifier in LOCAL and shape.modifier != "none":
            return modify_rows(shape.modifier, g, rows, rows) == rows
        if shape.result in ("sum", "average"):
            assert f is not None
            return (rows & f.valued).bit_count() < 2
        if shape.result == "count distinct":
            return aggregate("count distinct", f, rows) == [rows.bit_count()]
        return False
