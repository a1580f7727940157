"""Whether single programs are in Z, without enumerating Z."""

from __future__ import annotations

import functools

import numpy as np

from hardem_jax.programs.solutions.execute import execute
from hardem_jax.programs.solutions.judge import Target
from hardem_jax.programs.solutions.rules import ProgramRules
from hardem_jax.programs.solutions.space import ProgramSpace
from hardem_jax.programs.solutions.table import program_table
from hardem_jax.programs.solutions.types import Links
from hardem_jax.tables.table import Table

#: Programs whose results are kept, for those that come again.
_PROGRAMS_IN_MEMORY = 256


class AnswerTest:
    """Tells which of some programs, ``[N, ROW_WIDTH]`` int, are in Z: ``[N]`` bool.

    A program is in Z if the rules allow it and its result is the answer. `ProgramRules.cap` only
    limits enumeration and is ignored here. The links are from `find_links` by the same rules.
    """

    def __init__(self, table: Table, links: Links, target: Target, rules: ProgramRules):
        self._table, self._links, self._target = table, links, target
        self._space = ProgramSpace(program_table(table), links, rules)
        self._is_right = functools.lru_cache(_PROGRAMS_IN_MEMORY)(self._execute)

    def __call__(self, programs: np.ndarray) -> np.ndarray:
        return np.array([self._is_right(*row) for row in programs.tolist()], bool)

    def _execute(self, *row: int) -> bool:
        if row not in self._space:
            return False
        result = execute(self._table, row, self._links)
        return result is not None and self._target.matches(result)
