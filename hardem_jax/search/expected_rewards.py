"""Objectives that search and raise the expected reward, under P'(z | x)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from hardem_jax.search.protocol import Memory, Metrics, check, measure, nothing

if TYPE_CHECKING:
    from jax import Array

    from hardem_jax.search.candidates import Space


@dataclasses.dataclass(frozen=True)
class Reinforce:
    r"""REINFORCE (Williams, 1992): minus the expected reward, :math:`-E_{z \sim P'}[R(z)]`.

    .. math:: \nabla = -\frac{1}{K} \sum_{k=1}^{K} (R(z_k) - b_k) \nabla \log P'(z_k \mid x)

    is unbiased. The loss has this gradient; its value means nothing. The baseline b is the mean
    reward of the other samples (Kool et al., 2019), which keeps the estimate unbiased, or 0. Under
    either, a question whose samples have no reward contributes no gradient. The mean is over all
    questions.

    Example:
        >>> Reinforce(samples=8)
        Reinforce(samples=8, baseline='leave-one-out')
    """

    title: ClassVar[str] = "REINFORCE"
    learns_reward: ClassVar[bool] = False

    samples: int = 16
    """K."""
    baseline: Literal["leave-one-out", "none"] = "leave-one-out"
    """What is subtracted from rewards."""

    def __post_init__(self) -> None:
        check(self, at_least=1)
        if self.baseline not in ("leave-one-out", "none"):
            raise ValueError(f"Reinforce: no baseline {self.baseline!r}")
        if self.baseline == "leave-one-out" and self.samples < 2:
            raise ValueError("Reinforce: a leave-one-out baseline needs at least 2 samples, got 1")

    def remembers(self, width: int) -> dict[str, np.ndarray]:
        del width
        return {}

    def __call__(
        self, space: Space, memory: Memory, *, step: Array | int, key: Array, rows: Array
    ) -> tuple[Array, Metrics, Memory]:
        import jax.numpy as jnp

        from hardem_jax import sampled
        from hardem_jax.search import candidates

        del step
        drawn = space.sample(key, self.samples)
        rewards = space.reward(drawn, rows[:, None] & candidates.exist(drawn))
        log_policy, _ = _log_policy(space, drawn, rows)
        if self.baseline == "leave-one-out":
            values = sampled.reinforce_loss(log_policy, rewards, reduce_fn=None)
        else:
            values = sampled.advantage_loss(log_policy, rewards / self.samples, reduce_fn=None)
        metrics = measure(rows, jnp.any(rewards > 0, axis=-1), drawn, rewards, memory)
        return _mean(values, rows), metrics, memory


@dataclasses.dataclass(frozen=True)
class MAPO:
    r"""Memory-augmented policy optimisation (Liang et al., 2018): minus the expected reward.

    .. math:: \nabla = -w \sum_{z \in B} \frac{P'(z)}{P'(B)} \nabla \log P'(z)
        - (1 - w) E_{z \sim P', z \notin B}[R(z) \nabla \log P'(z)], \quad
        w = \max(P'(B), \alpha)

    The memory B holds solutions with a reward, so that its part is exact. The rest is estimated
    from K = ``samples`` drawn from P', of which those in B add 0:

    .. math:: -\frac{1 - w}{1 - P'(B)} \cdot \frac{1}{K}
        \sum_{k=1, z_k \notin B}^{K} R(z_k) \nabla \log P'(z_k)

    Given the memory, this is unbiased for the expression above, also if all samples are in B. With
    :math:`\alpha` = 0 that is the gradient of the expected reward. A larger :math:`\alpha` keeps
    what was found from being forgotten while the model is poor, and biases the gradient towards
    the memory wherever P'(B) is below it. Without a memory w is 0.

    In addition, every visit tries ``explore`` solutions that were never tried for this question
    (systematic exploration), drawn from P' without those seen: it draws four times as many samples
    and keeps the first unseen ones. They serve the memory, and hence later visits, but never enter
    the estimate, which uses its own samples, tried before or not.

    Example:
        >>> MAPO(alpha=0.5)
        MAPO(samples=16, explore=10, memory=10, alpha=0.5, seen=256)
    """

    title: ClassVar[str] = "MAPO"
    learns_reward: ClassVar[bool] = False

    samples: int = 16
    """Samples that estimate the part outside of the memory."""
    explore: int = 10
    """Solutions never tried before that are tried at each visit of a question; 0 for none."""
    memory: int = 10
    """Solutions that are remembered with each question, the most likely of those found."""
    alpha: float = 0.1
    """Least weight of the memory, in [0, 1)."""
    seen: int = 256
    """Solutions of a question that are known to have been tried; the oldest are forgotten."""

    def __post_init__(self) -> None:
        check(self, at_least=0)
        check(self, "samples", "memory", "seen", at_least=1)
        if not 0 <= self.alpha < 1:
            raise ValueError(f"{type(self).__name__}: alpha must be in [0, 1), got {self.alpha}")

    def remembers(self, width: int) -> dict[str, np.ndarray]:
        seen = np.zeros(self.seen, np.uint32)
        return {"solutions": nothing(self.memory, width), "seen": seen}

    def __call__(
        self, space: Space, memory: Memory, *, step: Array | int, key: Array, rows: Array
    ) -> tuple[Array, Metrics, Memory]:
        import jax
        import jax.numpy as jnp

        from hardem_jax.search import candidates

        known, seen = memory["solutions"], memory["seen"]
        draw, explore = jax.random.split(key)
        drawn = space.sample(draw, self.samples)
        new = [self._new(space, known, seen, explore)] if self.explore else []
        tried = jnp.concatenate([drawn, *new], axis=1)
        known_again = candidates.contains(known, tried)
        where = rows[:, None] & candidates.exist(tried) & ~known_again
        rewards = space.reward(tried, where)
        outside, own_rewards = where[:, : self.samples], rewards[:, : self.samples]
        values = self._loss(step, space, known, drawn, outside, own_rewards, rows)
        memory = {
            "solutions": self._remember(space, known, tried, where & (rewards > 0)),
            "seen": candidates.see(seen, tried, where),
        }
        own_rewards = jnp.where(known_again[:, : self.samples], 1.0, own_rewards)
        found = jnp.any(candidates.exist(memory["solutions"]), axis=-1)
        metrics = measure(rows, found, drawn, own_rewards, memory)
        return _mean(values, rows), metrics, memory

    def _new(self, space: Space, known: Array, seen: Array, key: Array) -> Array:
        """Samples that were not tried, ``[B, explore, W]``."""
        from hardem_jax.search import candidates

        drawn = space.sample(key, 4 * self.explore)
        # What is remembered was tried, even if it was so long ago that it is no longer among those
        # seen.
        tried = candidates.is_seen(seen, drawn) | candidates.contains(known, drawn)
        unseen = candidates.distinct(drawn, ~tried)
        return candidates.first(drawn, unseen, self.explore)

    def _remember(self, space: Space, known: Array, tried: Array, correct: Array) -> Array:
        import jax
        import jax.numpy as jnp

        from hardem_jax.search import candidates

        solutions = jnp.concatenate([known, tried], axis=1)
        correct = jnp.concatenate([candidates.exist(known), correct], axis=1)
        log_probs = jax.lax.stop_gradient(space.log_prob(solutions))
        where = candidates.distinct(solutions, correct)
        return candidates.best(solutions, log_probs, where, self.memory)

    def _loss(
        self,
        step: Array | int,
        space: Space,
        known: Array,
        drawn: Array,
        outside: Array,
        rewards: Array,
        rows: Array,
    ) -> Array:
        """``[B]``, the cost of each question."""
        import jax
        import jax.numpy as jnp

        from hardem_jax import posteriors

        del step
        log_probs, where = _log_policy(space, known, rows)
        fixed = jax.lax.stop_gradient(log_probs)
        mass = jnp.sum(jnp.exp(fixed), axis=-1, where=where)
        has_memory = jnp.any(where, axis=-1)
        weight = jnp.where(has_memory, jnp.clip(mass, self.alpha, 1.0), 0.0)
        inside = jnp.sum(posteriors.soft(fixed, where=where) * log_probs, axis=-1)
        # Divided by all K samples, not by those outside: if none is, the sum is 0 whatever it is
        # divided by, and the mean over those outside would be too small on average.
        log_policy, _ = _log_policy(space, drawn, rows)
        rewarded = jnp.sum(rewards * log_policy, axis=-1, where=outside)
        # (1 - w) / (1 - P'(B)) without a division by 0: it is 1 unless w is clipped.
        most = jnp.where(has_memory, 1.0 - self.alpha, 1.0)
        scale = most / jnp.maximum(1.0 - mass, most)
        return -weight * inside - scale * rewarded / self.samples


@dataclasses.dataclass(frozen=True)
class MAPOX(MAPO):
    r"""MAPO that begins as iterative ML (Agarwal et al., 2019).

    Iterative ML gives all solutions that were found the same weight, and so keeps the model spread
    over many of them: its ``warmup`` steps fill the memory that MAPO then starts from. As in MAPO,
    the likelihood is that of P', the mean is over all questions, and what was explored counts from
    the next visit on.

    Example:
        >>> MAPOX(warmup=500).alpha
        0.1
    """

    title: ClassVar[str] = "MAPOX"

    warmup: int = 1000
    """Steps of iterative ML."""

    def _loss(
        self,
        step: Array | int,
        space: Space,
        known: Array,
        drawn: Array,
        outside: Array,
        rewards: Array,
        rows: Array,
    ) -> Array:
        import jax.numpy as jnp

        from hardem_jax.search import candidates

        mapo = super()._loss(step, space, known, drawn, outside, rewards, rows)
        solutions = jnp.concatenate([known, drawn], axis=1)
        correct = jnp.concatenate([candidates.exist(known), outside & (rewards > 0)], axis=1)
        log_probs, possible = _log_policy(space, solutions, rows)
        where = candidates.distinct(solutions, correct) & possible
        spread = jnp.where(where, log_probs, 0.0)
        count = jnp.maximum(jnp.sum(where, axis=-1, dtype=jnp.float32), 1)
        return jnp.where(step < self.warmup, -jnp.sum(spread, axis=-1) / count, mapo)


def _log_policy(space: Space, solutions: Array, rows: Array) -> tuple[Array, Array]:
    """log P' of solutions and where they have one; 0 elsewhere, so that 0 times it is 0."""
    import jax.numpy as jnp

    from hardem_jax.search import candidates

    log_probs, mass = space.log_prob(solutions), space.log_mass()[:, None]
    # Not `isfinite`: NaN in a real row has to show.
    possible = (log_probs != -jnp.inf) & (mass != -jnp.inf)
    where = rows[:, None] & candidates.exist(solutions) & possible
    return jnp.where(where, log_probs - jnp.where(mass == -jnp.inf, 0.0, mass), 0.0), where


def _mean(values: Array, rows: Array) -> Array:
    import jax.numpy as jnp

    return jnp.sum(values, where=rows) / jnp.maximum(jnp.sum(rows, dtype=jnp.float32), 1)
