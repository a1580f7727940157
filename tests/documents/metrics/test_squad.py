"""SQuAD's, TriviaQA's and NQ-open's metrics: tables, and the official evaluators' answers."""

import json

import pytest

from hardem_jax.documents.metrics import nq_open, squad, triviaqa


def f1_of(shared, predicted, gold):
    precision, recall = shared / predicted, shared / gold
    return 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize(
    ("text", "of_squad", "of_triviaqa"),
    [
        ("A.C. Clarke", "ac clarke", "c clarke"),  # a point leaves a lone "a", which is an article
        ("spider-man", "spiderman", "spider man"),
        ("snake_case", "snakecase", "snake case"),
        ("the_answer", "theanswer", "answer"),
        ("O’Brien ‘Neil´s", "o’brien ‘neil´s", "o brien neil s"),
        ("`tis", "tis", "tis"),
        ("“Quoted”", "“quoted”", "“quoted”"),
        ("THE BEYONCÉ–Ära", "beyoncé–ära", "beyoncé–ära"),  # only ASCII punctuation
        *(
            (text, form, form)
            for text, form in (
                ("  The\tAnswer\n is  an apple, a pear ", "answer is apple pear"),
                ("Another theme", "another theme"),  # articles only as whole words
                ("the", ""),
                ("!?", ""),
            )
        ),
    ],
)
def test_normalize_answer(text, of_squad, of_triviaqa):
    assert squad.normalize_answer(text) == of_squad
    assert triviaqa.normalize_answer(text) == of_triviaqa


@pytest.mark.parametrize("metric", [squad, triviaqa, nq_open])
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
    ],
)
def test_scores(metric, prediction, golds, em, f1):
    assert metric.exact_match(prediction, golds) == em
    assert metric.f1(prediction, golds) == f1
    assert (
        type(metric.exact_match(prediction, golds)) is type(metric.f1(prediction, golds)) is float
    )


@pytest.mark.parametrize(
    ("prediction", "correct"),
    [("the Sa\u0303o Paulo.", 1), ("Beyonc\u00e9", 1), ("Beyonce", 0), ("Sao Paulo", 0)],
)
def test_in_nq_open_composition_does_not_matter_and_accents_do(prediction, correct):
    golds = ["São Paulo", "Beyonce\u0301"]
    assert nq_open.exact_match(prediction, golds) == correct
    assert (nq_open.f1(prediction, golds) == 1) == correct


def test_score_divides_by_all_questions():
    golds = {"hit": ["Rome"], "half": ["New York"], "missing": ["Paris"], "no gold": []}
    predictions = {"hit": "Rome.", "half": "York", "no gold": "x", "elsewhere": "y"}
    assert squad.score(predictions, golds) == {
        "em": 25,
        "f1": pytest.approx(100 * (1 + f1_of(1, 1, 2)) / 4),
        "questions": 4,
        "missing": 1,
        "unknown": 1,
    }


@pytest.mark.parametrize(("name", "metric"), [("squad", squad), ("triviaqa", triviaqa)])
def test_equals_the_official_evaluator(shared_dir, name, metric):
    lines = (shared_dir / f"vectors/{name}_em_f1.jsonl").read_text(encoding="utf-8").splitlines()
    vectors = [json.loads(line) for line in lines]
    assert len(vectors) == 1500
    for v in vectors:  # to the last bit
        assert metric.exact_match(v["prediction"], v["golds"]) == v["em"]
        assert metric.f1(v["prediction"], v["golds"]) == v["f1"]
