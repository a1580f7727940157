"""Scores broken down by the size of Z, and means in percent."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

#: The paper's measure of sparsity is the share of Z below these probabilities (appendix C).
SPARSITY_THRESHOLDS = (1e-3, 1e-4)


def size_group(size: int, bounds: Sequence[int]) -> str:
    """Which group of |Z| a question is in (the paper's figure 3).

    Args:
        size: |Z|.
        bounds: the largest size of every group but the last, ascending.

    Example:
        >>> [size_group(size, (0, 1, 4)) for size in (0, 1, 3, 9)]
        ['0', '1', '2-4', '5+']
    """
    low = 0
    for high in bounds:
        if size <= high:
            return f"{high}" if low >= high else f"{low}-{high}"
        low = high + 1
    return f"{low}+"


def names_by_size(measure: str, bounds: Sequence[int]) -> list[str]:
    """The names of a score by |Z|, see `size_group`.

    Example:
        >>> names_by_size("em", (1,))
        ['em |Z|=0-1', 'em |Z|=2+']
    """
    return [f"{measure} |Z|={size_group(size, bounds)}" for size in (*bounds, max(bounds) + 1)]


def percentages(
    groups: Mapping[str, Sequence[Any]], *, measure: str, bounds: Sequence[int]
) -> dict[str, float]:
    """Means in percent: scores by name, then those of ``measure`` by |Z|, in ascending order.

    Args:
        groups: name -> outcome of every question; by size under ``"{measure} |Z|={group}"``.
        measure: the score that is broken down.
        bounds: see `size_group`.

    Example:
        >>> groups = {"em |Z|=2+": [1], "f1": [0.5, 1], "em |Z|=0-1": [0], "em": [0, 1]}
        >>> percentages(groups, measure="em", bounds=(1,))
        {'em': 50.0, 'f1': 75.0, 'em |Z|=0-1': 0.0, 'em |Z|=2+': 100.0}
    """
    by_size = names_by_size(measure, bounds)
    order = [*sorted(name for name in groups if name not in by_size), *by_size]
    return {name: 100 * float(np.mean(groups[name])) for name in order if groups.get(name)}
