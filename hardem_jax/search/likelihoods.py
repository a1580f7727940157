"""Objectives that search and raise the likelihood of what they find, under P(z | x)."""

from __future__ import annotations

import abc
import dataclasses
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from hardem_jax.search.protocol import Memory, Metrics, check, measure, nothing

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
class _OverFound(abc.ABC):
    """A loss over the candidates that have a reward, each once; those remembered among them.

    If nothing in a question's beam is rewarded, the question itself cannot change that beam; only
    training on other questions can. Samples reach solutions outside the beam.
    """

    learns_reward: ClassVar[bool] = False

    beam: int = 10
    """The most likely solutions that are tried."""
    samples: int = 0
    """Samples that are tried as well."""
    memory: int = 0
    """Solutions that are remembered with each question, the most likely of those found; 0 for
    none, so that every step starts from its own candidates."""

    def __post_init__(self) -> None:
        check(self, at_least=0)
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

    @abc.abstractmethod
    def _loss(self, log_probs: Array, where: Array) -> Array:
        """The loss over candidates, ``[B, N]`` each; ``where`` they have a reward."""


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

    def _loss(self, log_probs: Array, where: Array) -> Array:
        from hardem_jax import losses

        return losses.mml_loss(log_probs, where=where)


@dataclasses.dataclass(frozen=True)
class BeamHardEM(_OverFound):
    r"""Hard EM over what the beam finds: :math:`-\log \max_{z \in beam, R(z) = 1} P(z \mid x)`.

    With a memory, a solution that leaves the beam is not lost.

    Example:
        >>> BeamHardEM(memory=5)
        BeamHardEM(beam=10, samples=0, memory=5)
    """

    title: ClassVar[str] = "Beam hard EM"

    def _loss(self, log_probs: Array, where: Array) -> Array:
        from hardem_jax import losses

        return losses.hard_em_loss(log_probs, where=where)


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
        check(self, "held_out", at_least=2)
        for name in ("lookahead", "meta_rate"):
            if not 0 < (value := getattr(self, name)) < 2**31:
                raise ValueError(f"MERL: {name} must be above 0 and below 2**31, got {value}")
