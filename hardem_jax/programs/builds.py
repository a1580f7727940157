"""The data sets of questions on tables that can be built with programs as Z."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardem_jax.data.data_sets import DataSet
from hardem_jax.data.exclusions import NO_ANSWER, ExclusionCounts
from hardem_jax.programs.records import ProgramSolver
from hardem_jax.programs.solutions.rules import ProgramRules
from hardem_jax.tables.builds import OwnTables, WikiTables


@dataclasses.dataclass(frozen=True)
class TablePrograms(OwnTables):
    """Questions on your own tables; Z: programs whose result matches the answer by denotation.

    Attributes:
        rules: what counts as a program.
    """

    NAME = "hardem_table_programs"
    SOLVER = ProgramSolver

    rules: ProgramRules = ProgramRules()

    def read(self, folder: Path, split: str, skips: ExclusionCounts) -> Iterator[Any]:
        for question in super().read(folder, split, skips):
            known = [n for n, cell in enumerate(question.answer) if cell is not None]
            texts = tuple(str(question.answer[n]) for n in known)
            values = question.values and tuple(question.values[n] for n in known)
            if texts:
                changes: dict[str, Any] = {"answer": texts, "values": values}
                yield dataclasses.replace(question, match="denotation", **changes)
            else:
                skips.add(NO_ANSWER, question.id)


@dataclasses.dataclass(frozen=True)
class WikiTablePrograms(WikiTables):
    """WikiTableQuestions (Pasupat and Liang, 2015); Z: programs whose result matches the answer.

    Attributes:
        rules: what counts as a program.
    """

    NAME = "hardem_wikitableprograms"
    SOLVER = ProgramSolver

    rules: ProgramRules = ProgramRules()


#: Name on the command line -> data set.
DATA_SETS: dict[str, type[DataSet]] = {
    "wikitableprograms": WikiTablePrograms,
    "table-programs": TablePrograms,
}
