"""What counts as a difference between two queries, and the page that counts and shows them."""

import pytest

from hardem_jax.queries.differences import CorrectAnswer, differences, differences_page
from hardem_jax.queries.metrics import logical_form_match
from hardem_jax.queries.solutions.types import Condition, Query

ROME, FIVE = Condition(1, 0, "Rome"), Condition(2, 1, "5")
GOLD = Query(0, 0, (ROME, FIVE))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query(0, 0, (FIVE, Condition(1, 0, "ROME"))), ()),
        (Query(1, 0, (ROME, FIVE)), ("selected column",)),
        (Query(0, 2, (ROME, FIVE)), ("aggregator",)),
        (Query(0, 0, (ROME,)), ("fewer conditions",)),
        (Query(0, 0, (ROME, FIVE, Condition(0, 0, "ann"))), ("more conditions",)),
        (Query(0, 0, (ROME, Condition(0, 1, "5"))), ("column of a condition",)),
        (Query(0, 0, (ROME, Condition(2, 2, "5"))), ("operator",)),
        (Query(0, 0, (ROME, Condition(2, 1, "5.0"))), ("value",)),
        (Query(0, 0, (ROME, ROME)), ("column of a condition",)),
        (Query(3, 1, (ROME,)), ("selected column", "aggregator", "fewer conditions")),
    ],
)
def test_every_part_is_named(query, expected):
    assert differences(query, GOLD) == expected
    # Nothing differs exactly where the official evaluator says so, conditions being distinct.
    assert logical_form_match(query, GOLD) == (not expected)


def test_the_page_counts_all_and_shows_the_most_common_first():
    header = ("na|me", "city", "points")

    def answer(number, query):
        return CorrectAnswer(f"Question *{number}*?", header, query, GOLD, "ann")

    aggregated = [answer(i, Query(0, 1 + i % 2, (ROME, FIVE))) for i in range(3)]
    shorter, same = answer(3, Query(0, 0, (ROME,))), answer(4, GOLD)
    page = differences_page([shorter, *aggregated, same], shown=3)
    lines = page.splitlines()
    assert lines[0] == "5 correct answers, 1 (20.0 %) by the annotated query."
    assert lines[4:6] == ["| aggregator | 3 |", "| fewer conditions | 1 |"]
    examples = [line for line in lines if line.startswith("**")]
    assert examples == [
        "**Question \\*0\\*?** (aggregator)",
        "**Question \\*3\\*?** (fewer conditions)",
        "**Question \\*1\\*?** (aggregator)",
    ]
    assert "- annotated: SELECT na\\|me WHERE city = 'Rome' AND points \\> '5'" in lines


def test_a_page_of_nothing():
    assert differences_page([]).startswith("0 correct answers, 0 (0.0 %)")
