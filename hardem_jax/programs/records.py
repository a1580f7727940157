"""Records of questions on tables whose Z are programs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hardem_jax.data.data_sets import Record, RecordKind, Solver, to_json
from hardem_jax.data.exclusions import NOT_ENUMERABLE
from hardem_jax.errors import InputError
from hardem_jax.programs.examples import ProgramQuestion
from hardem_jax.programs.solutions.rules import ProgramRules
from hardem_jax.programs.solutions.types import ROW_WIDTH
from hardem_jax.programs.solve import NO_PROGRAM, program_question
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.records import TABLE_TEXTS, table_facts, table_record
from hardem_jax.tables.table import Table, split_words


def program_record(question: ProgramQuestion, table: Table, defect: str = "") -> Record:
    """The record of a question whose Z are programs."""
    return {
        "id": question.id,
        "question": question.question,
        "answer": to_json(question.answer),
        "values": to_json(question.values),
        **table_record(table),
        "defect": defect,
        **RECORDS.values_of(question),
    }


def to_program_question(record: Mapping[str, Any]) -> ProgramQuestion:
    """The inverse of `program_record`, without the table; answer and values are lists."""
    return ProgramQuestion(
        **RECORDS.values(record, "id", "question", "table_id"),
        answer=json.loads(record["answer"]),
        values=json.loads(record["values"]),
    )


RECORDS = RecordKind(
    name="programs",
    to_example=to_program_question,
    texts=("id", "question", "answer", "values", *TABLE_TEXTS),
    numbers=("num_programs",),
    arrays={
        "words": ("int32", 2),
        "fields": ("int32", 3),
        "links": ("int16", 4),
        "link_rows": ("int32", None),
        "programs": ("int16", ROW_WIDTH),
    },
    solutions="programs",
    no_solution=NO_PROGRAM,
    with_table=True,
)


@dataclasses.dataclass(frozen=True)
class ProgramSolver(Solver):
    """Programs whose result matches the answer.

    Attributes:
        rules: Z_tot.
    """

    rules: ProgramRules = ProgramRules()
    kind: ClassVar[RecordKind] = RECORDS

    def records(self, examples: Sequence[TableQuestion]) -> Iterator[Record]:
        for example in examples:
            try:
                question, defect = program_question(example, self.rules), ""
            except InputError as error:  # beyond what Z can hold: kept, and marked
                question, defect = _without_programs(example), f"{NOT_ENUMERABLE}: {error}"
            yield program_record(question, example.table, defect)

    def facts(self, record: Record) -> dict[str, Any]:
        return table_facts(self.kind, record)


def _without_programs(example: TableQuestion) -> ProgramQuestion:
    return ProgramQuestion(
        id=example.id,
        question=example.question,
        table_id=example.table.id,
        answer=example.answer_texts,
        values=example.values,
        words=split_words(example.question),
        fields=np.zeros((0, 3), np.int32),
        links=np.zeros((0, 4), np.int16),
        link_rows=np.zeros(0, np.int32),
        programs=np.zeros((0, ROW_WIDTH), np.int16),
        num_programs=0,
    )
