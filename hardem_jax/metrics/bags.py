"""Exact match and F1 of sets of words, as in the official DROP evaluator (Dua et al., 2019)."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Sequence

import numpy as np

_DELETE_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_BLANK_OR_HYPHEN = re.compile("[ -]")


def normalize_answer(text: str) -> str:
    """Lower case, words between blanks and hyphens, numbers as floats, no articles."""
    words = (_normalize_word(word) for word in _BLANK_OR_HYPHEN.split(text.lower()))
    return " ".join(word for word in words if word)


def exact_match(prediction: str | Sequence[str], golds: Iterable[Sequence[str]]) -> float:
    """1.0 if the normalised texts of the prediction equal those of any gold, else 0.0. A gold whose
    first text is blank is skipped."""
    spans = _normalized(prediction)
    return max((_same(spans, _normalized(gold)) for gold in _counted(golds)), default=0.0)


def f1(prediction: str | Sequence[str], golds: Iterable[Sequence[str]]) -> float:
    """F1 in [0, 1] of sets of normalised words, rounded to two decimals; the best over `golds`."""
    spans = _normalized(prediction)
    return max((_aligned_f1(spans, _normalized(gold)) for gold in _counted(golds)), default=0.0)


def _counted(golds: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    return [gold for gold in golds if gold and gold[0].strip()]


def _normalized(spans: str | Sequence[str]) -> list[str]:
    return [normalize_answer(span) for span in ([spans] if isinstance(spans, str) else spans)]


def _same(spans: Sequence[str], gold: Sequence[str]) -> float:
    return float(set(spans) == set(gold) and len(spans) == len(gold))


def _normalize_word(word: str) -> str:
    if not _is_number(word):
        word = word.translate(_DELETE_PUNCTUATION)
    if _is_number(word):
        word = str(float(word))
    return " ".join(_ARTICLES.sub(" ", word).split())


def _is_number(word: str) -> bool:
    # The official definition is whatever Python's float accepts, including "nan" and "1_000".
    try:
        float(word)
    except ValueError:
        return False
    return True


def _aligned_f1(spans: Sequence[str], gold: Sequence[str]) -> float:
    """Mean F1 over spans under the best one-to-one assignment."""
    scores = np.array([[_bag_f1(set(s.split()), set(g.split())) for s in spans] for g in gold])
    paired = np.zeros(max(scores.shape))
    from scipy.optimize import linear_sum_assignment  # takes a second to import

    rows, columns = linear_sum_assignment(scores, maximize=True)
    paired[rows] = scores[rows, columns]
    # NumPy's rounding and mean, as in the official code: Python's differ in the last bit.
    return float(np.round(np.mean(paired), 2))


def _bag_f1(words: set[str], gold: set[str]) -> float:
    numbers = {word for word in gold if _is_number(word)}
    if numbers and not numbers & words:
        return 0.0
    shared = len(gold & words)
    precision = shared / len(words) if words else 1.0
    recall = shared / len(gold) if gold else 1.0
    if precision + recall == 0:
        return 0.0
    return (2 * precision * recall) / (precision + recall)
