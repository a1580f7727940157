"""The data sets of questions on tables that can be built with queries as Z."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardem_jax.data.data_sets import DataSet
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.queries.readers import read_answers
from hardem_jax.queries.records import QuerySolver
from hardem_jax.queries.solutions.types import SqlRules
from hardem_jax.tables.builds import OwnTables, WikiTables
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.records import OnTables


@dataclasses.dataclass(frozen=True)
class WikiSQL(OnTables):
    """WikiSQL from answers only (Zhong et al., 2017): ``{split}.jsonl``, ``{split}.tables.jsonl``.

    Reading executes each annotated query once, for the answer, and drops it unless it is all of Z.

    Attributes:
        rules: what counts as a query.
        supervised: make the annotated query all of Z: full supervision, to compare with.
    """

    NAME = "hardem_wikisql"
    SOLVER = QuerySolver
    SPLITS = ("train", "dev", "test")
    HOME = "https://github.com/salesforce/WikiSQL"

    rules: SqlRules = SqlRules(cap=4096)
    supervised: bool = False

    def source_names(self, folder: Path | None, split: str) -> tuple[str, ...]:
        return f"{split}.jsonl", f"{split}.tables.jsonl"

    def read(self, folder: Path, split: str, skips: ExclusionCounts) -> Iterator[Any]:
        for question in read_answers(folder, split, skips=skips):
            if self.supervised:
                yield question
            else:
                yield TableQuestion(question.id, question.question, question.table, question.answer)


@dataclasses.dataclass(frozen=True)
class TableQuestions(OwnTables):
    """Questions on your own tables; Z: queries that execute to the answer, or match it.

    Attributes:
        rules: what counts as a query.
    """

    NAME = "hardem_table_questions"
    SOLVER = QuerySolver

    rules: SqlRules = SqlRules(cap=4096)


@dataclasses.dataclass(frozen=True)
class WikiTableQuestions(WikiTables):
    """WikiTableQuestions (Pasupat and Liang, 2015); Z: queries whose result matches the answer.

    Attributes:
        rules: what counts as a query.
    """

    NAME = "hardem_wikitablequestions"
    SOLVER = QuerySolver

    rules: SqlRules = SqlRules(cap=4096)


#: Name on the command line -> data set.
DATA_SETS: dict[str, type[DataSet]] = {
    "wikisql": WikiSQL,
    "wikitablequestions": WikiTableQuestions,
    "table-questions": TableQuestions,
}
