"""Quoref's metric: all spans are required, unlike SQuAD's alternatives."""

import pytest

from hardem_jax.documents.metrics import quoref


@pytest.mark.parametrize(
    ("prediction", "golds", "exact", "f1"),
    [
        ("Ada", ["Ada"], 1, 1), ("the Ada", ["Ada"], 1, 1), ("Ada", ["Ada", "Bo"], 0, 0.5),
        (["Bo", "Ada"], ["Ada", "Bo"], 1, 1), (["Ada", "Bo"], ["Ada"], 0, 0.5),
        ("Ada King", ["Ada", "Bo"], 0, 0.33),  # (2/3 + 0) / 2, rounded once, at the end
        ("Cyd", ["Ada", "Bo"], 0, 0), ("", ["Ada"], 0, 0), ("Ada", [" "], 0, 0),
    ],
)  # fmt: skip
def test_values(prediction, golds, exact, f1):
    assert quoref.exact_match(prediction, golds) == exact
    assert quoref.f1(prediction, golds) == f1
