"""What the answer-string metrics share: token F1, the best over golds, and the corpus mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from hardem_jax.errors import InputError

Metric = Callable[[str, Sequence[str]], float]
#: What `corpus_score` counts; all else that a metric's `score` returns is in percent.
COUNTS = ("questions", "missing", "unknown")


def token_f1(prediction: Sequence[str], gold: Sequence[str]) -> float:
    """F1 in [0, 1] between two bags of tokens; 0 when they share none, so also when one is empty.

    Example:
        >>> token_f1(["new", "york", "city"], ["new", "york"])
        0.8
    """
    shared = (Counter(prediction) & Counter(gold)).total()
    if shared == 0:
        return 0.0
    precision = shared / len(prediction)
    recall = shared / len(gold)
    return (2 * precision * recall) / (precision + recall)


def best_over_golds(
    metric: Callable[[str, str], float], prediction: str, golds: Sequence[str]
) -> float:
    """Maximum of `metric(prediction, gold)` over `golds`; 0.0 when there is no gold.

    Raises:
        TypeError: `golds` is one string, whose letters would silently pass for golds.

    Example:
        >>> best_over_golds(lambda a, b: float(a == b), "1984", ["1983", "1984"])
        1.0
    """
    if isinstance(golds, str):
        raise TypeError(f"golds must be a sequence of strings, found the one string {golds!r}")
    return max((float(metric(prediction, gold)) for gold in golds), default=0.0)


def corpus_score(
    exact_match: Metric,
    f1: Metric,
    predictions: Mapping[str, str],
    golds: Mapping[str, Sequence[str]],
) -> dict[str, float | int]:
    """Mean `exact_match` and `f1` in percent over every question of `golds`.

    The denominator is always the number of questions in `golds`: a question
    without a prediction scores 0 and is counted under `missing`. Predictions for
    other questions change no score and are counted under `unknown`.

    Returns:
        `em` and `f1` in percent; `questions`, `missing` and `unknown` as counts.

    Raises:
        InputError: `golds` is empty, so that there is no mean to report.
    """
    if not golds:
        raise InputError(
            "no questions to score: expected at least one question with golds, found 0"
        )
    answered = [key for key in golds if key in predictions]
    percent = 100.0 / len(golds)
    return {
        "em": percent * sum(exact_match(predictions[key], golds[key]) for key in answered),
        "f1": percent * sum(f1(predictions[key], golds[key]) for key in answered),
        "questions": len(golds),
        "missing": len(golds) - len(answered),
        "unknown": len(predictions) - len(answered),
    }
