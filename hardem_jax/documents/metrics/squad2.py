"""Exact match and F1 of the official SQuAD 2.0 evaluator (Rajpurkar et al., 2018).

Some questions have no answer, and "" is the only right prediction for them. Their golds are
``[""]``, or none at all. Strings are compared as in SQuAD 1.1
(`hardem_jax.documents.metrics.squad`), but for
the F1 of a text without words: 1 if both have none, else 0. Golds without words ("the") are passed
over, as in the official evaluator.

Example:
    >>> golds = {"q1": ["the Eiffel Tower"], "q2": [""]}
    >>> scores = score({"q1": "Eiffel", "q2": ""}, golds)
    >>> scores["exact"], scores["HasAns_exact"], scores["NoAns_exact"]
    (50.0, 0.0, 100.0)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hardem_jax.documents.metrics.squad import normalize_answer
from hardem_jax.metrics import best_over_golds, check_golds, corpus_score, token_f1


def exact_match(prediction: str, golds: Sequence[str]) -> float:
    """1.0 if the normalised prediction equals any normalised gold, else 0.0.

    Raises:
        TypeError: `golds` is a single string.

    Example:
        >>> exact_match("", [""]), exact_match("Rome", [""]), exact_match("", ["Rome"])
        (1.0, 0.0, 0.0)
    """
    return best_over_golds(_same, prediction, _with_words(golds))


def f1(prediction: str, golds: Sequence[str]) -> float:
    """Token F1 in [0, 1] of the normalised strings, the maximum over `golds`.

    Raises:
        TypeError: `golds` is a single string.

    Example:
        >>> f1("", [""]), f1("Rome", [""]), f1("in Rome", ["Rome"])
        (1.0, 0.0, 0.6666666666666666)
    """
    return best_over_golds(_f1, prediction, _with_words(golds))


def score(
    predictions: Mapping[str, str], golds: Mapping[str, Sequence[str]]
) -> dict[str, float | int]:
    """Scores of a data set over all questions of `golds`.

    Args:
        predictions: question id -> predicted answer text, "" where there is none.
        golds: question id -> accepted answers; ``[""]`` for none, nothing where that is not known.

    Returns:
        In percent, `exact` and `f1` of all questions, and where there are such questions
        `HasAns_exact` and `HasAns_f1` of those with an answer, `NoAns_exact` and `NoAns_f1` of
        those without; counts `questions`, `missing` (questions without a prediction, which score 0)
        and `unknown` (predictions for other questions).

    Raises:
        InputError: `golds` is empty.
        TypeError: the golds of a question are a single string.
    """
    whole = corpus_score(exact_match, f1, predictions, golds)
    scores = {"exact": whole.pop("em"), "f1": whole.pop("f1")}
    for prefix, wanted in (("HasAns", True), ("NoAns", False)):
        part = {id: own for id, own in golds.items() if own and has_answer(own) == wanted}
        if part:
            own = corpus_score(exact_match, f1, predictions, part)
            scores |= {f"{prefix}_exact": own["em"], f"{prefix}_f1": own["f1"]}
    return scores | whole


def best_thresholds(
    predictions: Mapping[str, str],
    golds: Mapping[str, Sequence[str]],
    no_answer: Mapping[str, float],
) -> dict[str, float]:
    """The best scores achievable with any threshold on P(no answer).

    Above its threshold, a question is predicted to have no answer; up to it, the prediction
    stands. As in the official evaluator, the best threshold may lie between questions of the same
    probability, where no threshold can.

    Args:
        predictions: question id -> best text, also where "" is more likely.
        golds: as for `score`.
        no_answer: question id -> P(no answer), for every prediction.

    Returns:
        `best_exact` and `best_f1` in percent, and the thresholds that lead to them,
        `best_exact_thresh` and `best_f1_thresh`, probabilities.

    Raises:
        InputError: `golds` is empty.

    Example:
        >>> texts, chances = {"q1": "Rome", "q2": "Oslo"}, {"q1": 0.6, "q2": 0.9}
        >>> best_thresholds(texts, {"q1": ["Rome"], "q2": [""]}, chances)["best_f1_thresh"]
        0.6
    """
    check_golds(golds)
    asked = [id for id in no_answer if id in golds and id in predictions]
    order = sorted(asked, key=lambda id: no_answer[id])
    silent = sum(not has_answer(golds[id]) for id in asked)
    percent = 100.0 / len(golds)
    found: dict[str, float] = {}
    metrics: dict[str, Callable[[str, Sequence[str]], float]] = {"exact": exact_match, "f1": f1}
    for name, metric in metrics.items():
        # What each prediction changes that is made instead of "".
        gains = [
            metric(predictions[id], golds[id])
            if has_answer(golds[id])
            else -float(bool(predictions[id]))
            for id in order
        ]
        totals = np.cumsum([silent, *gains])
        best = int(np.argmax(totals))
        found[f"best_{name}"] = percent * float(totals[best])
        found[f"best_{name}_thresh"] = float(no_answer[order[best - 1]]) if best else 0.0
    return found


def has_answer(golds: Sequence[str]) -> bool:
    """Whether a question with these golds has an answer."""
    return any(golds)


def _same(prediction: str, gold: str) -> float:
    return float(normalize_answer(prediction) == normalize_answer(gold))


def _f1(prediction: str, gold: str) -> float:
    predicted, expected = (normalize_answer(text).split() for text in (prediction, gold))
    if not predicted or not expected:
        return float(predicted == expected)
    return token_f1(predicted, expected)


def _with_words(golds: Sequence[str]) -> Sequence[str]:
    if isinstance(golds, str):
        raise TypeError(f"golds must be a sequence of strings, found the string {golds!r}")
    return [gold for gold in golds if normalize_answer(gold)] or [""]
