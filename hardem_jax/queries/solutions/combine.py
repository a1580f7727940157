"""Enumerates sets of conditions, grouped by the rows that satisfy them.

Conditions with the same rows are interchangeable, and so are sets of conditions: the search goes
over distinct row masks and only writes out the sets whose result is the answer.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from hardem_jax.queries.solutions.columns import TypedTable
from hardem_jax.queries.solutions.conditions import SpanCondition
from hardem_jax.queries.solutions.rules import SqlRules

Weight = TypeVar("Weight")


class Clause(NamedTuple):
    """A condition on one column, or several if the rules allow it.

    Attributes:
        size: number of conditions.
        code: their indices in the list of all conditions, as digits in `Combinations.base`.
        mask: the rows that satisfy them all; at least one.
        next_column: index of the first clause of the next column.
    """

    size: int
    code: int
    mask: int
    next_column: int


class Combinations:
    """All sets of conditions that a question allows.

    Attributes:
        base: of the codes, the number of conditions but at least 2.
        max_conditions: that of the rules unless `SqlRules.max_combinations` lowers it.
        columns: the clauses on each column that has some, in order.
        every_row: mask of all rows.
    """

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
        self, size: int, wanted: Mapping[int, int], limit: int | None = None
    ) -> tuple[list[int], list[int]]:
        """The sets of ``size`` conditions whose rows are wanted, in order; at most ``limit``.

        Returns their codes, ascending, and the names that ``wanted`` gives to their masks.
        """
        if size == 0:
            return ([0], [wanted[self.every_row]]) if self.every_row in wanted else ([], [])
        memory: dict[tuple[int, int, int], tuple[list[int], list[int]]] = {}
        return self._tails(self.every_row, 0, size, wanted, limit, memory)

    def _tails(self, mask, start, size, wanted, limit, memory):
        """Codes and names of the sets completed by ``size`` conditions from ``start`` on."""
        if (known := memory.get((mask, start, size))) is not None:
            return known
        codes, names = [], []
        for clause in itertools.islice(self._clauses, start, None):
            left = size - clause.size
            if left < 0 or not (rows := mask & clause.mask):
                continue
            if left == 0:
                if (name := wanted.get(rows)) is not None:
                    codes.append(clause.code)
                    names.append(name)
            elif clause.next_column < len(self._clauses):
                tails = self._tails(rows, clause.next_column, left, wanted, limit, memory)
                high = clause.code * self.base**left
                codes += [high + code for code in tails[0]]
                names += tails[1]
            if limit is not None and len(codes) >= limit:
                del codes[limit:], names[limit:]
                break
        memory[mask, start, size] = codes, names
        return codes, names


def _clauses(group, base: int, rules: SqlRules):
    """Size, code and mask of the allowed clauses on one column, in the order of Z."""
    if not rules.shared_columns:
        return [(1, index, condition.mask) for index, condition in group]
    clauses = []
    for size in range(1, rules.max_conditions + 1):
        for chosen in itertools.combinations(group, size):
            if mask := _joint_mask([condition for _, condition in chosen]):
                indices = [index for index, _ in chosen]
                code = sum(p * base ** (size - 1 - i) for i, p in enumerate(indices))
                # Shorter clauses sort later: they are followed by a later column, of higher index.
                order = indices + [base] * (rules.max_conditions - size)
                clauses.append((order, (size, code, mask)))
    return [clause for _, clause in sorted(clauses)]


def _joint_mask(conditions: Sequence[SpanCondition]) -> int:
    # All are bound to the last value, for which different operators exclude one another.
    same = len({condition.operator for condition in conditions}) == 1
    return conditions[-1].mask if same else 0


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

    Args:
        columns: for each column, in order, number of conditions and row mask of a clause -> its
            weight.
        every_row: mask of all rows.
        max_conditions: of a set.
        one: the weight of the empty set.
        times: the weight of a set and one more clause, on a later column.
        plus: the weight of two groups of sets.

    Returns:
        At k, the weight of the sets of k conditions for each row mask, without the empty mask.

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
