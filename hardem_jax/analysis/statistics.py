"""Intervals and paired tests of scores that several runs have on the same questions.

Scores are ``[S, N]``: run s, with a seed of its own, answers question n. Seeds and questions are
both samples, and both are resampled, independently of each other: the pigeonhole bootstrap (Owen,
2007, "The pigeonhole bootstrap", Annals of Applied Statistics 1). A plain bootstrap of S seeds has
(S - 1) / S of the variance between them, so their weights are rescaled (Rao and Wu, 1988,
"Resampling inference with complex survey data", JASA 83).

What intervals of 95 % cover depends on the standard error that is due to seeds, as a multiple of
the one due to questions: with three seeds, in 2,000 normal samples of 200 questions with as much
variance again in single answers, 97.9 % at 0, 95.0 at 1, 90.6 at 2, and 79.3 if all is due to
seeds (with two seeds 59.1, with five 86.7). So a difference between objectives whose runs vary much
needs more seeds, not more questions. Where they vary little, intervals are somewhat too wide:
resampling seeds, questions and both counts the variance in single answers up to three times.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

# Counts of questions held at once, 8 bytes each, whatever the numbers of resamples and questions.
_MAX_COUNTS = 2**21


class Interval(NamedTuple):
    """A mean score and the interval that holds the expected one, in the unit of the scores."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.1f} [{self.low:.1f}, {self.high:.1f}]"


class Difference(NamedTuple):
    """A mean difference, the interval that holds the expected one, and the p-value of none."""

    mean: float
    low: float
    high: float
    p: float

    def __str__(self) -> str:
        return f"{self.mean:+.1f} [{self.low:.1f}, {self.high:.1f}]"


def interval(
    scores: ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Percentile bootstrap interval of the mean of ``[S, N]`` scores over questions and seeds.

    With a single seed only questions are resampled: the interval then holds for that one run, not
    for the objective it was trained with. With few seeds that differ much, it may reach beyond the
    range of the scores; if all scores are equal, it has no width, however few they are. Raises
    ValueError if scores are not ``[S, N]``, empty or not finite, or an option is out of range.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> print(interval(100 * (rng.random((3, 1000)) < 0.7)))
        70.0 [66.9, 73.2]
    """
    found = _checked("scores", scores)
    return _interval(found, _resampled_means(found, resamples, seed), level)


def difference(
    a: ArrayLike, b: ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Difference:
    """Mean of ``a - b``, paired by seed and question: its `interval`, and a two-sided test.

    p is the share of bootstrap samples whose distance from the mean is at least that of 0, counting
    the observed sample as one of them; so it is at least ``1 / (resamples + 1)``. If only n
    questions differ, it is at least ``2 ** (1 - n)``, as that of a sign test.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> right = rng.random((3, 1000)) < 0.7
        >>> better = right | (rng.random((3, 1000)) < 0.1)
        >>> found = difference(100 * better, 100 * right)
        >>> found.low > 0, found.p < 0.01
        (True, True)
    """
    first, second = _checked("a", a), _checked("b", b)
    if first.shape != second.shape:
        raise ValueError(f"b: expected the shape of a, {first.shape}, found {second.shape}")
    means = _resampled_means(first - second, resamples, seed)
    mean, low, high = _interval(first - second, means, level)
    # Of few questions many samples tie with the mean; rounding must not decide which count.
    far = np.abs(means - mean) >= (1 - 1e-9) * abs(mean)
    least = min(1.0, 2.0 ** (1 - int((first != second).any(axis=0).sum())))
    return Difference(mean, low, high, max(least, (1 + int(far.sum())) / (resamples + 1)))


def _checked(name: str, scores: ArrayLike) -> np.ndarray:
    found = np.asarray(scores, np.float64)
    if found.ndim != 2 or not found.size:
        raise ValueError(f"{name}: expected seeds x questions, found shape {found.shape}")
    if not np.isfinite(found).all():
        raise ValueError(f"{name}: expected finite scores, found NaN or infinity")
    return found


def _interval(scores: np.ndarray, means: np.ndarray, level: float) -> Interval:
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, found {level}")
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    # From the same origin as the samples, see `_resampled_means`.
    return Interval(float(scores[0, 0] + np.mean(scores - scores[0, 0])), float(low), float(high))


def _resampled_means(scores: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """``[resamples]`` means of scores over resampled seeds and questions."""
    if resamples < 1:
        raise ValueError(f"resamples: expected at least 1, found {resamples}")
    rng = np.random.default_rng(seed)
    num_seeds, num_questions = scores.shape
    # Relative to one of them, scores that are all equal have means that are exactly equal.
    origin = scores[0, 0]
    offsets = (scores - origin).T
    means = np.empty(resamples)
    rows = max(1, _MAX_COUNTS // num_questions)
    for first in range(0, resamples, rows):
        count = min(rows, resamples - first)
        of_runs = _counts(rng, count, num_questions) @ offsets / num_questions
        weights = np.ones((count, 1))
        if num_seeds > 1:
            scale = np.sqrt(num_seeds / (num_seeds - 1))
            weights = 1 + scale * (_counts(rng, count, num_seeds) - 1)
        means[first : first + count] = np.mean(weights * of_runs, axis=1)
    return origin + means


def _counts(rng: np.random.Generator, rows: int, size: int) -> np.ndarray:
    """``[rows, size]`` float64: how often each of ``size`` things comes up in as many draws."""
    drawn = rng.integers(size, size=(rows, size)) + size * np.arange(rows)[:, None]
    return np.bincount(drawn.ravel(), minlength=rows * size).reshape(rows, size).astype(np.float64)
