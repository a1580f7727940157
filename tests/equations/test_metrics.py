"""DROP's metric: literal tables, edge cases, and the official evaluator's own answers."""

import json

import numpy as np
import pytest

from hardem_jax.equations import metrics as drop
from hardem_jax.metrics import bags
from tests.tiny import drop_answer as number


def spans(*texts):
    return number(spans=texts)


def date(day="", month="", year=""):
    return number("") | {"date": {"day": day, "month": month, "year": year}}


NOTHING = number("")


def f1_of(shared, predicted, gold):
    precision, recall = shared / predicted, shared / gold
    return np.round(2 * precision * recall / (precision + recall), 2)


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("1,000", "1000.0"), ("$5", "5.0"), ("-0.5", "0.5"), ("007", "7.0"), ("93.6.0", "9360.0"),
        ("The Spider-Man's  web.", "spider mans web"), ("1e3", "1000.0"),
        ("tab\t7", "tab 7"),  # only blanks and hyphens separate words
        ("O’Brien", "o’brien"), ("", ""),
    ],
)  # fmt: skip
def test_normalize_answer(text, normalised):
    assert bags.normalize_answer(text) == normalised


ANSWERS = [(number("3") | {"spans": ["x"]}, ("3",)), (spans("a", "b"), ("a", "b"))]
ANSWERS += [(date("3", "May"), ("3 May ",)), (NOTHING, ("  ",)), ({"number": 7}, ("7",)), ({}, ())]


@pytest.mark.parametrize(("answer", "texts"), ANSWERS)
def test_answer_texts(answer, texts):
    assert drop.answer_texts(answer) == texts


@pytest.mark.parametrize(
    ("prediction", "golds", "em", "f1"),
    [
        ("3", [number("3")], 1, 1), ("3 yards", [number("3")], 0, f1_of(1, 2, 1)),
        ("2 field goals", [spans("3 field goals")], 0, 0),  # no number in common
        ("3 goals", [spans("3 field goals")], 0, f1_of(2, 2, 3)),
        ("goal goal", [spans("goal")], 0, 1),  # sets of words
        (["b", "a"], [spans("a", "b")], 1, 1),
        (["big one", "b two"], [spans("two", "one")], 0, f1_of(1, 2, 1)),
        (["x", "y", "z"], [spans("x")], 0, 0.33), ([], [spans("x")], 0, 0),
        ("5 may 1990", [date("5", "May", "1990")], 1, 1),
        ("", [NOTHING], 0, 0),  # a blank gold is passed over
        ("", [spans("the")], 1, 1),  # ... one that normalises to nothing is not
        ("x", [{}], 0, 0), ("x", [], 0, 0),
    ],
)  # fmt: skip
def test_scores(prediction, golds, em, f1):
    assert drop.exact_match(prediction, golds) == em
    assert drop.f1(prediction, golds) == f1
    assert type(drop.exact_match(prediction, golds)) is type(drop.f1(prediction, golds)) is float


def test_spans_are_assigned_in_the_best_way():
    # Taking the best pair first, "p q" with "p q r" (0.8), would leave "q r" with "p" (0). The
    # other way round "q r" has 0.8 with "p q r", and "p q" 2/3 with "p".
    best = (0.8 + 2 / 3) / 2
    assert drop.f1(["p q", "q r"], [spans("p q r", "p")]) == np.round(best, 2)
    assert drop.f1(["q r", "p q"], [spans("p q r", "p")]) == np.round(best, 2)


@pytest.mark.parametrize("metric", [drop.exact_match, drop.f1])
@pytest.mark.parametrize("golds", ["3", "", number("3"), {}, ["3"]])
def test_golds_are_a_sequence_of_answers(metric, golds):
    with pytest.raises(TypeError, match="golds must be a sequence of answers"):
        metric("3", golds)


def test_score_divides_by_all_questions():
    golds = {"hit": [number("3")], "half": [spans("New York")], "missing": [number("4")]}
    predictions = {"hit": "3", "half": "York", "elsewhere": "y"}
    assert drop.score(predictions, golds) == {
        "em": pytest.approx(100 * 1 / 3),
        "f1": pytest.approx(100 * (1 + f1_of(1, 1, 2)) / 3),
        "questions": 3,
        "missing": 1,
        "unknown": 1,
    }


def test_equals_the_official_evaluator(shared_dir):
    lines = (shared_dir / "vectors/drop_em_f1.jsonl").read_text(encoding="utf-8").splitlines()
    vectors = [json.loads(line) for line in lines]
    assert len(vectors) == 2000
    found = [
        (drop.exact_match(v["prediction"], v["answers"]), drop.f1(v["prediction"], v["answers"]))
        for v in vectors
    ]
    assert found == [(v["em"], v["f1"]) for v in vectors]  # to the last bit
