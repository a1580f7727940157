"""Records of questions on tables whose Z are queries."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hardem_jax.data.data_sets import Record, RecordKind, Solver, to_json
from hardem_jax.data.exclusions import NOT_ENUMERABLE
from hardem_jax.errors import InputError
from hardem_jax.queries.annotations import annotated_row
from hardem_jax.queries.examples import AnnotatedQuestion, QueryQuestion
from hardem_jax.queries.solutions.rules import SqlRules
from hardem_jax.queries.solutions.types import ROW_WIDTH
from hardem_jax.queries.solve import FEWER_CONDITIONS, NO_QUERY, missing_cell, query_question
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.records import TABLE_TEXTS, table_facts, table_record
from hardem_jax.tables.table import Table, split_words


def query_record(question: QueryQuestion, table: Table, defect: str = "") -> Record:
    """The record of a question on a table; ``defect`` says why it is left out, if so.

    Example:
        >>> from hardem_jax.tables.records import table_of
        >>> table = Table("1-1", ("player", "no."), ("text", "real"), (("ann", 7), ("bo", None)))
        >>> question = QueryQuestion("q", "Who?", "1-1", ["ann"], "execution", None,
        ...     np.array([[0, 3]], np.int32), np.zeros((0, 15), np.int16), 0)
        >>> table_of(query_record(question, table)) == table
        True
    """
    return {
        "id": question.id,
        "question": question.question,
        "answer": to_json(question.answer),
        "match": question.match,
        "values": to_json(question.values),
        **table_record(table),
        "defect": defect,
        **RECORDS.values_of(question),
    }


def to_query_question(record: Mapping[str, Any]) -> QueryQuestion:
    """The inverse of `query_record`, without the table; answer and values are lists."""
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
class QuerySolver(Solver):
    """Queries that execute to the answer (section 4.3); for an `AnnotatedQuestion`, its own.

    Attributes:
        rules: Z_tot.
    """

    rules: SqlRules = SqlRules()
    kind: ClassVar[RecordKind] = RECORDS

    def records(self, examples: Sequence[TableQuestion]) -> Iterator[Record]:
        for example in examples:
            try:
                question, defect = query_question(example, self.rules), ""
            except InputError as error:  # beyond what Z can hold: kept, and marked
                question, defect = _without_queries(example), f"{NOT_ENUMERABLE}: {error}"
            # A question that no query answers is not one to train on, whatever was annotated.
            if isinstance(example, AnnotatedQuestion) and question.num_queries:
                row = annotated_row(question, example.query, self.rules)
                if isinstance(row, str):
                    question, defect = _without_queries(example), row
                else:
                    question = dataclasses.replace(question, queries=row[None], num_queries=1)
            yield query_record(question, example.table, defect)

    def facts(self, record: Record) -> dict[str, Any]:
        facts = table_facts(self.kind, record)
        if record["max_conditions"] < self.rules.max_conditions:
            facts["warning"] = FEWER_CONDITIONS
        if not facts["found"]:
            answer, rows = (json.loads(record[name]) for name in ("answer", "rows"))
            facts["note"] = missing_cell(record["match"], answer, rows)
        return facts


def _without_queries(example: TableQuestion) -> QueryQuestion:
    return QueryQuestion(
        id=example.id,
        question=example.question,
        table_id=example.table.id,
        answer=example.answer,
        match=example.match,
        values=example.values,
        words=split_words(example.question),
        queries=np.zeros((0, ROW_WIDTH), np.int16),
        num_queries=0,
    )
