"""The planted equations: the true one is in Z, and nothing gives it away."""

import numpy as np
import pytest

from hardem_jax.equations.inputs import TaggerInputs
from hardem_jax.equations.planted import (
    RULES,
    PlantedEquationsConfig,
    planted_numeric_examples,
    planted_numeric_tokenizer,
)
from hardem_jax.equations.records import numeric_question
from hardem_jax.equations.solutions.enumeration import execute_equation
from hardem_jax.equations.solutions.numbers import NumberConfig
from hardem_jax.equations.solutions.rules import MINUS, PLUS
from hardem_jax.errors import InputError

CONFIG = PlantedEquationsConfig(num_train=400, num_dev=100)


@pytest.fixture(scope="module")
def questions():
    examples = planted_numeric_examples(CONFIG, "train")
    return [numeric_question(example, NumberConfig(), RULES) for example in examples]


def test_the_true_equation_is_in_z_and_takes_the_numbers_that_are_asked_for(questions):
    for question in questions[:100]:
        n1, o1, n2, o2 = question.equations[question.true_equation]
        assert {o1, o2} == {PLUS, MINUS}
        more, less = (n1, n2) if o1 == PLUS else (n2, n1)
        lines = [line.split() for line in question.passage.splitlines()]
        assert question.question == f"How many more has {lines[more][0]} than {lines[less][0]}?"
        difference = int(lines[more][1]) - int(lines[less][1])
        assert question.golds == ({"number": str(difference)},)
        assert set(execute_equation(question.equations, question.table, RULES)) == {difference}


def test_there_is_no_other_split():
    with pytest.raises(InputError, match="split: expected one of .*found 'test'"):
        next(iter(planted_numeric_examples(CONFIG, "test")))


def test_coincidences_are_frequent_and_the_true_equation_may_be_any_of_them(questions):
    sizes = np.array([len(question.equations) for question in questions])
    assert sizes.mean() > 2.5 and (sizes == 1).any()
    pairs = [question for question in questions if len(question.equations) == 3]
    ranks = np.bincount([question.true_equation for question in pairs], minlength=3)
    assert len(pairs) > 50 and ranks.min() > 0.15 * len(pairs)


def test_names_of_the_splits_are_different_and_no_word_is_unknown(questions):
    dev = [
        numeric_question(e, NumberConfig(), RULES) for e in planted_numeric_examples(CONFIG, "dev")
    ]
    names = [{line.split()[0] for q in part for line in q.passage.splitlines()}
             for part in (questions, dev)]  # fmt: skip
    assert names[0].isdisjoint(names[1])
    tokenizer = planted_numeric_tokenizer(CONFIG)
    inputs = TaggerInputs([*questions[:50], *dev], tokenizer, max_tokens=64, max_question_tokens=12)
    for item in inputs:
        assert 1 not in item.token_ids  # [UNK]
        assert len(item.number_tokens) == CONFIG.num_people and item.true_equation >= 0
