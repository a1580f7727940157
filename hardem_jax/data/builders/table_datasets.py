"""The builders of questions on tables; `data.build_options` has their options.

=====================  =====================================================================
`WikiSQL`              ``{split}.jsonl`` and ``{split}.tables.jsonl``
`TableQuestions`       ``{split}.jsonl`` or ``.csv``, see `hardem_jax.data.readers.table_jsonl`
`TablePrograms`        the same
`WikiTableQuestions`   ``data/{split}.tsv`` and ``csv/`` of the release
`WikiTablePrograms`    the same
=====================  =====================================================================
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardem_jax.data.build_options import (
    TableProgramsOptions,
    TableQuestionsOptions,
    WikiSQLOptions,
    WikiTableProgramsOptions,
    WikiTableQuestionsOptions,
)
from hardem_jax.data.builders.base import SolutionBuilder
from hardem_jax.data.builders.solvers import ProgramSolver, QuerySolver, Solver
from hardem_jax.data.builders.sources import Release
from hardem_jax.data.examples import TableQuestion
from hardem_jax.data.exclusions import NO_ANSWER, ExclusionCounts
from hardem_jax.data.readers.table_jsonl import read_table_questions
from hardem_jax.data.readers.wikisql import read_answers
from hardem_jax.data.readers.wikitablequestions import read_wikitablequestions, tagged_name
from hardem_jax.data.solve import MakeMatcher, MakeTarget


class WikiSQL(SolutionBuilder):
    """WikiSQL from answers only (Zhong et al., 2017); Z: queries.

    Reading executes each annotated query once, which gives the answer, and drops it, unless the
    options say that it is to be all of Z.
    """

    name = "hardem_wikisql"
    OPTIONS = WikiSQLOptions
    SPLITS = ("train", "dev", "test")
    RELEASE = Release(
        "https://github.com/salesforce/WikiSQL",
        "https://github.com/salesforce/WikiSQL/raw/master/data.tar.bz2",
        "data",
    )
    options: WikiSQLOptions

    def source_names(self, folder: Path | None, split: str) -> tuple[str, ...]:
        return f"{split}.jsonl", f"{split}.tables.jsonl"

    def read(self, folder: Path, split: str, skips: ExclusionCounts) -> Iterator[Any]:
        for question in read_answers(folder, split, skips=skips):
            if self.options.supervised:
                yield question
            else:
                yield TableQuestion(question.id, question.question, question.table, question.answer)

    @property
    def solver(self) -> Solver:
        return QuerySolver(self.options.rules)


class TableQuestions(SolutionBuilder):
    """Questions on your own tables; Z: queries that execute to the answer, or match it.

    Args:
        denotation: what compares results with answers in words:
            `hardem_jax.metrics.wikitablequestions.Denotation`.
        **others: see `SolutionBuilder`.
    """

    name = "hardem_table_questions"
    OPTIONS = TableQuestionsOptions
    SPLITS = ("train", "dev", "test")
    RELEASE = Release("hardem_jax.data.readers.table_jsonl, which describes the layout")
    options: TableQuestionsOptions

    def __init__(self, *, denotation: MakeMatcher, **others: Any):
        self.denotation = denotation
        super().__init__(**others)
        self._original_state["denotation"] = denotation

    def _more_identity(self) -> dict[str, Any]:
        compares: Any = self.denotation
        return {"denotation": f"{compares.__module__}.{compares.__qualname__}"}

    def source_names(self, folder: Path | None, split: str) -> tuple[str, ...]:
        name = f"{split}.{self.options.layout}"
        if folder is None:
            return (name,)
        if self.options.layout == "csv" and not os.path.isfile(folder / name):
            name = f"{split}.tsv" if os.path.isfile(folder / f"{split}.tsv") else name
        return (name, "tables") if os.path.isdir(folder / "tables") else (name,)

    def read(self, folder: Path, split: str, skips: ExclusionCounts) -> Iterator[Any]:
        name, *_ = self.source_names(folder, split)
        return read_table_questions(folder / name, skips=skips)

    @property
    def solver(self) -> Solver:
        return QuerySolver(self.options.rules, self.denotation)


class TablePrograms(TableQuestions):
    """Questions on your own tables; Z: programs whose result matches the answer by denotation."""

    name = "hardem_table_programs"
    OPTIONS = TableProgramsOptions
    options: TableProgramsOptions
    denotation: MakeTarget

    def read(self, folder: Path, split: str, skips: ExclusionCounts) -> Iterator[Any]:
        for question in super().read(folder, split, skips):
            texts = tuple(str(cell) for cell in question.answer if cell is not None)
            if texts:
                yield dataclasses.replace(question, answer=texts, match="denotation")
            else:
                skips.add(NO_ANSWER, question.id)

    @property
    def solver(self) -> Solver:
        return ProgramSolver(self.options.rules, self.denotation)


class WikiTableQuestions(TableQuestions):
    """WikiTableQuestions (Pasupat and Liang, 2015); Z: queries whose result matches the answer."""

    name = "hardem_wikitablequestions"
    OPTIONS = WikiTableQuestionsOptions
    RELEASE = Release("https://github.com/ppasupat/WikiTableQuestions")
    options: WikiTableQuestionsOptions

    def source_names(self, folder: Path | None, split: str) -> tuple[str, ...]:
        name = self._file(split)
        tagged = (tagged_name(name),) if self.options.tagged else ()
        return f"data/{name}.tsv", *tagged, "csv"

    def read(self, folder: Path, split: str, skips: ExclusionCounts) -> Iterator[Any]:
        name, tagged = self._file(split), self.options.tagged
        return read_wikitablequestions(folder, name, skips=skips, tagged=tagged)

    def _file(self, split: str) -> str:
        if split == "test":
            return "pristine-unseen-tables"
        return f"random-split-{self.options.number}-{split}"


class WikiTablePrograms(WikiTableQuestions):
    """WikiTableQuestions; Z: programs whose result matches the answer."""

    name = "hardem_wikitableprograms"
    OPTIONS = WikiTableProgramsOptions
    options: WikiTableProgramsOptions
    denotation: MakeTarget

    @property
    def solver(self) -> Solver:
        return ProgramSolver(self.options.rules, self.denotation)
