"""Objectives as values: what an experiment's configuration holds and a training step calls.

An objective is an immutable value with two methods (`Objective`); swapping one for
another is one argument. The mathematics is in `hardem_jax.losses`.

Example:
    >>> import jax, jax.numpy as jnp
    >>> log_probs = jnp.log(jnp.array([0.25, 0.5]))
    >>> for objective in HardEM(), MML(), FirstOnly():
    ...     print(objective, jnp.exp(-objective(log_probs, step=0, key=jax.random.key(0))))
    HardEM(tau=None, cap=1.0) 0.5
    MML() 0.75
    FirstOnly() 0.25
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from jax import Array

# Objectives are flags too: jax and the losses are imported when a step is traced, not when a
# command line is parsed.


class Objective(Protocol):
    """What training asks of an objective; any value with these two methods is one.

    `HardEM`, `MML` and `FirstOnly` are the paper's. Objectives are immutable
    values: swapping one for another is one argument of an experiment.
    """

    def __call__(self, log_probs: Array, *, step: Array | int, key: Array, **rows: Any) -> Array:
        """Loss of a batch; ``rows`` are the keywords of `losses.hard_em_loss`."""
        ...

    def is_hard(self, *, step: Array | int, key: Array) -> Array:
        """Whether the step with this number and key is a hard one, bool scalar."""
        ...


@dataclasses.dataclass(frozen=True)
class HardEM:
    """`annealed_loss` as a value: hard EM, after ``tau`` steps of annealing from MML.

    Attributes:
        tau: annealing steps; None for plain hard EM.
        cap: upper bound of the probability of a hard step (released code: 0.8).

    Example:
        >>> HardEM(tau=8000)
        HardEM(tau=8000, cap=1.0)
    """

    tau: float | None = None
    cap: float = 1.0

    def __post_init__(self):
        if self.tau is not None and not self.tau >= 0:
            raise ValueError(f"HardEM: tau must be None, 0 or a number of steps, got {self.tau}")
        if not 0 < self.cap <= 1:
            raise ValueError(f"HardEM: cap must be in (0, 1], got {self.cap}")
        if not self.tau and self.cap < 1:
            raise ValueError(f"HardEM: cap={self.cap} limits annealing and needs a tau")

    def __call__(self, log_probs: Array, *, step: Array | int, key: Array, **rows: Any) -> Array:
        from hardem_jax.losses import annealed_loss

        return annealed_loss(log_probs, step=step, key=key, tau=self.tau, cap=self.cap, **rows)

    def is_hard(self, *, step: Array | int, key: Array) -> Array:
        import jax

        from hardem_jax.losses import annealing_probability

        # The same key and probability as in the loss, hence the same draw.
        return jax.random.bernoulli(key, annealing_probability(step, tau=self.tau, cap=self.cap))


@dataclasses.dataclass(frozen=True)
class Scheduled:
    """`scheduled_loss` as a value, for any schedule of `hardem_jax.schedules`.

    Attributes:
        schedule: step number -> probability of a hard step.

    Example:
        >>> import jax
        >>> from hardem_jax import schedules
        >>> objective = Scheduled(schedules.switch_at(20_000))
        >>> bool(objective.is_hard(step=19_999, key=jax.random.key(0)))
        False
    """

    schedule: Callable[[Array | int], Array]

    def __call__(self, log_probs: Array, *, step: Array | int, key: Array, **rows: Any) -> Array:
        from hardem_jax.losses import scheduled_loss

        return scheduled_loss(log_probs, key=key, hard_probability=self.schedule(step), **rows)

    def is_hard(self, *, step: Array | int, key: Array) -> Array:
        import jax

        return jax.random.bernoulli(key, self.schedule(step))


@dataclasses.dataclass(frozen=True)
class MML:
    """`mml_loss` as a value."""

    def __call__(self, log_probs: Array, *, step: Array | int, key: Array, **rows: Any) -> Array:
        from hardem_jax.losses import mml_loss

        del step, key  # the same at every step
        return mml_loss(log_probs, **rows)

    def is_hard(self, *, step: Array | int, key: Array) -> Array:
        import jax.numpy as jnp

        del step, key
        return jnp.bool_(False)


@dataclasses.dataclass(frozen=True)
class FirstOnly:
    """`first_only_loss` as a value."""

    def __call__(self, log_probs: Array, *, step: Array | int, key: Array, **rows: Any) -> Array:
        from hardem_jax.losses import first_only_loss

        del step, key  # the same at every step
        return first_only_loss(log_probs, **rows)

    def is_hard(self, *, step: Array | int, key: Array) -> Array:
        import jax.numpy as jnp

        del step, key
        return jnp.bool_(False)
