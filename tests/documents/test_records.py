"""Records of builds that cannot hold what they are asked to."""

import dataclasses

import pytest

from hardem_jax.documents.examples import Document, ReadingExample
from hardem_jax.documents.records import reading_record, to_reading_example

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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mentions": None}, "q: expected mentions, found None"),
        ({"all_required": True}, "q: expected alternatives as aliases, found all_required"),
    ],
)
def test_what_a_record_cannot_hold_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        reading_record(dataclasses.replace(EXAMPLE, **changes))
