"""NQ-open's exact match, against its definition."""

import pytest

from hardem_jax.documents.metrics import nq_open, squad

GOLDS = ["São Paulo", "Beyonce\u0301"]


@pytest.mark.parametrize(
    ("prediction", "correct"),
    [
        ("the Sa\u0303o Paulo.", True),
        ("Beyonc\u00e9", True),
        ("Beyonce", False),
        ("Sao Paulo", False),
    ],
)
def test_composition_does_not_matter_and_accents_do(prediction, correct):
    assert nq_open.exact_match(prediction, GOLDS) == correct
    assert nq_open.f1(prediction, GOLDS) == 1 if correct else nq_open.f1(prediction, GOLDS) < 1


def test_without_accents_it_is_squads():
    scores = {"a": "the Eiffel-Tower", "b": "New York"}, {"a": ["Eiffeltower"], "b": ["York"]}
    assert nq_open.score(*scores) == squad.score(*scores)
