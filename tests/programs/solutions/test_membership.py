"""Single programs are in Z exactly if its enumeration has them."""

import dataclasses

import numpy as np
import pytest

from hardem_jax.programs.solutions.enumeration import AnswerTest, enumerate_programs
from hardem_jax.programs.solutions.rules import ProgramRules
from hardem_jax.tables.metrics import Denotation
from tests.marks import slow
from tests.programs.solutions.test_enumeration import CITIES, Brute

SMALL = ProgramRules(parts=False, empty=False, row_numbers=False, negation=False, contains=False)
QUESTION = "Which city follows bergen or is larger than 3 in norway?"
REDUNDANT = dataclasses.replace(SMALL, redundant=True)


@pytest.mark.parametrize(
    "rules", [SMALL, *slow(REDUNDANT, ProgramRules(), ProgramRules(max_pairs=1))]
)
@pytest.mark.parametrize("answer", [["oslo"], *slow(["norway"], ["2"], ["3", "7"], ["yes"])])
def test_a_program_is_in_z_if_the_enumeration_finds_it(rules, answer):
    """Of all programs of any rules, and of rows that are no programs."""
    every = dataclasses.replace(rules, redundant=True)
    rows = np.array(list(Brute(CITIES, QUESTION, every).programs()))
    target = Denotation(answer)
    found = enumerate_programs(CITIES, QUESTION, target, dataclasses.replace(rules, cap=None))
    # "yes" is the answer of comparisons only, for which a single pair of links leaves no room.
    assert (len(found.programs) == 0) == (answer == ["yes"] and rules.max_pairs == 1)
    assert len(found.programs) < len(rows)
    shuffled = np.random.default_rng(0).permuted(rows[:500], axis=1)
    rows = np.concatenate([rows, shuffled, np.full((1, 5), -1), np.full((1, 5), 30_000)])
    test = AnswerTest(CITIES, found.links, target, rules)
    right = {*map(tuple, found.programs.tolist())}
    answers = test(rows)
    assert answers.dtype == bool and answers.tolist() == [tuple(z) in right for z in rows.tolist()]
    assert answers[: len(rows) - 502].sum() == len(found.programs)
    assert test(rows[:0]).shape == (0,)
