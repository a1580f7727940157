"""Looks for the annotated program of SQUALL in Z, and says why it is not there.

SQUALL's columns are typed parts of cells as one preprocessing saw them, and ours are as another
does. So parts are not compared, but columns and rows are. The annotated program is in Z if Z has a
program with

- a shape that means what the SQL means (see `forms.forms_of`),
- the same select column and the same modifier column, whatever their parts,
- for each condition of the SQL, a link to the same column that holds for the same rows.

A condition of the SQL is read in several ways, and the link has to hold for the same rows as one of
them: text, as the whole key of any text part or, after "=", as words in the cell; a number also as
the first or second number or year; `_month`, `_day` and `_length` only as that, and `_hour` and
`_min` as a time. Text that no cell of the column has is read as the number or date that it holds.
Year, month and day of one column, joined by AND, may also be a single link.

What changes nothing may be missing, since Z has no such programs (`ProgramRules.redundant`): a
condition that holds for every row, or for all rows of the other one; a superlative that leaves out
no row; a sum of one value; DISTINCT where a column has no value twice.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from experiments.solution_sets.program_reference import Reference, table_values
from experiments.solution_sets.squall.forms import Condition, Form, NotExpressible, forms_of
from experiments.solution_sets.squall.sql import ROW_NUMBER, Column, SqlError, parse_squall
from hardem_jax.solutions.programs.parts import read_cell, text_key
from hardem_jax.solutions.programs.rules import may_modify, may_select
from hardem_jax.solutions.programs.table import program_table
from hardem_jax.solutions.programs.types import (
    OPERATORS,
    PARTS,
    SHAPES,
    TEXT_PARTS,
    Field,
    Link,
    Links,
    Program,
    Shape,
)
from hardem_jax.solutions.sql.columns import mask_rows
from hardem_jax.solutions.sql.types import Table

_NUMBERS = ("number", "second number", "year", "last year")
_SUFFIXES = {
    "year": _NUMBERS,
    "month": ("month",),
    "day": ("day",),
    "length": ("count",),
}
_SECONDS = {"hour": 3600.0, "min": 60.0, "sec": 1.0}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Where an annotated program is, or why it is not in Z.

    Attributes:
        reason: "in Z", or the first thing that is in the way of the most literal form.
        detail: what exactly.
        shape: of the form that the reason is about, None if there is none.
    """

    reason: str
    detail: str = ""
    shape: str | None = None

    @property
    def found(self) -> bool:
        """Whether the annotated program is in Z."""
        return self.reason == "in Z"


NO_PROGRAM = "no program of the language"
NO_READING = "no part of the column has the value"
NOT_LINKED = "a value is not linked"
OTHER_RESULT = "executes to another result"
LEFT_OUT = "right, but left out of Z"
_REASONS = ("in Z", LEFT_OUT, OTHER_RESULT, NOT_LINKED, NO_READING, NO_PROGRAM)


def judge(sql: str, question: str, table: Table, target, programs: np.ndarray, links: Links):
    """Whether the annotated program is in Z, and if not, why.

    Args:
        sql: the annotation.
        question: the text.
        table: that it is asked about.
        target: the answer, with a method ``matches``.
        programs: Z, ``[Z, 5]``.
        links: the links of the question.

    Returns:
        The `Verdict` of the form of the SQL that comes farthest.
    """
    try:
        forms = _forms(sql, table)
    except (NotExpressible, SqlError) as error:
        return Verdict(NO_PROGRAM, str(error))
    search = _Search(table, links)
    verdicts = (search.verdict(form, programs, question, target) for form in forms)
    return min(verdicts, key=lambda verdict: _REASONS.index(verdict.reason))


class Annotation:
    """An annotated program, to be looked for among those of a question.

    Args:
        sql: the annotation.
        table: that the question is about.
        links: the links of the question.
    """

    def __init__(self, sql: str, table: Table, links: Links):
        self._search = _Search(table, links)
        try:
            forms = _forms(sql, table)
        except (NotExpressible, SqlError):
            forms = []  # no program is the annotated one
        self._reduced = {
            reduced
            for form in forms
            for reduced in self._search.reduced(form, self._search.readings(form))
        }

    def is_in(self, programs: np.ndarray) -> bool:
        """Whether one of ``programs`` ``[P, 5]`` is the annotated one."""
        return any(self._search.is_in(one, programs) for one in self._reduced)


def _forms(sql: str, table: Table) -> list[Form]:
    forms = list(forms_of(parse_squall(sql)))
    columns = len(table.header)
    if any(column.index >= columns for form in forms for column in _columns(form)):
        raise NotExpressible("a column that the table does not have")
    return forms


def _columns(form: Form) -> Iterator[Column]:
    yield from (column for column in (form.select, form.modify) if column is not None)
    yield from (condition.column for condition in form.conditions)


@dataclasses.dataclass(frozen=True)
class _Reduced:
    """A form with sets of rows for conditions, without what changes nothing.

    Attributes:
        shape: result, modifier and connective.
        select: column of the select field, -1 for none.
        modify: column of the modifier field, -1 for none.
        sets: the column of each link, and the set of rows it holds for.
    """

    shape: Shape
    select: int
    modify: int
    sets: tuple[tuple[int, int], ...]


class _Search:
    def __init__(self, table: Table, links: Links):
        self._table, self._links = table, links
        self._fields = table_values(table)
        indexed = program_table(table)
        self._ordinary = indexed.ordinary
        totals = mask_rows(indexed.every_row & ~indexed.ordinary)
        self._reference = Reference(self._fields, indexed.num_rows, totals, links.truths)
        self._link_columns = np.asarray(links.array)[:, 0] // len(PARTS)

    def verdict(self, form: Form, programs: np.ndarray, question: str, target) -> Verdict:
        name = ", ".join(form.shape)
        readings = self.readings(form)
        for condition, masks in zip(form.conditions, readings, strict=True):
            if not masks:
                return Verdict(NO_READING, _kind(condition), name)
        reduced = self.reduced(form, readings)
        if any(self.is_in(simple, programs) for simple in reduced):
            return Verdict("in Z", name, name)
        if not self._is_right(form, readings, target):
            return Verdict(OTHER_RESULT, name, name)
        linked = [simple for simple in reduced if all(map(self._linked, simple.sets))]
        if not linked:
            for condition, masks in zip(form.conditions, readings, strict=True):
                column = self._column(condition.column)
                if not any(self._linked((column, mask)) for mask in masks):
                    said = "is said" if _is_said(condition, question) else "is not said"
                    return Verdict(NOT_LINKED, f"{_kind(condition)}, which {said}", name)
        return Verdict(LEFT_OUT, name, name)

    def readings(self, form: Form) -> list[set[int]]:
        """For each condition, the sets of rows that it may mean; none of them is empty."""
        return [
            {self._mask(links) for links in self._readings(condition)} - {0}
            for condition in form.conditions
        ]

    def reduced(self, form: Form, readings: Sequence[set[int]]) -> set[_Reduced]:
        """The form in all of its readings, whole and without what changes nothing."""
        combinations = itertools.product(*readings)
        return {simple for masks in combinations for simple in self._reduced(form, masks)}

    def is_in(self, form: _Reduced, programs: np.ndarray) -> bool:
        """Whether one of ``programs`` ``[P, 5]`` is of this form."""
        rows = programs[programs[:, 0] == SHAPES.index(form.shape)]
        for place, column in ((1, form.select), (2, form.modify)):
            # -1 // len(PARTS) is -1, too.
            rows = rows[rows[:, place] // len(PARTS) == column]
        found = [self._linked(single) for single in form.sets]
        orders = [found, found[::-1]] if form.shape.is_symmetric else [found]
        for order in orders:
            fits = np.ones(len(rows), bool)
            for place, ids in enumerate(order, 3):
                fits &= np.isin(rows[:, place], ids)
            if fits.any():
                return True
        if form.shape.result in ("gap", "total") and form.select > form.modify:
            turned = dataclasses.replace(form, select=form.modify, modify=form.select)
            return self.is_in(turned, programs)
        return False

    def _column(self, column: Column) -> int:
        return len(self._table.header) if column.index == ROW_NUMBER else column.index

    def _mask(self, readings: Sequence[Link]) -> int:
        rows = [set(self._reference.rows_of(link)) for link in readings]
        return sum(1 << row for row in set.intersection(*rows))

    def _readings(self, condition: Condition) -> Iterator[tuple[Link, ...]]:
        """What a condition may mean: links that hold together."""
        column = self._column(condition.column)
        if isinstance(condition.value, tuple):
            dated = zip(("year", "month", "day"), condition.value, strict=True)
            yield tuple(
                _link(column, part, "=", float(value)) for part, value in dated if value is not None
            )
            return
        found = False
        for part, name, value in _literals(condition):
            links = (_link(column, part, name, value),)
            found = found or self._mask(links) > 0
            yield links
        if isinstance(condition.value, str) and not found:
            for part, name, value in _as_numbers(condition.operator, condition.value):
                yield (_link(column, part, name, value),)

    def _reduced(self, form: Form, masks: Sequence[int]) -> Iterator[_Reduced]:
        """The form itself, and what is left of it where a link or modifier changes nothing."""
        shape = form.shape
        columns = [self._column(condition.column) for condition in form.conditions]
        sets = tuple(zip(columns, masks, strict=True))
        select = self._column(form.select) if shape.has_select and form.select else -1
        modify = self._column(form.modify) if shape.has_modify and form.modify else -1
        yield _Reduced(shape, select, modify, sets)
        connective, kept, start = self._connected(shape.connective, sets)
        modifiers = {shape.modifier}
        if shape.modifier in ("first", "last") and start.bit_count() == 1:
            modifiers.add("none")
        if shape.modifier in ("highest", "lowest") and any(
            self._is_tied(code, start) for code in self._codes(modify)
        ):
            modifiers.add("none")
        results = {shape.result}
        if shape.result in ("sum", "average") and "none" in modifiers:
            if any(len(self._keys(code, start)) == 1 for code in self._codes(select)):
                results.add("values")
        if shape.result == "count distinct":
            keys = [self._keys(code, start) for code in self._codes(select)]
            if any(len(set(found)) == start.bit_count() for found in keys):
                results.add("count")
        for modifier, result in itertools.product(modifiers, results):
            simple = Shape(result, modifier, connective)
            if simple in SHAPES:
                yield _Reduced(
                    simple,
                    select if simple.has_select else -1,
                    modify if simple.has_modify else -1,
                    kept,
                )

    def _connected(self, connective: str, sets) -> tuple[str, tuple[tuple[int, int], ...], int]:
        """Connective, links and rows, without links that change nothing."""
        masks = [mask for _, mask in sets]
        if connective == "to":
            return ("one", sets[:1], 0) if self._is_idle(masks[1]) else ("to", sets, masks[0])
        if connective in ("and", "or"):
            rows = masks[0] & masks[1] if connective == "and" else masks[0] | masks[1]
            for single in sets:
                if single[1] == rows:
                    connective, sets = "one", (single,)
                    break
        else:
            rows = masks[0] if masks else self._ordinary
        if connective == "one" and self._is_idle(rows):
            connective, sets = "all", ()
        return connective, sets, rows

    def _is_idle(self, rows: int) -> bool:
        """Whether a set has every row, totals or not."""
        return not self._ordinary & ~rows

    def _is_tied(self, code: int, rows: int) -> bool:
        """Whether all of these rows have the same value of a field."""
        has_all = all(self._fields[code][row] for row in mask_rows(rows))
        return has_all and len(set(self._keys(code, rows))) == 1

    def _keys(self, code: int, rows: int) -> list[str | float]:
        return [key for row in mask_rows(rows) for key, _ in self._fields[code][row]]

    def _linked(self, wanted: tuple[int, int]) -> list[int]:
        """The links to a column that hold for a set of rows."""
        column, mask = wanted
        ids = np.flatnonzero(self._link_columns == column).tolist()
        return [index for index in ids if self._links.masks[index] == mask]

    def _is_right(self, form: Form, readings: Sequence[set[int]], target) -> bool:
        """Whether a program of the form executes to the answer, linked or not."""
        shape = form.shape
        selects = self._fields_of(form.select, may_select, shape) if shape.has_select else [None]
        modifies = self._fields_of(form.modify, may_modify, shape) if shape.has_modify else [None]
        for select, modify in itertools.product(selects, modifies):
            program = Program(shape, select, modify, ())
            for masks in itertools.product(*readings):
                result = self._reference.execute(program, [*map(mask_rows, masks)])
                if target.matches(result or []):
                    return True
        return False

    def _codes(self, column: int) -> list[int]:
        first = column * len(PARTS)
        return [code for code in range(first, first + len(PARTS)) if code in self._fields]

    def _fields_of(
        self, column: Column | None, may: Callable[[Shape, Field, int], bool], shape: Shape
    ) -> list[Field]:
        """The fields of a column that the language allows here."""
        assert column is not None
        fields = map(Field.from_code, self._codes(self._column(column)))
        return [field for field in fields if may(shape, field, len(self._table.header))]


def _link(column: int, part: str, operator: str, value: str | float | None) -> Link:
    field = Field(column, PARTS.index(part))
    return Link(field, OPERATORS.index(operator), -1, -1, value)


def _literals(condition: Condition) -> Iterator[tuple[str, str, str | float | None]]:
    """Part, operator and value of the readings of a condition with a literal value."""
    value, operator, suffix = condition.value, condition.operator, condition.column.suffix
    assert not isinstance(value, tuple)
    last = suffix.split("_")[-1]
    if value is None:
        yield from ((part, operator, None) for part in PARTS)
    elif isinstance(value, str):
        yield from _as_text(operator, value)
    elif last in _SECONDS:
        yield "time", operator, _SECONDS[last] * value
    else:
        yield from ((part, operator, float(value)) for part in _SUFFIXES.get(last, _NUMBERS))
        if last not in _SUFFIXES:
            yield from _as_text(operator, _text(value))


def _as_text(operator: str, value: str) -> Iterator[tuple[str, str, str]]:
    if operator in ("=", "!="):
        yield from ((part, operator, text_key(value)) for part in TEXT_PARTS)
    if operator == "=":
        yield "text", "contains", text_key(value)


def _as_numbers(operator: str, value: str) -> Iterator[tuple[str, str, str | float]]:
    """A text as the numbers and dates in it, for columns that have no such text."""
    for part, found in read_cell(value).items():
        if PARTS[part] in (*_NUMBERS, "date", "time"):
            yield from ((PARTS[part], operator, key) for key, _ in found)


def _text(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return str(int(value)) if float(value).is_integer() else str(value)


def _is_said(condition: Condition, question: str) -> bool:
    if condition.value is None or isinstance(condition.value, tuple):
        return False
    return f" {text_key(_text(condition.value))} " in f" {text_key(question)} "


def _kind(condition: Condition) -> str:
    if condition.value is None:
        return condition.operator
    if condition.column.index == ROW_NUMBER:
        return "a row number"
    if isinstance(condition.value, tuple):
        return "a date"
    return "a text" if isinstance(condition.value, str) else "a number"
