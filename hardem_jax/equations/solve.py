"""Numbers of a question, and Z: all equations that give the answer."""

from __future__ import annotations

import functools

import numpy as np

from hardem_jax.equations.examples import NumericExample, NumericQuestion
from hardem_jax.equations.solutions.enumeration import enumerate_equations, number_table
from hardem_jax.equations.solutions.numbers import NumberConfig, NumberMention, find_numbers
from hardem_jax.equations.solutions.rules import EquationRules

# Reasons of `ExclusionCounts`, for questions left out:
NO_EQUATION = "no equation gives the answer"


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
