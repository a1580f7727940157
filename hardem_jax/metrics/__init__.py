"""Shared parts of the answer-string metrics: exact match, token F1, maximum over golds, mean."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from hardem_jax.errors import InputError

Metric = Callable[[str, Sequence[str]], float]
#: The counts in the result of `corpus_score`; all other values of a metric are in percent.
COUNTS = ("questions", "missing", "unknown")


def token_f1(prediction: Sequence[str], gold: Sequence[str]) -> float:
    """F1 in [0, 1] of two bags of tokens; 0 if they share none, for example if one is empty."""
    shared = (Counter(prediction) & Counter(gold)).total()
    if shared == 0:
        return 0.0
    precision = shared / len(prediction)
    recall = shared / len(gold)
    return (2 * precision * recall) / (precision + recall)


def best_over_golds(
    metric: Callable[[str, str], float], prediction: str, golds: Sequence[str]
) -> float:
    """Maximum of `metric(prediction, gold)` over `golds`; 0.0 without golds."""
    if isinstance(golds, str):
        raise TypeError(f"golds must be a sequence of strings, found the string {golds!r}")
    return max((float(metric(prediction, gold)) for gold in golds), default=0.0)


def check_golds(golds: Mapping[str, object]) -> None:
    """Raises InputError if there is no question to score."""
    if not golds:
        raise InputError("no questions to score: expected at least one with golds, found 0")


def corpus_score(
    exact_match: Metric,
    f1: Metric,
    predictions: Mapping[str, str],
    golds: Mapping[str, Sequence[str]],
) -> dict[str, float | int]:
    """Mean `exact_match` and `f1` in percent over every question of `golds`, and `COUNTS`. A
    question without a prediction scores 0 and counts as `missing`. Predictions for other questions
    change no score and count as `unknown`."""
    check_golds(golds)
    answered = [key for key in golds if key in predictions]
    percent = 100.0 / len(golds)
    return {
        "em": percent * sum(exact_match(predictions[key], golds[key]) for key in answered),
        "f1": percent * sum(f1(predictions[key], golds[key]) for key in answered),
        "questions": len(golds),
        "missing": len(golds) - len(answered),
        "unknown": len(predictions) - len(answered),
    }


@dataclasses.dataclass(frozen=True)
class StringMetrics:
    """Exact match and token F1 of normalised strings, as in SQuAD and TriviaQA.

    ``normalize`` maps a string to the form that is compared.

    Example:
        >>> metrics = StringMetrics(str.lower)
        >>> metrics.score({"q1": "1984", "q9": "?"}, {"q1": ["1984"], "q2": ["Rome"]})
        {'em': 50.0, 'f1': 50.0, 'questions': 2, 'missing': 1, 'unknown': 1}
    """

    normalize: Callable[[str], str]

    def exact_match(self, prediction: str, golds: Sequence[str]) -> float:
        """1.0 if the normalised prediction equals any normalised gold, else 0.0."""
        normalized = self.normalize(prediction)
        return best_over_golds(
            lambda _, gold: normalized == self.normalize(gold), prediction, golds
        )

    def f1(self, prediction: str, golds: Sequence[str]) -> float:
        """Token F1 in [0, 1] of the normalised strings, the maximum over `golds`."""
        tokens = self.normalize(prediction).split()
        return best_over_golds(
            lambda _, gold: token_f1(tokens, self.normalize(gold).split()), prediction, golds
        )

    def score(
        self, predictions: Mapping[str, str], golds: Mapping[str, Sequence[str]]
    ) -> dict[str, float | int]:
        """Scores of a data set over all questions of `golds`, both by id (see `corpus_score`)."""
        return corpus_score(self.exact_match, self.f1, predictions, golds)
