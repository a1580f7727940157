"""Training items of several windows that share one Z (see docs/reproducing.md).

The paper's released code reads every window separately, with a softmax and a Z for each. If they
are read together, the windows of a document or a question share one softmax and one Z (Clark and
Gardner, 2018; Cheng et al., 2020, whose H1, H2 and H3 are these three options). An item then has
G windows of one group and k sampled windows without a mention: G + k consecutive rows, so that the
loss can recover groups by reshaping.
"""

from typing import Any, Literal

import numpy as np

from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.batching.plans import PADDING, Plan

Scope = Literal["window", "document", "question"]


def group_ids(places: np.ndarray, scope: Scope) -> np.ndarray:
    """``[N]`` int, the group of each window, given ``places`` ``[N, 3]``: question, document,
    rank."""
    columns = {"window": [0, 2], "document": [0, 1], "question": [0]}[scope]
    return np.unique(places[:, columns], axis=0, return_inverse=True)[1].reshape(-1)


class GroupedPlan(Plan):
    """Items of up to G windows of one group, and ``config.negatives`` windows without a mention.

    Every epoch visits each group with a mention once. From a group with more than G windows it
    samples one with a mention and G - 1 others, again in every epoch; they stay in document order,
    which First-only depends on.
    """

    def __init__(
        self,
        sizes: np.ndarray,
        places: np.ndarray,
        config: BatchConfig,
        *,
        scope: Scope,
        group_size: int,
        **schedule: Any,
    ):
        groups = group_ids(places, scope)
        order = np.lexsort([places[:, 2], groups])
        members = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
        self._with_mention = sizes[:, 1] > 0
        self._members = [group for group in members if self._with_mention[group].any()]
        self._group_size = group_size
        super().__init__(sizes, len(self._members), config, **schedule)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        order = rng.permutation(len(self._members))
        rows = np.full((len(order), self._group_size), PADDING)
        for row, group in zip(rows, order, strict=True):
            chosen = self._choose(rng, self._members[group])
            row[: len(chosen)] = chosen
        return np.concatenate([rows, self.draw_negatives(rng, len(rows))], axis=1)

    def _choose(self, rng: np.random.Generator, members: np.ndarray) -> np.ndarray:
        if len(members) <= self._group_size:
            return members
        first = rng.choice(np.flatnonzero(self._with_mention[members]))
        others = np.delete(np.arange(len(members)), first)
        drawn = rng.choice(others, self._group_size - 1, replace=False)
        return members[np.sort(np.append(drawn, first))]
