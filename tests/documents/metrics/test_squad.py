"""SQuAD's metric: literal tables, edge cases, and the official evaluator's own answers."""

import json

import pytest

from hardem_jax.documents.metrics import squad


def f1_of(shared, predicted, gold):
    precision, recall = shared / predicted, shared / gold
    return 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("A.C. Clarke", "ac clarke"),
        ("spider-man", "spiderman"),
        ("snake_case", "snakecase"),
        ("O’Brien", "o’brien"),
        ("`tis", "tis"),
        ("  The\tAnswer\n is  an apple, a pear ", "answer is apple pear"),
        ("Another theme", "another theme"),  # articles only as whole words
        ("THE BEYONCÉ–Ära", "beyoncé–ära"),  # only ASCII punctuation
        ("the", ""),
        ("", ""),
        ("!?", ""),
    ],
)
def test_normalize_answer(text, normalised):
    assert squad.normalize_answer(text) == normalised


@pytest.mark.parametrize(
    ("prediction", "golds", "em", "f1"),
    [
        ("the Eiffel Tower!", ["Eiffel tower"], 1, 1),
        ("Eiffel", ["Eiffel tower", "Louvre"], 0, f1_of(1, 1, 2)),
        ("in New York City", ["New York", "New York City, NY"], 0, f1_of(3, 4, 4)),
        ("to be or not to be", ["to be"], 0, f1_of(2, 6, 2)),  # a gold token is used up once
        ("tower eiffel", ["Eiffel tower"], 0, 1),  # F1 knows no order
        ("Louvre", ["Eiffel tower"], 0, 0),
        ("", ["Eiffel tower"], 0, 0),
        ("", ["the"], 1, 0),  # both normalise to nothing: equal, yet no token is shared
        ("Eiffel", [], 0, 0),
        ("", [], 0, 0),
    ],
)
def test_scores(prediction, golds, em, f1):
    assert squad.exact_match(prediction, golds) == em
    assert squad.f1(prediction, golds) == f1
    assert type(squad.exact_match(prediction, golds)) is type(squad.f1(prediction, golds)) is float


def test_score_divides_by_all_questions():
    golds = {"hit": ["Rome"], "half": ["New York"], "missing": ["Paris"], "no gold": []}
    golds |= {"second hit": ["Oslo"]}
    predictions = {"hit": "Rome.", "half": "York", "no gold": "x", "elsewhere": "y"}
    predictions |= {"second hit": "oslo"}
    assert squad.score(predictions, golds) == {
        "em": 100 * 2 / 5,
        "f1": pytest.approx(100 * (2 + f1_of(1, 1, 2)) / 5),
        "questions": 5,
        "missing": 1,
        "unknown": 1,
    }


def test_equals_the_official_evaluator(shared_dir):
    lines = (shared_dir / "vectors/squad_em_f1.jsonl").read_text(encoding="utf-8").splitlines()
    vectors = [json.loads(line) for line in lines]
    assert len(vectors) == 1500
    found = [
        (squad.exact_match(v["prediction"], v["golds"]), squad.f1(v["prediction"], v["golds"]))
        for v in vectors
    ]
    assert found == [(v["em"], v["f1"]) for v in vectors]  # to the last bit
