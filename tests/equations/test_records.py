"""Z of a question on a passage: its numbers and equations."""

import numpy as np

from hardem_jax.equations.examples import NumericExample
from hardem_jax.equations.records import numeric_question
from hardem_jax.equations.solutions.enumeration import enumerate_equations
from hardem_jax.equations.solutions.numbers import NumberConfig
from hardem_jax.equations.solutions.rules import (
    COUNT,
    MINUS,
    NONE,
    PASSAGE,
    PLUS,
    QUESTION,
    SPECIAL,
    SPECIAL_NUMBERS,
    EquationRules,
)

S = len(SPECIAL_NUMBERS)
PASSAGE_TEXT = "Longwell threw 41 yards, Favre 38 and Ryan 40."


def example(question="How many more than 8?", answer=3.0, passage=PASSAGE_TEXT, **changes):
    return NumericExample("q", "p", passage, question, answer, (), **changes)


def test_numbers_and_their_places():
    question = numeric_question(example(), NumberConfig(), EquationRules())
    assert question.values.tolist() == [*SPECIAL_NUMBERS, 41, 38, 40, 8]
    assert question.kinds.tolist() == [SPECIAL] * S + [PASSAGE] * 3 + [QUESTION]
    texts = [PASSAGE_TEXT] * 3 + ["How many more than 8?"]
    words = [text[a:b] for text, (a, b) in zip(texts, question.spans, strict=True)]
    assert words == ["41", "38", "40", "8"]
    expected = enumerate_equations(question.table, 3.0, EquationRules())
    np.testing.assert_array_equal(question.equations, expected)


THIRD = example("And 8?", true_equation=(S, PLUS, S + 1, MINUS))


def test_the_true_equation_becomes_its_index_in_z():
    question = numeric_question(THIRD, NumberConfig(), EquationRules())
    assert len(question.equations) > 1
    assert question.equations[question.true_equation].tolist() == list(THIRD.true_equation)
    swapped = example(answer=3.0, true_equation=(S, MINUS, S + 1, PLUS))
    assert numeric_question(swapped, NumberConfig(), EquationRules()).true_equation == -1
    counted = example(answer=3.0, true_equation=(3, COUNT, -1, NONE))
    question = numeric_question(counted, NumberConfig(), EquationRules(max_count=9))
    assert question.true_equation == len(question.equations) - 1
    assert numeric_question(counted, NumberConfig(), EquationRules()).true_equation == -1


def test_questions_on_one_passage_have_its_numbers_each_with_its_own_z():
    config = NumberConfig(), EquationRules()
    first, fifth = (numeric_question(example(*asked), *config)
                    for asked in (("And 8?", 3.0), ("Or 41?", 79.0)))  # fmt: skip
    np.testing.assert_array_equal(fifth.spans[:3], first.spans[:3])
    np.testing.assert_array_equal(fifth.values[: S + 3], first.values[: S + 3])
    assert [S, PLUS, S + 1, PLUS] in fifth.equations.tolist()  # 41 + 38
    assert [S + 1, PLUS, S + 3, PLUS] in fifth.equations.tolist()  # 38 + 41 of the question
    # The same passage under another reading of numbers is not answered from memory.
    both = [numeric_question(example(passage="Two of 41."), n, EquationRules())
            for n in (NumberConfig(), NumberConfig(words="none"))]  # fmt: skip
    assert [q.values[S:].tolist() for q in both] == [[2, 41, 8], [41, 8]]
