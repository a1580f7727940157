"""Whether single programs are in Z_tot and in Z, without enumerating either."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from hardem_jax.programs.solutions.execute import aggregate, connect, execute, modify_rows
from hardem_jax.programs.solutions.judge import Target
from hardem_jax.programs.solutions.rules import ProgramRules, may_modify, may_pair, may_select
from hardem_jax.programs.solutions.sets import links_and_pairs
from hardem_jax.programs.solutions.table import ProgramTable, program_table
from hardem_jax.programs.solutions.types import LOCAL, SHAPES, Links, Shape
from hardem_jax.tables.table import Table

#: Programs whose results are kept, for those that come again.
_PROGRAMS_IN_MEMORY = 256


class AllowedPrograms:
    """The programs that the rules allow; Z is those that execute to the answer."""

    def __init__(self, table: ProgramTable, links: Links, rules: ProgramRules):
        self._table, self._links, self._rules = table, links, rules

    def __contains__(self, row: Sequence[int] | np.ndarray) -> bool:
        """Whether a row of ``ROW_WIDTH`` integers is one of them, see `Program.from_row`.

        Whether it has a result does not matter.
        """
        number, *rest = (int(entry) for entry in row)
        if not 0 <= number < len(SHAPES):
            return False
        shape = SHAPES[number]
        if not self._is_allowed(shape, *rest):
            return False
        return self._rules.redundant or not self._is_redundant(shape, *rest)

    def _is_allowed(self, shape: Shape, select: int, modify: int, first: int, second: int) -> bool:
        rules, width = self._rules, len(self._table.header)
        if not rules.allows_shape(shape):
            return False
        for code, has, may in (
            (select, shape.has_select, may_select),
            (modify, shape.has_modify, may_modify),
        ):
            if not has:
                if code != -1:
                    return False
            elif (
                (values := self._table.fields.get(code)) is None
                or not rules.allows_field(values.field, width)
                or not may(shape, values.field, width)
            ):
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
            reached = modify_rows(shape.modifier, g, a, b)
            return reached == modify_rows(shape.modifier, g, a, every)
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


class AnswerTest:
    """Tells which of some programs, ``[N, ROW_WIDTH]`` int, are in Z: ``[N]`` bool.

    A program is in Z if the rules allow it and its result is the answer. `ProgramRules.cap` only
    limits enumeration and is ignored here. The links are from `find_links` by the same rules.
    """

    def __init__(self, table: Table, links: Links, target: Target, rules: ProgramRules):
        self._table, self._links, self._target = table, links, target
        self._allowed = AllowedPrograms(program_table(table), links, rules)
        self._is_right = functools.lru_cache(_PROGRAMS_IN_MEMORY)(self._execute)

    def __call__(self, programs: np.ndarray) -> np.ndarray:
        return np.array([self._is_right(*row) for row in programs.tolist()], bool)

    def _execute(self, *row: int) -> bool:
        if row not in self._allowed:
            return False
        result = execute(self._table, row, self._links)
        return result is not None and self._target.matches(result)
