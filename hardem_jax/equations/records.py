"""Records of questions on numbers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from hardem_jax.data.data_sets import Record, RecordKind, Solver, to_json
from hardem_jax.equations.examples import NumericExample, NumericQuestion
from hardem_jax.equations.solutions.numbers import NumberConfig
from hardem_jax.equations.solutions.rules import EquationRules
from hardem_jax.equations.solve import NO_EQUATION, numeric_question


def numeric_record(question: NumericQuestion) -> Record:
    """The record of a question on numbers."""
    return {
        "id": question.id,
        "passage_id": question.passage_id,
        "passage": question.passage,
        "question": question.question,
        "golds": to_json(question.golds),
        **RECORDS.values_of(question),
    }


def to_numeric_question(record: Mapping[str, Any]) -> NumericQuestion:
    """The inverse of `numeric_record`; ``golds`` is a list."""
    return NumericQuestion(
        **RECORDS.values(record, "id", "passage_id", "passage", "question"),
        golds=json.loads(record["golds"]),
    )


RECORDS = RecordKind(
    name="equations",
    to_example=to_numeric_question,
    texts=("id", "passage_id", "passage", "question", "golds"),
    numbers=("true_equation",),
    arrays={
        "spans": ("int32", 2),
        "values": ("float64", None),
        "kinds": ("int8", None),
        "equations": ("int32", 4),
    },
    solutions="equations",
    no_solution=NO_EQUATION,
    repetitions=True,
)


@dataclasses.dataclass(frozen=True)
class EquationSolver(Solver):
    """Equations that give the answer (section 4.2)."""

    numbers: NumberConfig = NumberConfig()
    rules: EquationRules = EquationRules()
    kind: ClassVar[RecordKind] = RECORDS

    def records(self, examples: Sequence[NumericExample]) -> Iterator[Record]:
        for example in examples:
            yield numeric_record(numeric_question(example, self.numbers, self.rules))
