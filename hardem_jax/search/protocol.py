"""What every objective that searches is called with, and what it reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from jax import Array

    from hardem_jax.search.candidates import Space

#: What is remembered of the questions of a batch, by name: ``[B, ...]``.
Memory = Mapping[str, "Array"]
#: Total and count of each mean.
Metrics = dict[str, tuple["Array", "Array"]]
#: Parts of a trained module that only the loss of an objective reads; what answers has none.
LOSS_ONLY = ("learned_reward",)


@runtime_checkable
class SearchObjective(Protocol):
    """The call that a training step makes instead of that of `hardem_jax.objectives.Objective`.

    Attributes:
        learns_reward: whether the model is trained with a reward, as `MERL` needs it.
    """

    learns_reward: ClassVar[bool]

    def remembers(self, width: int) -> dict[str, np.ndarray]:
        """What is remembered of a question at first, by name; empty if nothing is.

        Args:
            width: W, the integers of a solution.
        """
        ...

    def __call__(
        self, space: Space, memory: Memory, *, step: Array | int, key: Array, rows: Array
    ) -> tuple[Array, Metrics, Memory]:
        """Returns the loss of a batch, metrics of the step, and the memory after it.

        Args:
            space: distribution and reward of the batch.
            memory: of its questions, as in `remembers` with a leading axis B.
            step: number of the training step, from 0; traced.
            key: a PRNG key, fresh for every step.
            rows: ``[B]`` bool, real questions.

        Returns:
            The loss, float32. The metrics, a float32 total and a count each: ``found``, the share
            of questions with a rewarded candidate, now or in memory; ``reward``, the mean reward of
            the candidates; ``remembered``, solutions in memory per question; ``averaged``, the rows
            that the loss averages over. The memory, in the order of the rows; at rows that are not
            real, it is arbitrary.
        """
        ...


def nothing(count: int, width: int) -> np.ndarray:
    return np.full((count, width), -1, np.int32)


def measure(rows: Array, found: Array, tried: Array, rewards: Array, memory: Memory) -> Metrics:
    import jax.numpy as jnp

    from hardem_jax.search import candidates

    where, count = rows[:, None] & candidates.exist(tried), jnp.sum(rows)
    metrics = {
        "averaged": (count, jnp.ones(())),
        "found": (jnp.sum(found & rows), count),
        "reward": (jnp.sum(rewards, where=where), jnp.sum(where)),
    }
    if "solutions" in memory:
        kept = candidates.exist(memory["solutions"]) & rows[:, None]
        metrics["remembered"] = jnp.sum(kept), count
    return metrics
