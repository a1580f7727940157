"""Records of questions on tables whose Z are queries."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, ClassVar

from hardem_jax.data.data_sets import Record, RecordKind
from hardem_jax.queries.annotations import annotated_row
from hardem_jax.queries.examples import AnnotatedQuestion, QueryQuestion
from hardem_jax.queries.solutions.rules import SqlRules
from hardem_jax.queries.solutions.types import ROW_WIDTH
from hardem_jax.queries.solve import (
    FEWER_CONDITIONS,
    NO_QUERY,
    missing_cell,
    query_question,
    unsolved,
)
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.records import TABLE_TEXTS, TableSolver


def to_query_question(record: Mapping[str, Any]) -> QueryQuestion:
    """The question of a record, without its table; answer and values are lists."""
    return QueryQuestion(
        **RECORDS.values(record, "id", "question", "table_id", "match"),
        answer=json.loads(record["answer"]),
        values=json.loads(record["values"]),
    )


RECORDS = RecordKind(
    name="queries",
    to_example=to_query_question,
    texts=("id", "question", "answer", "match", "values", *TABLE_TEXTS),
    numbers=("num_queries", "max_conditions"),
    arrays={"words": ("int32", 2), "queries": ("int16", ROW_WIDTH)},
    solutions="queries",
    no_solution=NO_QUERY,
    with_table=True,
)


@dataclasses.dataclass(frozen=True)
class QuerySolver(TableSolver):
    """Queries that execute to the answer (section 4.3); for an `AnnotatedQuestion`, its own."""

    rules: SqlRules = SqlRules()
    kind: ClassVar[RecordKind] = RECORDS

    unsolved = staticmethod(unsolved)

    def solve(self, example: TableQuestion) -> tuple[QueryQuestion, str]:
        question = query_question(example, self.rules)
        # A question that no query answers is not one to train on, whatever was annotated.
        if not isinstance(example, AnnotatedQuestion) or not question.num_queries:
            return question, ""
        row = annotated_row(question, example.query, self.rules)
        if isinstance(row, str):
            return unsolved(example), row
        return dataclasses.replace(question, queries=row[None], num_queries=1), ""

    def facts(self, record: Record) -> dict[str, Any]:
        facts = super().facts(record)
        if record["max_conditions"] < self.rules.max_conditions:
            facts["warning"] = FEWER_CONDITIONS
        if not facts["found"]:
            answer, rows = (json.loads(record[name]) for name in ("answer", "rows"))
            facts["note"] = missing_cell(record["match"], answer, rows)
        return facts
