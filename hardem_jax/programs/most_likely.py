"""Programs in the order of their probability, found one after the other on the host."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterator

import numpy as np

from hardem_jax.programs.distribution import SLOTS


@dataclasses.dataclass(frozen=True)
class ProgramScores:
    """The tables of a `ProgramDistribution` for one question, as NumPy arrays."""

    shape: np.ndarray
    select: np.ndarray
    modify: np.ndarray
    link1: np.ndarray
    link2: np.ndarray
    kinds: tuple[tuple[int, int, int, int], ...]

    def best_first(self) -> Iterator[tuple[tuple[int, ...], float]]:
        """Every combination of slots that has mass, as a program's row, and its log P(z | x). The
        most likely one comes first; ties go to the earlier shape. A combination costs a few
        operations on a heap, so one can look for the first that meets a condition."""
        ordered: dict[tuple[int, int], tuple[list[int], list[float]]] = {}
        for place, name in enumerate(SLOTS):
            for kind, values in enumerate(getattr(self, name)):
                order = np.argsort(-values, kind="stable")
                order = order[np.isfinite(values[order])]
                ordered[place, kind] = order.tolist(), values[order].astype(np.float64).tolist()
        heap: list[tuple[float, int, tuple[int, ...]]] = []
        shapes = self.shape.astype(np.float64).tolist()
        tables = [
            [ordered[slot] if slot[1] >= 0 else ([-1], [0.0]) for slot in enumerate(kinds)]
            for kinds in self.kinds
        ]

        def push(shape: int, ranks: tuple[int, ...]) -> None:
            score = shapes[shape]
            for (_, values), rank in zip(tables[shape], ranks, strict=True):
                if rank == len(values):
                    return
                score += values[rank]
            heapq.heappush(heap, (-score, shape, ranks))

        for shape in np.flatnonzero(np.isfinite(self.shape)).tolist():
            push(shape, (0,) * len(SLOTS))
        while heap:
            score, shape, ranks = heapq.heappop(heap)
            entries = (table[0][rank] for table, rank in zip(tables[shape], ranks, strict=True))
            yield (shape, *entries), -score
            # Advance only from the last slot not at its best, so that each is reached once.
            last = max((place for place, rank in enumerate(ranks) if rank), default=0)
            for place in range(last, len(SLOTS)):
                push(shape, (*ranks[:place], ranks[place] + 1, *ranks[place + 1 :]))
