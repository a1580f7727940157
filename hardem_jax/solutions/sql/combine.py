"""Enumerates sets of conditions, grouped by the rows that satisfy them.

Conditions with the same rows are interchangeable, and so are sets of conditions: the search goes
over distinct row masks and only writes out the sets whose result is the answer.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hardem_jax.solutions.sql.columns import TypedTable
from hardem_jax.solutions.sql.conditions import SpanCondition
from hardem_jax.solutions.sql.rules import SqlRules


class Clause(NamedTuple):
    """A condition on one column, or several if the rules allow it.

    Attributes:
        size: number of conditions.
        code: their indices in the list of all conditions, as digits of a number in base
            `Combinations.base`.
        mask: the rows that satisfy them all; at least one.
        next_column: index of the first clause of the next column.
    """

    size: int
    code: int
    mask: int
    next_column: int


class Combinations:
    """All sets of conditions that a question allows.

    Args:
        conditions: sorted, see `find_conditions`.
        table: built with ``rules.semantics``.
        rules: how many conditions are allowed, and on which columns.

    Attributes:
        base: base of the codes, the number of conditions but at least 2.
        max_conditions: maximum number of conditions, that of the rules unless
            `SqlRules.max_combinations` lowers it.
        levels: at k, the number of sets of k conditions for each row mask.
    """

    def __init__(self, conditions: Sequence[SpanCondition], table: TypedTable, rules: SqlRules):
        self.base = max(2, len(conditions))
        self._clauses: list[Clause] = []
        merged: list[Counter[tuple[int, int]]] = []
        for _, group in itertools.groupby(enumerate(conditions), key=lambda item: item[1].column):
            clauses = list(_clauses(list(group), self.base, rules))
            next_column = len(self._clauses) + len(clauses)
            self._clauses += [Clause(*clause, next_column) for clause in clauses]
            merged.append(Counter((size, mask) for size, _, mask in clauses))
        self._every_row = table.every_row
        self.max_conditions = _affordable(merged, rules)
        self.levels = _levels(merged, table.every_row, self.max_conditions)

    def write_out(
        self, size: int, wanted: Mapping[int, int], limit: int | None = None
    ) -> tuple[list[int], list[int]]:
        """Lists the sets of ``size`` conditions whose rows are wanted, in order.

        Args:
            size: number of conditions.
            wanted: row mask -> its name, an integer.
            limit: return only the first ``limit`` sets; None for all.

        Returns:
            Their codes, ascending, and the names of their masks.
        """
        if size == 0:
            return ([0], [wanted[self._every_row]]) if self._every_row in wanted else ([], [])
        memory: dict[tuple[int, int, int], tuple[list[int], list[int]]] = {}
        return self._tails(self._every_row, 0, size, wanted, limit, memory)

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
            if mask := _joint_mask([condition for _, condition in chosen], rules):
                indices = [index for index, _ in chosen]
                code = sum(p * base ** (size - 1 - i) for i, p in enumerate(indices))
                # Shorter clauses sort later: they are followed by a later column, of higher index.
                order = indices + [base] * (rules.max_conditions - size)
                clauses.append((order, (size, code, mask)))
    return [clause for _, clause in sorted(clauses)]


def _joint_mask(conditions: Sequence[SpanCondition], rules: SqlRules) -> int:
    if rules.semantics == "official":
        # All are bound to the last value, for which different operators exclude one another.
        same = len({condition.operator for condition in conditions}) == 1
        return conditions[-1].mask if same else 0
    mask = -1
    for condition in conditions:
        mask &= condition.mask
    return mask


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


def _levels(
    merged: Sequence[Counter[tuple[int, int]]], every_row: int, max_conditions: int
) -> list[dict[int, int]]:
    levels: list[dict[int, int]] = [{every_row: 1} if every_row else {}]
    levels += [{} for _ in range(max_conditions)]
    for column in merged:
        # Descending, so that no set gets two clauses on this column.
        for low in range(max_conditions - 1, -1, -1):
            for (size, mask), number in column.items():
                if low + size > max_conditions:
                    continue
                high = levels[low + size]
                for rows, weight in levels[low].items():
                    if joint := rows & mask:
                        high[joint] = high.get(joint, 0) + weight * number
    return levels
