"""Which results over a set of rows are the answer.

Bit masks rule out most sets of rows: for a field's values to be the answer, the set must hold a row
for each item of it. Sums over all sets are one matrix product. The rest is executed and compared.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from hardem_jax.programs.solutions.execute import Result, aggregate, compare, two_fields
from hardem_jax.programs.solutions.rules import ProgramRules, may_select
from hardem_jax.programs.solutions.table import FieldValues, ProgramTable
from hardem_jax.programs.solutions.types import Shape
from hardem_jax.tables.table import Cell, masks_to_matrix

# Float64 sums differ from exact ones by less than this for numbers of any table.
_RELATIVE_ERROR = 1e-9
_NEAR = 1e-5


class Target(Protocol):
    """The answer to a question, as `hardem_jax.tables.metrics.Denotation` compares it. A correct
    result has a matching cell for each of the ``items``; of only one item, all cells match it. A
    result of one number is only correct within 1e-5 of one of the ``numbers``."""

    @property
    def items(self) -> Sequence[Target]: ...

    @property
    def numbers(self) -> Sequence[float]: ...

    def matches(self, result: Sequence[Cell]) -> bool:
        """Whether a result is correct."""
        ...


Found = tuple[str, int, int]
"""A correct result: its name, select field and second operand; -1 for none."""


class Judge:
    """Compares results over sets of rows with the answer."""

    def __init__(
        self,
        table: ProgramTable,
        fields: dict[int, FieldValues],
        target: Target,
        rules: ProgramRules,
        truths: tuple[str, str],
    ):
        self._table, self._fields, self._target, self._rules = table, fields, target, rules
        self._truths = truths
        self._items = tuple(target.items)
        self._numbers = tuple(target.numbers) if len(self._items) == 1 else ()
        self._match = functools.cache(lambda cell: target.matches([cell]))
        self.selected = functools.cache(self._selected)
        covers = self._find_covers()
        self._showable = [
            (code, fields[code], covers[code])
            for code in self.fields_of("values")
            if code in covers
        ]
        #: Rows without which no values are the answer.
        self.relevant = functools.reduce(operator.or_, (x[0] for _, _, x in self._showable), 0)
        self._groups = [
            (result, code, covers[code])
            for result in ("most common", "least common", "repeated")
            for code in self.fields_of(result)
            if code in covers
        ]
        self._distinct_fields = self.fields_of("count distinct")
        self._range_fields = self.fields_of("range")

    def fields_of(self, result: str) -> list[int]:
        """The codes of the fields that a result can select; none if the rules do not allow it."""
        shape = Shape(result, "none", "all")
        if not self._rules.allows_shape(shape):
            return []
        columns = len(self._table.header)
        return [c for c, values in self._fields.items() if may_select(shape, values.field, columns)]

    def _find_covers(self) -> dict[int, list[int]]:
        """For each field that can show the answer, the rows with a cell for each item."""
        matches = [functools.cache(lambda x, item=item: item.matches([x])) for item in self._items]
        covers = {}
        for code, values in self._fields.items():
            masks = [
                sum(1 << row for row, x in enumerate(values.rows) if any(match(v.shown) for v in x))
                for match in matches
            ]
            if masks and all(masks):
                covers[code] = masks
        return covers

    def is_correct(self, result: Result | None) -> bool:
        """Whether a result of one number or text is the answer."""
        if not result:
            return False
        return self.equals(result[0]) if isinstance(result[0], float) else self._match(result[0])

    def equals(self, number: float) -> bool:
        """Whether a number is the answer."""
        if not any(abs(number - wanted) < _NEAR for wanted in self._numbers):
            return False
        return self._match(float(number))

    def _selected(self, rows: int) -> tuple[int, ...]:
        """The fields whose values over a set of rows are the answer."""
        if not rows & self.relevant:
            return ()
        return tuple(
            code
            for code, values, covers in self._showable
            if all(rows & cover for cover in covers)
            and not (len(covers) == 1 and rows & values.valued & ~covers[0])
            and self._target.matches([value.shown for value in values.values(rows)])
        )

    def results(self, rows: int) -> Iterator[Found]:
        """The correct results over a set of rows, except "values", sums and averages."""
        for result, code, covers in self._groups:
            if all(rows & cover for cover in covers):
                shown = aggregate(result, self._fields[code], rows)
                if shown is not None and self._target.matches(shown):
                    yield result, code, -1
        if not self._numbers:
            return
        count = rows.bit_count()
        if self.equals(count):
            yield "count", -1, -1
        for code in self._distinct_fields:
            values = self._fields[code]
            if values.many or any(wanted < count + 0.5 for wanted in self._numbers):
                distinct = aggregate("count distinct", values, rows)
                idle = distinct == [count] and not self._rules.redundant
                if not idle and self.is_correct(distinct):
                    yield "count distinct", code, -1
        for code in self._range_fields:
            if self.is_correct(aggregate("range", self._fields[code], rows)):
                yield "range", code, -1
        for result in ("gap", "total") if count == 1 else ():
            here = [code for code in self.fields_of(result) if self._fields[code].valued & rows]
            for f, g in itertools.combinations(here, 2):
                if self.is_correct(two_fields(result, self._fields[f], self._fields[g], rows)):
                    yield result, f, g

    def sums(self, sets: Sequence[int]) -> dict[int, list[Found]]:
        """The correct sums and averages over each of these sets of rows."""
        codes = self.fields_of("sum")
        if not codes or not self._numbers or not sets:
            return {}
        keys = np.array(
            [[v[0].key if v else np.nan for v in self._fields[c].rows] for c in codes], np.float64
        ).T
        valued = ~np.isnan(keys)
        keys = np.where(valued, keys, 0)
        wanted = np.array(self._numbers)
        found: dict[int, list[Found]] = {}
        with np.errstate(all="ignore"):
            slack = _NEAR + _RELATIVE_ERROR * np.abs(keys).sum(0)
            least = 1 if self._rules.redundant else 2
            step = max(1, 2**23 // (1 + len(keys)))  # limits a temporary matrix to 64 MiB
            for block in (sets[start : start + step] for start in range(0, len(sets), step)):
                bits = masks_to_matrix(block, self._table.num_rows)
                counts, sums = bits @ valued, bits @ keys
                for result, numbers in (("sum", sums), ("average", sums / counts)):
                    near = (np.abs(numbers[..., None] - wanted) < slack[:, None]).any(-1)
                    for s, f in np.argwhere(near & (counts >= least)).tolist():
                        if self.is_correct(aggregate(result, self._fields[codes[f]], block[s])):
                            found.setdefault(block[s], []).append((result, codes[f], -1))
        return found

    def compared(self, sets: Sequence[int]) -> Iterator[tuple[Found, int, int]]:
        """The correct results of "versus" and the two sets of rows; all ordered pairs are tried."""
        truths = any(map(self._match, self._truths))
        for result in ("difference", "is higher", "is same"):
            if truths if result.startswith("is") else self._numbers:
                for code in self.fields_of(result):
                    for a, b in self._pairs_compared(result, self._fields[code], sets):
                        yield (result, code, -1), a, b
        for result in ("count difference", "is more", "is within"):
            allowed = self._rules.allows_shape(Shape(result, "none", "all"))
            if allowed and (truths if result.startswith("is") else self._numbers):
                for a, b in itertools.product(sets, sets):
                    if self._may_compare(a, b) and self._compares(result, None, a, b):
                        yield (result, -1, -1), a, b

    def _pairs_compared(
        self, result: str, values: FieldValues, sets: Sequence[int]
    ) -> Iterator[tuple[int, int]]:
        keys = [(rows, key) for rows in sets if (key := values.only_key(rows)) is not None]
        if result == "difference":
            numbers = np.array([key for _, key in keys], np.float64)
            with np.errstate(all="ignore"):
                gaps = np.abs(numbers[:, None] - numbers)
                near = [np.abs(gaps - wanted) < _NEAR for wanted in self._numbers]
            pairs = np.argwhere(np.any(near, axis=0)).tolist()
        else:
            pairs = itertools.product(range(len(keys)), repeat=2)
        for i, j in pairs:
            a, b = keys[i][0], keys[j][0]
            if self._may_compare(a, b) and self._compares(result, values, a, b):
                yield a, b

    def _compares(self, result: str, values: FieldValues | None, a: int, b: int) -> bool:
        return self.is_correct(compare(result, values, a, b, self._truths))

    def _may_compare(self, a: int, b: int) -> bool:
        return a != b or self._rules.redundant
