"""Quoref's metric: all spans are required, unlike SQuAD's alternatives."""

import pytest

from hardem_jax.documents.metrics import quoref


@pytest.mark.parametrize(
    ("prediction", "golds", "exact", "f1"),
    [
        ("Ada", ["Ada"], 1, 1),
        ("the Ada", ["Ada"], 1, 1),
        ("Ada", ["Ada", "Bo"], 0, 0.5),
        (["Bo", "Ada"], ["Ada", "Bo"], 1, 1),
        (["Ada", "Bo"], ["Ada"], 0, 0.5),
        ("Ada King", ["Ada", "Bo"], 0, 0.33),  # (2/3 + 0) / 2, rounded once, at the end
        ("Cyd", ["Ada", "Bo"], 0, 0),
        ("", ["Ada"], 0, 0),
        ("Ada", [" "], 0, 0),
    ],
)
def test_values(prediction, golds, exact, f1):
    assert quoref.exact_match(prediction, golds) == exact
    assert quoref.f1(prediction, golds) == f1


def test_all_questions_count():
    golds = {"q1": ["Ada", "Bo"], "q2": ["Eve"], "q3": ["Gus"]}
    scores = quoref.score({"q1": "Bo", "q2": "Eve", "q9": "?"}, golds)
    expected = {"em": 100 / 3, "f1": 50, "questions": 3, "missing": 1, "unknown": 1}
    assert scores == pytest.approx(expected)
