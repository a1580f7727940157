"""A second signal beside the answer: do solutions agree on tables they were not made for?

All of Z give the answer on the question's own table. On a perturbed table spurious solutions go
their own ways, while those that mean the same still agree. Lee, Kim and Jung (EMNLP 2023) filter
programs by the majority of their results on perturbed tables. Here Z is complete, so that the
majority is exact; `agreement` is a weight for `losses.mml_loss(log_weights=...)`, or a filter.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Literal

import numpy as np

from hardem_jax.solutions.arguments import check_choice
from hardem_jax.solutions.sql.types import Table

Perturbation = Literal["permute", "resample", "rows"]


def perturbed(table: Table, how: Perturbation, rng: np.random.Generator) -> Table:
    """A table of the same size and types with other contents.

    Args:
        table: has at least one row, or is returned unchanged.
        how: "permute" shuffles each column on its own; "resample" draws each cell anew from its
            column; "rows" draws whole rows, with replacement.
        rng: of the draws.

    Raises:
        InputError: there is no such perturbation.

    Example:
        >>> table = Table("1", ("city", "size"), ("text", "real"), (("oslo", 7.0), ("bonn", 3.0)))
        >>> perturbed(table, "permute", np.random.default_rng(3)).rows
        (('bonn', 7.0), ('oslo', 3.0))
    """
    check_choice(how, Perturbation, "how")
    count = len(table.rows)
    if not count:
        return table
    if how == "rows":
        rows = tuple(table.rows[place] for place in rng.integers(count, size=count))
        return dataclasses.replace(table, rows=rows)
    columns = []
    for column in zip(*table.rows, strict=True):
        order = rng.permutation(count) if how == "permute" else rng.integers(count, size=count)
        columns.append([column[place] for place in order])
    return dataclasses.replace(table, rows=tuple(zip(*columns, strict=True)))


def agreement(results: Sequence[Sequence[Hashable]]) -> np.ndarray:
    """How far each solution agrees with the others.

    Args:
        results: for each perturbed table, the results of all solutions, in the order of Z.

    Returns:
        ``[Z]`` float64 in (0, 1]: the share of the solutions, itself included, that have the same
        result; mean over tables.

    Example:
        >>> print(agreement([["oslo", "oslo", "bonn", None], ["oslo", "bonn", "bonn", "bonn"]]))
        [0.375 0.625 0.5   0.5  ]
    """
    shares = []
    for row in results:
        counts = Counter(row)
        shares.append([counts[result] / len(row) for result in row])
    return np.mean(shares, axis=0)
