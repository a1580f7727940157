"""Z of questions with documents, and records of builds."""

import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.documents.examples import Document, ReadingExample
from hardem_jax.documents.records import (
    NO_PLACE,
    annotated_mentions,
    reading_record,
    to_reading_example,
)

EXAMPLE = ReadingExample(
    id="q",
    question="Which?",
    documents=(Document("a", "Rome, Bonn"),),
    aliases=("Rome", "Bonn"),
    golds=("Rome", "Bonn"),
    true_mention=(0, 0, 4),
    mentions=((0, 0, 4), (0, 6, 10)),
)


def test_a_record_holds_the_whole_example():
    assert to_reading_example(reading_record(EXAMPLE)) == EXAMPLE


def reading_example(text, true_mention, *aliases):
    return ReadingExample("q", "Which?", (Document("d#0", text),), aliases, aliases, true_mention)


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("Bo, Bo", (0, 4, 6), (0, 4, 6)),
        ("the Bo. Bo", (0, 0, 7), (0, 4, 6)),  # no article, no full stop
        ("Bombay Bo", (0, 0, 2), None),  # within a word
        ("1,000", (0, 0, 1), None),  # within a number
        ("24.7%, 7%", (0, 3, 5), None),
        ("24.7%, 7%", (0, 7, 9), (0, 7, 8)),
        ("Bo", None, None),
    ],
)
def test_an_annotated_mention_is_all_of_z_in_whole_words(text, place, expected):
    skips = ExclusionCounts()
    kept = list(annotated_mentions([reading_example(text, place, "Bo")], skips=skips))
    assert [example.mentions for example in kept] == ([(expected,)] if expected else [])
    assert skips.as_dict() == ({} if expected else {NO_PLACE: 1})


def test_an_answer_that_is_a_choice_needs_no_place():
    asked = [reading_example("Bo", None, "Yes."), reading_example("Bo", None, "perhaps")]
    skips = ExclusionCounts()
    (kept,) = annotated_mentions(asked, skips=skips, choices=("yes", "no"))
    assert kept.aliases == ("Yes.",) and kept.mentions == ()
    assert skips.as_dict() == {NO_PLACE: 1}
