"""Exact match and F1 of the official Quoref evaluator (Dasigi et al., 2019).

DROP's metric on answers of one annotator: all their spans are required, where SQuAD's are
alternatives. F1 compares sets of words, span by span, so one of two required
spans has an F1 of 0.5, and an exact match of 0.

Edge case, as in the official evaluator: a question whose first gold is blank scores 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hardem_jax.metrics import bags, corpus_score


def exact_match(prediction: str | Sequence[str], golds: Sequence[str]) -> float:
    """1.0 if the normalised spans of the prediction equal all golds, else 0.0.

    Args:
        prediction: one text, or several spans.
        golds: the texts of all spans that are required.

    Raises:
        TypeError: `golds` is a single string.

    Example:
        >>> exact_match("The Joneses", ["Joneses"]), exact_match("Ada", ["Ada", "Bo"])
        (1.0, 0.0)
    """
    return bags.exact_match(prediction, _required(golds))


def f1(prediction: str | Sequence[str], golds: Sequence[str]) -> float:
    """F1 in [0, 1] under the best assignment of spans to golds, rounded to two decimals.

    Raises:
        TypeError: `golds` is a single string.

    Example:
        >>> f1("Ada", ["Ada", "Bo"]), f1(["Bo", "Ada"], ["Ada", "Bo"])
        (0.5, 1.0)
    """
    return bags.f1(prediction, _required(golds))


def score(
    predictions: Mapping[str, str | Sequence[str]], golds: Mapping[str, Sequence[str]]
) -> dict[str, float | int]:
    """Mean scores of a data set over all questions of `golds`.

    Args:
        predictions: question id -> predicted text, or texts of several spans.
        golds: question id -> the texts of all spans that are required.

    Returns:
        `em` and `f1` in percent; counts `questions`, `missing` (questions without a
        prediction, which score 0) and `unknown` (predictions for other questions).

    Raises:
        InputError: `golds` is empty.
        TypeError: the golds of a question are a single string.

    Example:
        >>> score({"q1": "Ada"}, {"q1": ["Ada", "Bo"], "q2": ["Eve"]})
        {'em': 0.0, 'f1': 25.0, 'questions': 2, 'missing': 1, 'unknown': 0}
    """
    for texts in golds.values():
        _required(texts)
    # `corpus_score` is annotated for one text, but only passes predictions to the metrics.
    score_corpus: Any = corpus_score
    return score_corpus(exact_match, f1, predictions, golds)


def _required(golds: Sequence[str]) -> list[Sequence[str]]:
    if isinstance(golds, str):
        raise TypeError(f"golds must be a sequence of strings, found the string {golds!r}")
    return [golds]
