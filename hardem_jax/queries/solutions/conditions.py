"""The conditions of Z_tot, spans of a question compared with columns, and all sets of them.

Conditions with the same rows are interchangeable, and so are sets of conditions: the search goes
over distinct row masks and only writes out the sets whose result is the answer.
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from hardem_jax.errors import InputError
from hardem_jax.queries.solutions.engine import TypedTable
from hardem_jax.queries.solutions.types import OPERATORS, SqlRules
from hardem_jax.queries.solutions.values import ExecutionError, exact_number
from hardem_jax.tables.table import Cell

Weight = TypeVar("Weight")
EQUAL, ABOVE, BELOW = (OPERATORS.index(operator) for operator in "=><")

NUMBER = re.compile(r"[-+]?(?:(?:\d+|\d{1,3}(?:,\d{2,3})*,\d{3})(?:\.\d+)?|\.\d+)", re.ASCII)
# The longest numbers of a text: "1,000.5" is one, as is "1,00,000", "1996,1997" is two.
_GROUPS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,2}(?:,[0-9]{2})+,[0-9]{3})(?![0-9])"
_DIGITS = re.compile(rf"(?:{_GROUPS}|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+")
_PART = re.compile(r"[0-9]+|[.,]")
# Keeps the codes of three conditions (`Clause.code`) below 64 bits.
_MAX_CONDITIONS = 2**20
_MAX_WORDS = np.iinfo(np.int16).max


class SpanCondition(NamedTuple):
    """A condition of Z_tot; sorts in the order of Z. ``mask`` has the rows for which it holds, at
    least one; cells are compared with ``value``; ``first`` and ``last`` are words, inclusive."""

    column: int
    operator: int
    first: int
    last: int
    mask: int
    value: Cell


def find_conditions(
    table: TypedTable, question: str, words: np.ndarray, rules: SqlRules
) -> list[SpanCondition]:
    """Every condition of Z_tot, in order, without duplicates."""
    if len(words) > _MAX_WORDS:
        raise InputError(f"question: expected at most {_MAX_WORDS} words, found {len(words)}")
    candidates = _candidates(table, question, words, rules)
    if not rules.vacuous_conditions:
        candidates = (c for c in candidates if c.mask != table.every_row)
    if rules.distinct_values:
        first: dict[tuple[int, int, Cell], SpanCondition] = {}
        for c in candidates:
            first.setdefault((c.column, c.operator, c.value), c)
        candidates = first.values()
    conditions = sorted(itertools.islice(candidates, _MAX_CONDITIONS + 1))
    if len(conditions) > _MAX_CONDITIONS:
        raise InputError(f"question: expected at most {_MAX_CONDITIONS} conditions, found more")
    return conditions


def _candidates(
    table: TypedTable, question: str, words: np.ndarray, rules: SqlRules
) -> Iterator[SpanCondition]:
    bounds = words.tolist()
    lowered = question.lower()
    same_offsets = question.isascii()  # otherwise lower-casing may change offsets
    # Spans beyond the longest text equal no cell; numbers are handled separately below.
    longest = len(question) if rules.ranges_on_text or not same_offsets else table.longest
    texts = [c for c, column in enumerate(table.columns) if column.type == "text"]
    for first, (start, _) in enumerate(bounds):
        for last in range(first, len(bounds)):
            end = bounds[last][1]
            if end - start > longest:
                break
            text = lowered[start:end] if same_offsets else question[start:end].lower()
            for column, mask in table.holders.get(text, ()):
                yield SpanCondition(column, EQUAL, first, last, mask, text)
            if rules.ranges_on_text:
                yield from _ranges(table, texts, first, last, text)
    types = [column.sql_type for column in table.columns]
    reals, exact = ([c for c, t in enumerate(types) if t == kind] for kind in ("real", "numeric"))
    if reals or exact:
        for first, last, number in number_spans(question, bounds, rules.numbers):
            for columns, value in ((reals, float(number)), (exact, number)):
                for column in columns:
                    equal, *_ = table.columns[column].compare(value)
                    if equal:
                        yield SpanCondition(column, EQUAL, first, last, equal, value)
                yield from _ranges(table, columns, first, last, value)


def _ranges(
    table: TypedTable, columns: Sequence[int], first: int, last: int, value: Cell
) -> Iterator[SpanCondition]:
    for column in columns:
        _, above, below = table.columns[column].compare(value)
        if above:
            yield SpanCondition(column, ABOVE, first, last, above, value)
        if below:
            yield SpanCondition(column, BELOW, first, last, below, value)


def number_spans(
    question: str, bounds: Sequence[Sequence[int]], which: str
) -> Iterator[tuple[int, int, float | int]]:
    """First word, last word and number of the spans compared with a real column."""
    if which == "official":
        for first, (start, _) in enumerate(bounds):
            for last in range(first, len(bounds)):
                try:
                    yield first, last, exact_number(question[start : bounds[last][1]].lower())
                except ExecutionError:
                    continue
        return
    whole = _boundaries(question) if which == "whole" else None
    for first, (start, end) in enumerate(bounds):
        if question[start] not in "+-.0123456789":
            continue
        for last in range(first, len(bounds)):
            previous_end, end = end, bounds[last][1]
            part = question[bounds[last][0] : end]
            if last > first and (bounds[last][0] != previous_end or not _PART.fullmatch(part)):
                break
            if whole is not None and (start not in whole[0] or end not in whole[1]):
                continue
            if NUMBER.fullmatch(text := question[start:end]):
                yield first, last, exact_number(text)


def _boundaries(question: str) -> tuple[set[int], set[int]]:
    """Offsets at which maximal numbers start, with or without a sign, and end."""
    starts, ends = set(), set()
    for match in _DIGITS.finditer(question):
        start, end = match.span()
        starts.add(start)
        if question[start - 1 : start] in ("+", "-"):
            starts.add(start - 1)
        ends.add(end)
    return starts, ends


class Clause(NamedTuple):
    """Conditions on one column, several if the rules allow it: ``size`` of them.

    ``code`` has their indices among all conditions, as digits in `Combinations.base`, and ``mask``
    the rows that satisfy them all. ``next_column`` is the index of the next one's first clause.
    """

    size: int
    code: int
    mask: int
    next_column: int


class Combinations:
    """All sets of conditions that a question allows. They have at most ``max_conditions``, those of
    the rules unless `SqlRules.max_combinations` lowers them. ``columns`` are the clauses on each
    column that has some, in order."""

    def __init__(self, conditions: Sequence[SpanCondition], table: TypedTable, rules: SqlRules):
        self.base = max(2, len(conditions))
        self._clauses: list[Clause] = []
        self.columns: list[list[Clause]] = []
        for _, group in itertools.groupby(enumerate(conditions), key=lambda item: item[1].column):
            clauses = list(_clauses(list(group), self.base, rules))
            next_column = len(self._clauses) + len(clauses)
            self.columns.append([Clause(*clause, next_column) for clause in clauses])
            self._clauses += self.columns[-1]
        self.every_row = table.every_row
        self._merged = [Counter((c.size, c.mask) for c in clauses) for clauses in self.columns]
        self.max_conditions = _affordable(self._merged, rules)

    def conditions_of(self, clause: Clause) -> tuple[int, ...]:
        """Indices of the conditions of a clause in the list of all conditions."""
        places = range(clause.size - 1, -1, -1)
        return tuple(clause.code // self.base**place % self.base for place in places)

    @functools.cached_property
    def levels(self) -> list[dict[int, int]]:
        """At k, the number of sets of k conditions for each row mask."""
        count: dict[str, Any] = {"one": 1, "times": operator.mul, "plus": operator.add}
        return fold(self._merged, self.every_row, self.max_conditions, **count)

    def write_out(
        self, size: int, wanted: Collection[int], limit: int | None
    ) -> tuple[list[int], list[int]]:
        """Codes and rows of the sets of ``size`` conditions whose rows are wanted, by ascending
        code; the first ``limit`` of them."""
        if size == 0:
            found = [self.every_row] if self.every_row in wanted else []
            return [0] * len(found), found
        return self._tails(self.every_row, 0, size, wanted, limit, {})

    def _tails(self, mask, start, size, wanted, limit, memory) -> tuple[list[int], list[int]]:
        """Codes and rows of the sets completed by ``size`` conditions from ``start`` on."""
        if (known := memory.get((mask, start, size))) is not None:
            return known
        codes, found = [], []
        for clause in itertools.islice(self._clauses, start, None):
            left = size - clause.size
            if left < 0 or not (rows := mask & clause.mask):
                continue
            if left:
                tails, sets = self._tails(rows, clause.next_column, left, wanted, limit, memory)
                high = clause.code * self.base**left
                codes += [high + code for code in tails]
                found += sets
            elif rows in wanted:
                codes.append(clause.code)
                found.append(rows)
            if limit is not None and len(codes) >= limit:
                del codes[limit:], found[limit:]
                break
        memory[mask, start, size] = codes, found
        return codes, found


def _clauses(group, base: int, rules: SqlRules):
    """Size, code and mask of the allowed clauses on one column, in the order of Z."""
    if not rules.shared_columns:
        return [(1, index, condition.mask) for index, condition in group]
    clauses = []
    for size in range(1, rules.max_conditions + 1):
        for chosen in itertools.combinations(group, size):
            # All are bound to the last value, for which different operators exclude one another.
            if len({one.operator for _, one in chosen}) == 1 and (mask := chosen[-1][1].mask):
                indices = [index for index, _ in chosen]
                code = sum(p * base ** (size - 1 - i) for i, p in enumerate(indices))
                # Shorter clauses sort later: they are followed by a later column, of higher index.
                order = indices + [base] * (rules.max_conditions - size)
                clauses.append((order, (size, code, mask)))
    return [clause for _, clause in sorted(clauses)]


def _affordable(merged: Sequence[Counter[tuple[int, int]]], rules: SqlRules) -> int:
    """The largest number of conditions whose combinations the rules still allow."""
    counts = [1] + [0] * rules.max_conditions
    for column in merged:
        sizes = Counter(size for size, _ in column)
        for size in range(rules.max_conditions, 0, -1):
            counts[size] += sum(
                counts[size - part] * n for part, n in sizes.items() if part <= size
            )
    totals = list(itertools.accumulate(counts))
    return max(k for k, total in enumerate(totals) if k == 0 or total <= rules.max_combinations)


def fold(
    columns: Sequence[Mapping[tuple[int, int], Weight]],
    every_row: int,
    max_conditions: int,
    *,
    one: Weight,
    times: Callable[[Weight, Weight], Weight],
    plus: Callable[[Weight, Weight], Weight],
) -> list[dict[int, Weight]]:
    """Adds up the weights of all sets of clauses by the rows that satisfy them, in any semiring.

    ``columns`` have, in order, the weight of each clause by its size and row mask; ``one`` is that
    of the empty set. Returns, at k, the weight of the sets of k conditions by non-empty row mask.

    Example:
        >>> count = dict(one=1, times=int.__mul__, plus=int.__add__)
        >>> fold([{(1, 0b011): 2}, {(1, 0b110): 5}], 0b111, 2, **count)
        [{7: 1}, {3: 2, 6: 5}, {2: 10}]
    """
    levels: list[dict[int, Weight]] = [{every_row: one} if every_row else {}]
    levels += [{} for _ in range(max_conditions)]
    for column in columns:
        # Descending, so that no set gets two clauses on this column.
        for low in range(max_conditions - 1, -1, -1):
            for (size, mask), weight in column.items():
                if low + size > max_conditions:
                    continue
                high = levels[low + size]
                for rows, before in levels[low].items():
                    if joint := rows & mask:
                        after = times(before, weight)
                        high[joint] = plus(high[joint], after) if joint in high else after
    return levels
