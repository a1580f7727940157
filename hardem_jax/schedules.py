"""Schedules of the probability that a step is hard, for `objectives.Scheduled`.

A schedule maps a step number (int or traced scalar) to a float32 probability.
The default, linear growth over ``tau`` steps, is built into `objectives.HardEM`; the
others are what the paper's text, its released code and later work do.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from hardem_jax.losses import annealing_probability

Schedule = Callable[[jax.Array | int], jax.Array]


def linear(tau: float, cap: float = 1.0) -> Schedule:
    """min(step / tau, cap): from MML to hard EM (Min et al., 2019, section 3.2).

    Example:
        >>> print(linear(tau=100)(25))
        0.25
    """
    return lambda step: annealing_probability(step, tau=tau, cap=cap)


def as_printed(tau: float) -> Schedule:
    """1 - min(step / tau, 1): the direction as the paper's text prints it, from hard EM to MML.

    Kept for comparison; the authors' code and their answers to readers run the
    other way.

    Example:
        >>> print(as_printed(tau=100)(25))
        0.75
    """
    return lambda step: 1.0 - annealing_probability(step, tau=tau)


def switch_at(start: int) -> Schedule:
    """0 before step ``start``, 1 from it on (Cheng et al., 2020).

    Example:
        >>> print(switch_at(20_000)(20_000))
        1.0
    """
    return lambda step: jnp.float32(jnp.asarray(step) >= start)


def scaled_tau(tau: float, *, reference_steps: int, num_steps: int) -> float:
    """``tau`` of a run of ``reference_steps``, for a run of ``num_steps``: the same share of it.

    Example:
        >>> scaled_tau(15_000, reference_steps=60_000, num_steps=400)
        100.0
    """
    return tau * num_steps / reference_steps
