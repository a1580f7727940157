r"""Objectives that search for solutions, from the work before Min et al. (2019): its Table 4.

Z is not given: candidates come from the model's own distribution, by exact beam search or by
sampling, an executor says which of them lead to the answer (R(z) = 1, else 0), and what was found
may be remembered with the question. They differ in where candidates come from and in what they make
of those with a reward:

====================  ==========================================================================
`Reinforce`           :math:`\nabla E_{z \sim P}[R(z)]`, from samples (Williams, 1992)
`IterativeML`         likelihood of all that was ever found (Liang et al., 2017)
`BeamMML`             :math:`-\log \sum_z P(z)` over those found (Berant et al., 2013)
`BeamHardEM`          :math:`-\log \max_z P(z)` over those found (Min et al., 2019)
`MAPO`                expected reward, exact on the memory, sampled outside (Liang et al., 2018)
`MAPOX`               iterative ML to fill the memory, then MAPO (Agarwal et al., 2019)
`MERL`                likelihood of those found, weighted by a reward that is learned (the same)
====================  ==========================================================================

The likelihoods use P(z | x) as the objectives over a given Z do, so that both differ in Z alone,
and are means over the questions with something found. Expected rewards, and MAPOX throughout, use
P'(z | x), normalised over what can be drawn (`Space.log_mass`), and are means over all questions:
otherwise gradients estimated from samples would be biased. Under every objective here, a question
whose candidates all have reward 0 contributes no gradient.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np

from hardem_jax.errors import require
from hardem_jax.search.protocol import Memory, Metrics, measure, nothing

if TYPE_CHECKING:
    from jax import Array

    from hardem_jax.search.candidates import Space


class Found(NamedTuple):
    """What an objective has found for a batch.

    Attributes:
        solutions: ``[B, N, W]``, those tried and those remembered.
        where: ``[B, N]`` bool, those with a reward, each once.
        log_probs: ``[B, N]`` log P(z | x), with a gradient.
        metrics: see `SearchObjective`.
        memory: after the search.
    """

    solutions: Array
    where: Array
    log_probs: Array
    metrics: Metrics
    memory: Memory


@dataclasses.dataclass(frozen=True)
class _OverFound:
    """A loss over the candidates that have a reward, each once; those remembered among them.

    If nothing in a question's beam is rewarded, the question itself cannot change that beam; only
    training on other questions can. Samples reach solutions outside the beam.
    """

    learns_reward: ClassVar[bool] = False
    #: A function of `hardem_jax.losses`.
    LOSS: ClassVar[str]

    beam: int = 10
    """The most likely solutions that are tried."""
    samples: int = 0
    """Samples that are tried as well."""
    memory: int = 0
    """Solutions that are remembered with each question, the most likely of those found; 0 for
    none, so that every step starts from its own candidates."""

    def __post_init__(self) -> None:
        require(self, "beam", "samples", "memory", at_least=0, optional=False)
        if self.beam + self.samples < 1:
            raise ValueError(f"{type(self).__name__}: beam or samples must be above 0, got 0 and 0")

    def remembers(self, width: int) -> dict[str, np.ndarray]:
        return {"solutions": nothing(self.memory, width)} if self.memory else {}

    def __call__(
        self, space: Space, memory: Memory, *, step: Array | int, key: Array, rows: Array
    ) -> tuple[Array, Metrics, Memory]:
        del step
        found = self.search(space, memory, key=key, rows=rows)
        return self._loss(found.log_probs, found.where), found.metrics, found.memory

    def search(self, space: Space, memory: Memory, *, key: Array, rows: Array) -> Found:
        """Tries candidates; for the arguments see `SearchObjective`."""
        import jax.numpy as jnp

        from hardem_jax.search import candidates

        tried = [space.beam(self.beam)] if self.beam else []
        tried += [space.sample(key, self.samples)] if self.samples else []
        tried = jnp.concatenate(tried, axis=1)
        rewards = space.reward(tried, rows[:, None] & candidates.exist(tried))
        known = [memory["solutions"]] if self.memory else []
        solutions = jnp.concatenate([*known, tried], axis=1)
        # What is remembered has a reward and is not executed again.
        correct = jnp.concatenate([*map(candidates.exist, known), rewards > 0], axis=1)
        where = candidates.distinct(solutions, correct & rows[:, None])
        log_probs = space.log_prob(solutions)
        if self.memory:
            memory = {"solutions": candidates.best(solutions, log_probs, where, self.memory)}
        found = jnp.any(where, axis=-1)
        metrics = measure(rows, found, tried, rewards, memory)
        # Rows without a reward have no solution and so are left out of the mean.
        metrics["averaged"] = jnp.sum(found), jnp.ones(())
        return Found(solutions, where, log_probs, metrics, memory)

    def _loss(self, log_probs: Array, where: Array) -> Array:
        """The loss over candidates, ``[B, N]`` each; ``where`` they have a reward."""
        from hardem_jax import losses

        return getattr(losses, self.LOSS)(log_probs, where=where)


@dataclasses.dataclass(frozen=True)
class BeamMML(_OverFound):
    r"""MML over what the beam finds: :math:`-\log \sum_{z \in beam, R(z) = 1} P(z \mid x)`.

    (Berant et al., 2013; Krishnamurthy et al., 2017.) With a memory it is the MML of Liang et al.
    (2018), over a buffer of what was found before.

    Example:
        >>> BeamMML(beam=5)
        BeamMML(beam=5, samples=0, memory=0)
    """

    title: ClassVar[str] = "Beam MML"
    LOSS = "mml_loss"


@dataclasses.dataclass(frozen=True)
class BeamHardEM(_OverFound):
    r"""Hard EM over what the beam finds: :math:`-\log \max_{z \in beam, R(z) = 1} P(z \mid x)`.

    With a memory, a solution that leaves the beam is not lost.

    Example:
        >>> BeamHardEM(memory=5)
        BeamHardEM(beam=10, samples=0, memory=5)
    """

    title: ClassVar[str] = "Beam hard EM"
    LOSS = "hard_em_loss"


@dataclasses.dataclass(frozen=True)
class IterativeML(_OverFound):
    r"""Iterative maximum likelihood: :math:`-\frac{1}{|S|} \sum_{z \in S} \log P(z \mid x)`.

    S holds what was found for the question, now or before, all with equal weight (Liang et al.,
    2017, in the form of Liang et al., 2018).

    Example:
        >>> IterativeML()
        IterativeML(beam=10, samples=0, memory=10)
    """

    title: ClassVar[str] = "Iterative ML"

    memory: int = 10
    """Solutions that are remembered with each question, the most likely of those found."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.memory:
            raise ValueError(f"{type(self).__name__}: memory must be at least 1, got 0")

    def _loss(self, log_probs: Array, where: Array) -> Array:
        from hardem_jax import losses, posteriors

        return losses.em_loss(log_probs, posteriors.uniform, where=where)


@dataclasses.dataclass(frozen=True)
class MERL(IterativeML):
    r"""MeRL (Agarwal et al., 2019): iterative ML with weights that held-out questions teach.

    .. math:: -\sum_{z \in S} q_\phi(z \mid x) \log P(z \mid x), \quad
        q_\phi(z \mid x) = \operatorname{softmax}_{z \in S} \phi \cdot f(x, z)

    The features f say how a solution fits the words of its question. :math:`\phi` is trained with
    the model and follows the gradient of the MML loss of held-out questions after a step on this
    one, see `hardem_jax.search.learned_rewards`. It begins with 0, which is iterative ML.

    The questions of a batch take turns: in each step, one in ``held_out`` questions is held out,
    and the model trains on the rest. The original holds out the development questions; here a run
    is scored on those, and training questions that are always held out would teach the model
    nothing. So a held-out question may have been trained on in an earlier step.

    Called like other objectives, without :math:`\phi`, it is iterative ML over the whole batch.

    Example:
        >>> MERL(warmup=100).meta_rate
        100.0
    """

    title: ClassVar[str] = "MeRL"
    learns_reward: ClassVar[bool] = True

    warmup: int = 1000
    """Steps of iterative ML, in which the reward stays 0."""
    held_out: int = 2
    """One of so many questions of a batch is held out."""
    lookahead: float = 0.01
    """Size of the step of gradient descent after which the held-out loss is taken."""
    meta_rate: float = 100.0
    """Learning rate of the reward, in learning rates of the model (released code: 0.1 by 0.001)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "warmup", at_least=0, optional=False)
        require(self, "held_out", at_least=2, optional=False)
        require(self, "lookahead", "meta_rate", above=0, below=2**31, optional=False)


@dataclasses.dataclass(frozen=True)
class Reinforce:
    r"""REINFORCE (Williams, 1992): minus the expected reward, :math:`-E_{z \sim P'}[R(z)]`.

    .. math:: \nabla = -\frac{1}{K} \sum_{k=1}^{K} (R(z_k) - b_k) \nabla \log P'(z_k \mid x)

    is unbiased. The loss has this gradient; its value means nothing. The baseline b is the mean
    reward of the other samples (Kool et al., 2019), which keeps the estimate unbiased, or 0. Under
    either, a question without rewarded samples contributes no gradient. The mean is over all.

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
        require(self, "samples", at_least=1, optional=False)
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


class _Drawn(NamedTuple):
    """Solutions remembered and drawn, ``[B, M, W]`` and ``[B, K, W]``; of those drawn, which are
    not among those remembered, and rewards, ``[B, K]``."""

    known: Array
    drawn: Array
    outside: Array
    rewards: Array


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
        require(self, "samples", "memory", "seen", at_least=1, optional=False)
        require(self, "explore", at_least=0, optional=False)
        require(self, "alpha", at_least=0, below=1, optional=False)

    def remembers(self, width: int) -> dict[str, np.ndarray]:
        return {"solutions": nothing(self.memory, width), "seen": np.zeros(self.seen, np.uint32)}

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
        own = np.s_[:, : self.samples]
        values = self._loss(step, space, _Drawn(known, drawn, where[own], rewards[own]), rows)
        # Of all that were found, the most likely.
        solutions = jnp.concatenate([known, tried], axis=1)
        correct = jnp.concatenate([candidates.exist(known), where & (rewards > 0)], axis=1)
        log_probs = jax.lax.stop_gradient(space.log_prob(solutions))
        correct = candidates.distinct(solutions, correct)
        memory = {
            "solutions": candidates.best(solutions, log_probs, correct, self.memory),
            "seen": candidates.see(seen, tried, where),
        }
        own_rewards = jnp.where(known_again, 1.0, rewards)[own]
        found = jnp.any(candidates.exist(memory["solutions"]), axis=-1)
        return _mean(values, rows), measure(rows, found, drawn, own_rewards, memory), memory

    def _new(self, space: Space, known: Array, seen: Array, key: Array) -> Array:
        """Samples that were not tried, ``[B, explore, W]``."""
        from hardem_jax.search import candidates

        drawn = space.sample(key, 4 * self.explore)
        # What is remembered was tried, even if it is no longer among those seen.
        tried = candidates.is_seen(seen, drawn) | candidates.contains(known, drawn)
        return candidates.first(drawn, candidates.distinct(drawn, ~tried), self.explore)

    def _loss(self, step: Array | int, space: Space, found: _Drawn, rows: Array) -> Array:
        """``[B]``, the cost of each question."""
        import jax
        import jax.numpy as jnp

        from hardem_jax import posteriors

        del step
        log_probs, where = _log_policy(space, found.known, rows)
        fixed = jax.lax.stop_gradient(log_probs)
        mass = jnp.sum(jnp.exp(fixed), axis=-1, where=where)
        has_memory = jnp.any(where, axis=-1)
        weight = jnp.where(has_memory, jnp.clip(mass, self.alpha, 1.0), 0.0)
        inside = jnp.sum(posteriors.soft(fixed, where=where) * log_probs, axis=-1)
        # Divided by all K samples, not by those outside: if none is, the sum is 0 whatever it is
        # divided by, and the mean over those outside would be too small on average.
        log_policy, _ = _log_policy(space, found.drawn, rows)
        rewarded = jnp.sum(found.rewards * log_policy, axis=-1, where=found.outside)
        # (1 - w) / (1 - P'(B)) without a division by 0: it is 1 unless w is clipped.
        most = jnp.where(has_memory, 1.0 - self.alpha, 1.0)
        scale = most / jnp.maximum(1.0 - mass, most)
        return -weight * inside - scale * rewarded / self.samples


@dataclasses.dataclass(frozen=True)
class MAPOX(MAPO):
    r"""MAPO that begins as iterative ML (Agarwal et al., 2019).

    Iterative ML gives all solutions found the same weight, and so keeps the model spread over many
    of them: its ``warmup`` steps fill the memory that MAPO starts from. As in MAPO, the likelihood
    is that of P', the mean over all questions, and what was explored counts from the next visit on.

    Example:
        >>> MAPOX(warmup=500).alpha
        0.1
    """

    title: ClassVar[str] = "MAPOX"

    warmup: int = 1000
    """Steps of iterative ML."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "warmup", at_least=0, optional=False)

    def _loss(self, step: Array | int, space: Space, found: _Drawn, rows: Array) -> Array:
        import jax.numpy as jnp

        from hardem_jax.search import candidates

        mapo = super()._loss(step, space, found, rows)
        solutions = jnp.concatenate([found.known, found.drawn], axis=1)
        right = found.outside & (found.rewards > 0)
        correct = jnp.concatenate([candidates.exist(found.known), right], axis=1)
        log_probs, possible = _log_policy(space, solutions, rows)
        where = candidates.distinct(solutions, correct) & possible
        spread = jnp.where(where, log_probs, 0.0)
        count = jnp.maximum(jnp.sum(where, axis=-1, dtype=jnp.float32), 1)
        return jnp.where(step < self.warmup, -jnp.sum(spread, axis=-1) / count, mapo)


#: Every objective that searches and is available in commands.
AnySearchObjective = Reinforce | IterativeML | BeamMML | BeamHardEM | MAPO | MAPOX | MERL


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
