"""Records of questions on tables whose Z are programs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, ClassVar

from hardem_jax.data.data_sets import RecordKind
from hardem_jax.programs.examples import ProgramQuestion
from hardem_jax.programs.solutions.rules import ProgramRules
from hardem_jax.programs.solutions.types import ROW_WIDTH
from hardem_jax.programs.solve import NO_PROGRAM, program_question, unsolved
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.records import TABLE_TEXTS, TableSolver


def to_program_question(record: Mapping[str, Any]) -> ProgramQuestion:
    """The question of a record, without its table; answer and values are lists."""
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
class ProgramSolver(TableSolver):
    """Programs whose result matches the answer."""

    rules: ProgramRules = ProgramRules()
    kind: ClassVar[RecordKind] = RECORDS

    unsolved = staticmethod(unsolved)

    def solve(self, example: TableQuestion) -> tuple[ProgramQuestion, str]:
        return program_question(example, self.rules), ""
