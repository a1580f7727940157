"""The data sets of questions on numbers that can be built."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardem_jax.data.data_sets import DataSet, Solver
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.rows import USUAL, Columns
from hardem_jax.equations.readers import read_drop, read_number_rows
from hardem_jax.equations.records import EquationSolver
from hardem_jax.equations.solutions.numbers import NumberConfig
from hardem_jax.equations.solutions.rules import EquationRules
from hardem_jax.errors import require


@dataclasses.dataclass(frozen=True)
class DropNum(DataSet):
    """The questions of DROP whose answer is a number (Dua et al., 2019); Z: equations.

    ``drop_dataset_{split}.json``.

    Attributes:
        max_words: longer passages are cut (paper: 400); None for no limit.
        numbers: what counts as a number.
        rules: what counts as an equation.
    """

    max_words: int | None = 400
    numbers: NumberConfig = NumberConfig()
    rules: EquationRules = EquationRules()

    NAME = "hardem_drop_num"
    HOME = "https://allenai.org/data/drop"

    def __post_init__(self) -> None:
        require(self, "max_words", at_least=1)

    def source_names(self, folder: Path | None, split: str) -> tuple[str, ...]:
        return (f"drop_dataset_{split}.json",)

    def read(self, folder: Path, split: str, skips: ExclusionCounts) -> Iterator[Any]:
        [name] = self.source_names(folder, split)
        return read_drop(folder / name, skips=skips, max_words=self.max_words, numbers=self.numbers)

    @property
    def solver(self) -> Solver:
        return EquationSolver(self.numbers, self.rules)


@dataclasses.dataclass(frozen=True)
class NumberQuestions(DropNum):
    """Questions on numbers of your own, a row each with its passage; Z: equations.

    Attributes:
        columns: names of the columns of their file, or of the keys of objects.
    """

    max_words: int | None = None
    columns: Columns = USUAL

    NAME = "hardem_number_questions"

    def read(self, folder: Path, split: str, skips: ExclusionCounts) -> Iterator[Any]:
        return read_number_rows(
            self.files[split],
            skips=skips,
            columns=self.columns,
            max_words=self.max_words,
            numbers=self.numbers,
            digits=self.rules.digits,
        )


#: Name on the command line -> data set.
DATA_SETS: dict[str, type[DataSet]] = {"drop-num": DropNum}
