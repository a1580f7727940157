"""Sets of conditions by the rows that meet them all.

Two conditions with the same rows are interchangeable, and so are two sets of them: the search
goes over distinct masks, and only the sets whose result is the answer are ever written out.
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
    """What one column is asked: a condition, or several if the rules allow it.

    Attributes:
        size: number of conditions.
        code: their positions in the list of all conditions, as the digits of a number whose base
            is the length of the list, or 2 if that is more.
        mask: the rows that meet them; at least one.
        behind: position of the first clause of the next column.
    """

    size: int
    code: int
    mask: int
    behind: int


class Combinations:
    """All sets of conditions that a question allows.

    Args:
        conditions: sorted, see `find_conditions`.
        table: of ``rules.semantics``.
        rules: how many there may be, and on which columns.

    Attributes:
        base: of codes.
        max_conditions: at most that of the rules, less where `SqlRules.max_combinations` says so.
        levels: at k, the number of sets of k conditions for each mask of rows.
    """

    def __init__(self, conditions: Sequence[SpanCondition], table: TypedTable, rules: SqlRules):
        self.base = max(2, len(conditions))
        self._clauses: list[Clause] = []
        merged: list[Counter[tuple[int, int]]] = []
        for _, group in itertools.groupby(enumerate(conditions), key=lambda item: item[1].column):
            clauses = list(_clauses(list(group), self.base, rules))
            behind = len(self._clauses) + len(clauses)
            self._clauses += [Clause(*clause, behind) for clause in clauses]
            merged.append(Counter((size, mask) for size, _, mask in clauses))
        self._every_row = table.every_row
        self.max_conditions = _affordable(merged, rules)
        self.levels = _levels(merged, table.every_row, self.max_conditions)

    def write_out(
        self, size: int, wanted: Mapping[int, int], limit: int | None = None
    ) -> tuple[list[int], list[int]]:
        """The sets of some conditions whose rows are wanted, in the order of their conditions.

        Args:
            size: number of conditions.
            wanted: mask of rows -> what to call it.
            limit: how many sets, the first; None for all.

        Returns:
            Their codes, ascending, and what their masks are called.
        """
        if size == 0:
            return ([0], [wanted[self._every_row]]) if self._every_row in wanted else ([], [])
        memory: dict[tuple[int, int, int], tuple[list[int], list[int]]] = {}
        return self._tails(self._every_row, 0, size, wanted, limit, memory)

    def _tails(self, mask, start, size, wanted, limit, memory):
        """Codes and names of the sets that the clauses from ``start`` on complete."""
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
            elif clause.behind < len(self._clauses):
                tails = self._tails(rows, clause.behind, left, wanted, limit, memory)
                high = clause.code * self.base**left
                codes += [high + code for code in tails[0]]
                names += tails[1]
            if limit is not None and len(codes) >= limit:
                del codes[limit:], names[limit:]
                break
        memory[mask, start, size] = codes, names
        return codes, names


def _clauses(group, base: int, rules: SqlRules):
    """Size, code and mask of what one column may be asked, sorted as rows of Z are."""
    if not rules.shared_columns:
        return [(1, place, condition.mask) for place, condition in group]
    found = []
    for size in range(1, rules.max_conditions + 1):
        for chosen in itertools.combinations(group, size):
            if mask := _joint_mask([condition for _, condition in chosen], rules):
                places = [place for place, _ in chosen]
                code = sum(p * base ** (size - 1 - i) for i, p in enumerate(places))
                # A column that is asked less comes later: what follows has higher positions.
                order = places + [base] * (rules.max_conditions - size)
                found.append((order, (size, code, mask)))
    return [clause for _, clause in sorted(found)]


def _joint_mask(conditions: Sequence[SpanCondition], rules: SqlRules) -> int:
    if rules.semantics == "official":
        # All are bound to the last value, which is not above, equal or below at once.
        same = len({condition.operator for condition in conditions}) == 1
        return conditions[-1].mask if same else 0
    mask = -1
    for condition in conditions:
        mask &= condition.mask
    return mask


def _affordable(merged: Sequence[Counter[tuple[int, int]]], rules: SqlRules) -> int:
    """The largest number of conditions with no more combinations than the rules allow."""
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
        # From above, so that no set gets two clauses of this column.
        for low in range(max_conditions - 1, -1, -1):
            for (size, mask), number in column.items():
                if low + size > max_conditions:
                    continue
                high = levels[low + size]
                for rows, weight in levels[low].items():
                    if joint := rows & mask:
                        high[joint] = high.get(joint, 0) + weight * number
    return levels
