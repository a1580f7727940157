"""SQuAD 2.0's metric: questions without an answer, thresholds, and the official evaluator."""

import json

import numpy as np
import pytest

from hardem_jax.documents.metrics import squad2
from tests import official_scripts


@pytest.mark.parametrize(
    ("prediction", "golds", "exact", "f1"),
    [
        ("", [""], 1, 1), ("", [], 1, 1),
        ("the", [""], 1, 1),  # nothing but an article
        ("Rome", [""], 0, 0), ("", ["Rome"], 0, 0), ("the Rome!", ["Oslo", "Rome"], 1, 1),
        ("in Rome", ["Rome"], 0, 2 / 3),
        ("", ["the", "Rome"], 0, 0),  # a gold without words is passed over
        ("a", ["the"], 1, 1),  # unless there is no other
    ],
)  # fmt: skip
def test_values(prediction, golds, exact, f1):
    assert squad2.exact_match(prediction, golds) == exact
    assert squad2.f1(prediction, golds) == pytest.approx(f1)


def test_scores_of_both_kinds_of_questions():
    golds = {"a": ["Rome"], "b": ["New York"], "c": [""], "d": [""], "left out": []}
    predictions = {"a": "Rome", "b": "York", "c": "", "d": "Oslo", "elsewhere": "x"}
    assert squad2.score(predictions, golds) == pytest.approx(
        {
            **{"exact": 40, "f1": 100 * (2 + 2 / 3) / 5},
            **{"HasAns_exact": 50, "HasAns_f1": 100 * (1 + 2 / 3) / 2},
            **{"NoAns_exact": 50, "NoAns_f1": 50},  # whether "left out" had one is not known
            **{"questions": 5, "missing": 1, "unknown": 1},
        }
    )
    assert "NoAns_exact" not in squad2.score({}, {"a": ["Rome"]})
    assert "HasAns_exact" not in squad2.score({}, {"a": [""]})


def cases(seed, count=40):
    """Golds, best texts and chances of generated questions; no two chances are alike."""
    rng = np.random.default_rng(seed)
    texts = ["Rome", "New York", "York", "the", ""]
    golds = {
        f"q{i}": [texts[rng.integers(3)]] if rng.random() < 0.5 else [""] for i in range(count)
    }
    predictions = {id: texts[rng.choice(5, p=[0.3, 0.3, 0.3, 0.05, 0.05])] for id in golds}
    return golds, predictions, dict(zip(golds, rng.permutation(count) / count + 0.001, strict=True))


def answered(predictions, chances, threshold):
    return {id: "" if chances[id] > threshold else text for id, text in predictions.items()}


@pytest.mark.parametrize("seed", range(4))
def test_the_best_threshold_is_the_best_of_all(seed):
    golds, predictions, chances = cases(seed)
    # A prediction without words counts as one in the official search, though it is right.
    predictions = {id: text if text != "the" else "" for id, text in predictions.items()}
    found = squad2.best_thresholds(predictions, golds, chances)
    for name in ("exact", "f1"):
        by_threshold = {
            threshold: squad2.score(answered(predictions, chances, threshold), golds)[name]
            for threshold in (0.0, *chances.values())
        }
        assert found[f"best_{name}"] == pytest.approx(max(by_threshold.values()))
        assert by_threshold[found[f"best_{name}_thresh"]] == pytest.approx(found[f"best_{name}"])


@pytest.mark.parametrize("threshold", [0.0, 0.4, 1.0])
def test_equals_the_official_evaluator(tmp_path, threshold):
    golds, predictions, chances = cases(7)
    chances = {id: round(chance, 1) for id, chance in chances.items()}  # many are alike
    questions = [
        {"id": id, "answers": [{"text": text} for text in texts if text]}
        for id, texts in golds.items()
    ]
    files = [tmp_path / name for name in ("gold.json", "predictions.json", "chances.json")]
    gold = {"data": [{"paragraphs": [{"qas": questions}]}]}
    for file, content in zip(files, (gold, predictions, chances), strict=True):
        file.write_text(json.dumps(content))
    official = official_scripts.squad2(*files, threshold)
    ours = squad2.score(answered(predictions, chances, threshold), golds)
    ours |= squad2.best_thresholds(predictions, golds, chances)
    counts = {"questions": "total", "missing": None, "unknown": None}
    for name, value in ours.items():
        if name not in counts:
            assert value == pytest.approx(official[name]), name
    assert ours["questions"] == official["total"]
