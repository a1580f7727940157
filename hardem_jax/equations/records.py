"""Questions on numbers with their Z, and their records."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hardem_jax.data.data_sets import Record, RecordKind, Solver, to_json
from hardem_jax.data.exclusions import with_help
from hardem_jax.equations.examples import NumericExample, NumericQuestion
from hardem_jax.equations.solutions.enumeration import enumerate_equations, number_table
from hardem_jax.equations.solutions.numbers import NumberConfig, NumberMention, find_numbers
from hardem_jax.equations.solutions.rules import EquationRules

# Reasons of `ExclusionCounts`, for questions left out:
NO_EQUATION = with_help(
    "no equation gives the answer", "compare it with the passage; --rules.* allow more equations"
)


def numeric_question(
    example: NumericExample, numbers: NumberConfig, rules: EquationRules
) -> NumericQuestion:
    """The numbers of an example and its Z, which is empty if it has no answer."""
    of_passage = _numbers_of_passage(example.passage, numbers)
    of_question = find_numbers(example.question, numbers) if rules.question_numbers else []
    table = number_table(of_passage, of_question, rules.special)
    equations = np.zeros((0, 4), np.int32)
    if example.answer is not None:
        equations = enumerate_equations(table, example.answer, rules)
    true_equation = -1
    if example.true_equation is not None:
        hits = np.flatnonzero((equations == example.true_equation).all(axis=1))
        true_equation = int(hits[0]) if len(hits) else -1
    spans = [(mention.start, mention.end) for mention in (*of_passage, *of_question)]
    return NumericQuestion(
        id=example.id,
        passage_id=example.passage_id,
        passage=example.passage,
        question=example.question,
        golds=example.golds,
        spans=np.array(spans, np.int32).reshape(-1, 2),
        values=table.values,
        kinds=table.kinds,
        equations=equations,
        true_equation=true_equation,
    )


@functools.lru_cache(maxsize=8)
def _numbers_of_passage(passage: str, numbers: NumberConfig) -> list[NumberMention]:
    # The questions on one passage are consecutive.
    return find_numbers(passage, numbers)


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
