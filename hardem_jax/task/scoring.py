"""Scores broken down by the size of Z, and means in percent."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

#: The paper's measure of sparsity is the share of Z below these probabilities (appendix C).
SPARSITY_THRESHOLDS = (1e-3, 1e-4)


def size_group(size: int, bounds: Sequence[int]) -> str:
    """Which group of |Z| a question is in (the paper's figure 2): "0", "1", "2-4", "5+"."""
    low = 0
    for high in bounds:
        if size <= high:
            return f"{high}" if low >= high else f"{low}-{high}"
        low = high + 1
    return f"{low}+"


def names_by_size(measure: str, bounds: Sequence[int]) -> list[str]:
    """The names of a score by |Z|.

    Example:
        >>> names_by_size("em", (0, 1, 4))
        ['em |Z|=0', 'em |Z|=1', 'em |Z|=2-4', 'em |Z|=5+']
    """
    return [f"{measure} |Z|={size_group(size, bounds)}" for size in (*bounds, max(bounds) + 1)]


def count_by_size(names: Iterable[str], sizes: Sequence[int]) -> dict[str, int]:
    """How many questions the scores by |Z| are means over.

    Example:
        >>> count_by_size(["em", "em |Z|=0-1", "em |Z|=2+"], [0, 1, 1, 7])
        {'em |Z|=0-1': 3, 'em |Z|=2+': 1}
    """
    counts = {}
    for name in names:
        _, by_size, group = name.partition(" |Z|=")
        if by_size:
            low, _, high = group.removesuffix("+").partition("-")
            last = math.inf if group.endswith("+") else int(high or low)
            counts[name] = sum(int(low) <= size <= last for size in sizes)
    return counts


def of_all_questions(outcomes: Mapping[str, Sequence[Any]], left_out: int) -> dict[str, np.ndarray]:
    """Outcomes, 0 to 1, of the questions read, then 0 for those left out; in percent, ``[N]``."""
    return {
        name: 100 * np.array([*found, *[0] * left_out], np.float64)
        for name, found in outcomes.items()
    }


def percentages(
    groups: Mapping[str, Sequence[Any]],
    by_question: Mapping[str, np.ndarray],
    *,
    measure: str,
    bounds: Sequence[int],
) -> dict[str, float]:
    """Means in percent: scores by name, then those of ``measure`` by |Z|, in ascending order.

    Outcomes in ``groups`` are from 0 to 1, scores in ``by_question`` in percent already.
    """
    means = {name: 100 * float(np.mean(outcomes)) for name, outcomes in groups.items() if outcomes}
    means |= {name: float(np.mean(scores)) for name, scores in by_question.items()}
    by_size = names_by_size(measure, bounds)
    order = [*sorted(name for name in means if name not in by_size), *by_size]
    return {name: means[name] for name in order if name in means}
