"""Programs over a table: what they are made of and what they mean.

A program asks for a result over a set of rows:

    result ( select field )  over  modifier ( modifier field )  of  connective ( links )

A *part* is a typed view of a cell, a *field* a part of a column, a *link* a condition whose value
is a span of the question, and a *shape* a triple of result, modifier and connective. A program is a
row of five integers, so that Z is an array and P(z | x) a sum of five entries of tables:

    (shape, select field, modifier field, link 1, link 2)

with -1 for what the shape has no use for (`Shape`). The rest of this docstring defines what a
program executes to. It knows nothing of how cells are read (`parts`) or spans understood (`links`):
it takes the values of every field in every row, and of every link its field, operator and value.

**Values.** A field has, in each row, a list of values, each with a *key*, which is compared, and
the cell that is *shown*. Keys are texts for the parts in `TEXT_PARTS`, finite floats for all
others. Only the part "item" has more than one value in a row. A row *lacks* a field if the list is
empty. A field that every row lacks does not exist.

**Total rows** add up others, see `table`. They are left out wherever "every row" is meant: by
"all", by the targets of modifiers, and by all links but "=" and "contains" of text parts.

**Links.** Row r satisfies ``field operator value`` if

    =            one of its keys is the value
    !=           it has keys, and none is the value
    > >= < <=    one of its keys compares like this with the value (no text parts)
    contains     one of its keys holds the words of the value, in order and side by side, and is
                 not the value itself (text parts only); words are separated by blanks
    empty        it lacks the field
    not empty    it does not

**Connectives** say which rows to start from, given the sets of rows A of link 1 and B of link 2:

    all      every row but totals         and not  A without B
    one      A                            to       A, and B for the modifier, see below
    and      A and B                      versus   A, and B for the result, see below
    or       A or B

**Modifiers** go from these rows to the final ones. With "to" they start from A and end among the
*targets* B; with any other connective the targets are all rows but totals. Below, g is the
modifier field, whose keys are numbers except for "same"; rows that lack it are never chosen.

    none                 the rows themselves
    first, last          the first or last of them, in the table's order
    highest, lowest      those with the maximum or minimum of g; several if they are tied
    previous             the last target before the first of them
    next                 the first target after the last of them
    same                 targets other than these rows that share a key of g with one of them
    higher               targets with g above the maximum of g in these rows
    lower                targets with g below the minimum of g in these rows
    next higher          those of "higher" with the minimum of g
    next lower           those of "lower" with the maximum of g

"higher", "lower" and their "next" choose no row if these rows all lack g.

**Results** over the final rows. If there are none, every result is None, so a count is never 0.
f is the select field; "its values" are those of all final rows, by row, then in the row's order. If
there are none, the result is None, too.

    values               the cells shown for its values, with repetitions
    count                number of rows; has no field
    count distinct       number of distinct keys of its values
    sum, average         of the keys
    range                maximum minus minimum of the keys; None if all are equal
    most common          the keys that the most rows hold, in order of first appearance,
    least common         or the fewest; None if the values have only one key
    repeated             the keys that at least two rows hold, in this order; None if none is
    gap                  abs(a - b): a is the key of f, b that of g, in the only final row
    total                a + b, likewise

A key counts once per row and is shown as where it first appears. "gap" and "total" are None if
there are several final rows or the row lacks f or g; their modifier is "none", the modifier field
their second operand. "versus" has results of its own; a and b are the only distinct key of f in A
and in B, and the result is None if one of them has none or several:

    difference           abs(a - b)
    count difference     abs(|A| - |B|); has no field
    is higher            whether a > b
    is same              whether a = b; all parts
    is more              whether |A| > |B|; has no field
    is within            whether B holds all of A; has no field

"Whether" is the first of `Links.truths` if it is so, otherwise the second: "yes" and "no" unless
the question offers two other words.

Results are lists of cells. All numbers in them are floats, except where a cell shown is a text: a
month is shown by its name, a date as "2010-07-06" with "xxxx" or "xx" for what is unknown.
Sums are `math.fsum`; an average is that divided by the number of values. A sum, a difference or
any other result that is not finite is None.

If a field does not exist, or has texts as keys where numbers are needed (`NUMBER_RESULTS`, all
modifiers but "same", the second operand of "gap" and "total"), the result is None.

A maximum is the value of "highest" with the same field twice, so there is no result for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hardem_jax.tables.table import column_names

TEXT_PARTS = ("text", "item", "first", "second")
"""Parts whose keys are texts, see `parts`."""

NUMBER_PARTS = (
    "number",
    "second number",
    "time",
    "date",
    "year",
    "last year",
    "month",
    "day",
    "count",
)
"""Parts whose keys are floats."""

PARTS = TEXT_PARTS + NUMBER_PARTS
"""Typed views of a cell, by index."""

OPERATORS = ("=", "!=", ">", ">=", "<", "<=", "contains", "empty", "not empty")
"""Operators of links, by index; the last two have no value."""

ROW_WIDTH = 5
"""Integers of a program."""

ROW_NUMBER = "row number"
"""Name of the column after the last, whose only part is "number": 1 in the first row."""

LOCAL = ("none", "first", "last", "highest", "lowest")
"""Modifiers that choose among the rows they start from."""

MOVES = ("previous", "next", "same", "higher", "lower", "next higher", "next lower")
"""Modifiers that go from rows to others."""

MODIFIERS = LOCAL + MOVES

CONNECTIVES = ("all", "one", "and", "or", "and not", "to", "versus")

RESULTS = (
    "values",
    "count",
    "count distinct",
    "sum",
    "average",
    "range",
    "most common",
    "least common",
    "repeated",
    "gap",
    "total",
    "difference",
    "count difference",
    "is higher",
    "is same",
    "is more",
    "is within",
)

NUMBER_RESULTS = ("sum", "average", "range", "gap", "total", "difference", "is higher")
"""Results whose select field has numbers as keys."""

_FIELDLESS_MODIFIERS = ("none", "first", "last", "previous", "next")
_FIELDLESS_RESULTS = ("count", "count difference", "is more", "is within")
_NUM_LINKS = {"all": 0, "one": 1}
_PAIRS = ("gap", "total")


class Field(NamedTuple):
    """A part of a column, both by index; the column after the last is the row number.

    Example:
        >>> field = Field(2, PARTS.index("year"))
        >>> field.code, Field.from_code(field.code) == field, field.text(("a", "b", "c"))
        (34, True, 'c.year')
    """

    column: int
    part: int

    @property
    def code(self) -> int:
        """The field as one integer: ``column * len(PARTS) + part``."""
        return self.column * len(PARTS) + self.part

    @classmethod
    def from_code(cls, code: int) -> Field:
        """The field of a code."""
        return cls(*divmod(int(code), len(PARTS)))

    @property
    def is_text(self) -> bool:
        """Whether its keys are texts."""
        return self.part < len(TEXT_PARTS)

    def text(self, header: Sequence[str]) -> str:
        """The field for people, "column.part"; only the column's name for whole cells.

        See `hardem_jax.tables.table.column_names` for repeated names.

        Example:
            >>> Field(1, PARTS.index("year")).text(("date", "date"))
            'date_2.year'
        """
        if self.column == len(header):
            return ROW_NUMBER
        part = PARTS[self.part]
        return column_names(header)[self.column] + (f".{part}" if part != "text" else "")


class Shape(NamedTuple):
    """Result, modifier and connective of a program, by name; semantics in the module docstring."""

    result: str
    modifier: str
    connective: str

    @property
    def has_select(self) -> bool:
        """Whether there is a select field."""
        return self.result not in _FIELDLESS_RESULTS

    @property
    def has_modify(self) -> bool:
        """Whether there is a modifier field; "gap" and "total" have one as second operand."""
        return self.modifier not in _FIELDLESS_MODIFIERS or self.result in _PAIRS

    @property
    def num_links(self) -> int:
        """Number of links, 0 to 2."""
        return _NUM_LINKS.get(self.connective, 2)

    @property
    def is_symmetric(self) -> bool:
        """Whether exchanging the links changes nothing; then link 1 < link 2 in a program's row."""
        if self.connective == "versus":
            return self.result in ("difference", "count difference", "is same")
        return self.connective in ("and", "or")


def _shapes() -> tuple[Shape, ...]:
    """All sensible shapes, by connective, number of fields, result and modifier."""
    sets = ("all", "one", "and", "or", "and not")
    shapes = [Shape("values", modifier, connective) for modifier in LOCAL for connective in sets]
    shapes += [Shape("values", modifier, c) for modifier in MOVES for c in ("one", "to")]
    shapes += [Shape("count", "none", connective) for connective in sets]
    shapes += [
        Shape("count", modifier, connective)
        for modifier in ("same", "higher", "lower")
        for connective in ("one", "to")
    ]
    for result in ("count distinct", "sum", "average", "most common", "least common"):
        shapes += [Shape(result, "none", connective) for connective in sets]
    shapes += [Shape(r, "none", c) for r in ("range", "repeated") for c in ("all", "one", "or")]
    shapes += [Shape(result, "none", c) for result in _PAIRS for c in ("one", "and")]
    versus = ("difference", "count difference", "is higher", "is same", "is more", "is within")
    shapes += [Shape(result, "none", "versus") for result in versus]
    return tuple(
        sorted(
            shapes,
            key=lambda s: (
                CONNECTIVES.index(s.connective),
                s.has_modify,
                RESULTS.index(s.result),
                MODIFIERS.index(s.modifier),
            ),
        )
    )


SHAPES = _shapes()
"""All shapes, by index: simple connectives first, then shapes without a modifier field."""


class Link(NamedTuple):
    """A condition: ``field operator value``.

    Attributes:
        field: what is compared.
        operator: index in `OPERATORS`.
        first, last: first and last word of the value in the question, inclusive; -1 without one.
        value: what keys are compared with: a key of the field's type; None if there is none.
    """

    field: Field
    operator: int
    first: int
    last: int
    value: str | float | None

    def text(self, header: Sequence[str]) -> str:
        """The condition for people.

        Example:
            >>> Link(Field(0, 0), 0, 3, 3, "oslo").text(("city",))
            "city = 'oslo'"
        """
        shown = f"{self.field.text(header)} {OPERATORS[self.operator]}"
        if self.value is None:
            return shown
        value = repr(self.value) if isinstance(self.value, str) else f"{self.value:.12g}"
        return f"{shown} {value}"


@dataclasses.dataclass(frozen=True, eq=False)
class Links:
    """The M links of a question, ordered by first word, last word, field and operator.

    Attributes:
        array: ``[M, 4]`` int16: field code, operator, first word, last word.
        values: M values, see `Link.value`.
        masks: M sets of rows that satisfy the link, none empty; bit r of an integer is row r.
        truths: the words for true and false.
    """

    array: np.ndarray
    values: tuple[str | float | None, ...]
    masks: tuple[int, ...]
    truths: tuple[str, str] = ("yes", "no")

    def __len__(self) -> int:
        """M."""
        return len(self.values)

    def link(self, index: int) -> Link:
        """One of the links, readable."""
        field, operator, first, last = self.array[index].tolist()
        return Link(Field.from_code(field), operator, first, last, self.values[index])


class Program(NamedTuple):
    """A readable program.

    Attributes:
        shape: result, modifier and connective.
        select: the select field, None if the shape has none.
        modify: the modifier field, None if the shape has none.
        links: as many as the shape has.
    """

    shape: Shape
    select: Field | None
    modify: Field | None
    links: tuple[Link, ...]

    @classmethod
    def from_row(cls, row: Sequence[int] | np.ndarray, links: Links) -> Program:
        """The program encoded by a row of Z.

        Args:
            row: ``[ROW_WIDTH]`` integers: index in `SHAPES`, code of the select field and of the
                modifier field, indices of two links; -1 for what the shape does not have.
            links: the links of the question.
        """
        shape, select, modify, *pair = (int(number) for number in row)
        return cls(
            SHAPES[shape],
            Field.from_code(select) if SHAPES[shape].has_select else None,
            Field.from_code(modify) if SHAPES[shape].has_modify else None,
            tuple(links.link(index) for index in pair[: SHAPES[shape].num_links]),
        )

    def text(self, header: Sequence[str]) -> str:
        """The program in one line, for people.

        Example:
            >>> city = Link(Field(0, 0), 0, 3, 3, "oslo")
            >>> shape = Shape("values", "next higher", "one")
            >>> Program(shape, Field(0, 0), Field(1, 4), (city,)).text(("city", "size"))
            "values(city) of next higher(size.number) of (city = 'oslo')"
        """
        pair = self.shape.result in _PAIRS
        fields = [self.select, self.modify if pair else None]
        names = [field.text(header) for field in fields if field is not None]
        shown = self.shape.result + (f"({', '.join(names)})" if names else "")
        if self.shape.modifier != "none":
            shown += f" of {self.shape.modifier}"
            shown += f"({self.modify.text(header)})" if self.modify else ""
        if not self.links:
            return f"{shown} of all rows"
        joined = f" {self.shape.connective} ".join(link.text(header) for link in self.links)
        return f"{shown} of ({joined})"
