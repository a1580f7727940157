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
    """Tells which of some programs are in Z.

    A program is in Z if the rules allow it and its result is the answer. `ProgramRules.cap` only
    limits enumeration and is ignored here.

    Args:
        table: the table of the question.
        links: the links of the question, from `find_links` on the same table and by the same rules.
        target: the answer.
        rules: Z_tot.

    Example:
        >>> from hardem_jax.tables.metrics import Denotation
        >>> from hardem_jax.programs.solutions.links import find_links
        >>> from hardem_jax.programs.solutions.types import SHAPES, Field, Shape
        >>> from hardem_jax.tables.table import split_words
        >>> rows = (("Bergen", 3.0), ("Oslo", 7.0), ("Tromsø", 9.0))
        >>> table = Table("1", ("City", "Size"), ("text", "real"), rows)
        >>> question, rules = "Which is the largest?", ProgramRules()
        >>> links = find_links(program_table(table), question, split_words(question), rules)
        >>> test = AnswerTest(table, links, Denotation(["Tromsø"]), rules)
        >>> city, size = Field(0, 0).code, Field(1, 4).code
        >>> shapes = [SHAPES.index(Shape("values", x, "all")) for x in ("highest", "lowest")]
        >>> test(np.array([[shape, city, size, -1, -1] for shape in shapes]))
        array([ True, False])
    """

    def __init__(self, table: Table, links: Links, target: Target, rules: ProgramRules):
        self._table, self._links, self._target = table, links, target
        self._space = ProgramSpace(program_table(table), links, rules)
        self._is_right = functools.lru_cache(_PROGRAMS_IN_MEMORY)(self._execute)

    def __call__(self, programs: np.ndarray) -> np.ndarray:
        """Whether each program is in Z.

        Args:
            programs: ``[N, ROW_WIDTH]`` int, see `Program.from_row`; any numbers.

        Returns:
            ``[N]`` bool.
        """
        return np.array([self._is_right(*row) for row in programs.tolist()], bool)

    def _execute(self, *row: int) -> bool:
        if row not in self._space:
            return False
        result = execute(self._table, row, self._links)
        return result is not None and self._target.matches(result)
