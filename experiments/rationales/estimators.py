"""Objectives over K draws, and over all of Z, as losses of their log-probabilities.

Every estimator is a function of `Drawn` to the loss of each row, made of `hardem_jax.losses` and
`hardem_jax.sampled`; a row in which no draw is correct costs 0.

=======================  ==========================================================================
MML, distinct draws      Z is what the draws found, each once: `mml_loss`
IWAE                     the same with weights 1 / (K P(z)), repeated draws included; on draws of
                         the model itself its gradient is the mean over correct draws, that is
                         rejection sampling
STaR, distinct draws     each of the correct rationales found counts alike, however often it was
                         drawn (Zelikman et al., 2022; rejection sampling in arXiv 2512.20169)
Hard EM, draws           the most likely correct draw
JEPO                     `jensen_loss`; a wrong draw leads to the answer with the probability
                         `MISPRINT`, for the bound is infinite without
TRICE                    `trice_loss`, and without its control variate
REINFORCE                `reinforce_loss`, leave-one-out
=======================  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hardem_jax import losses, posteriors, sampled

Array = jax.Array

#: P(y | x, z) of a rationale that does not end in y; of one that does it is 1.
MISPRINT = 1e-3


class Drawn(NamedTuple):
    """What an estimator sees of B problems."""

    log_probs: Array
    """``[B, K]`` of the draws, repeated ones included."""
    programs: Array
    """``[B, K]`` int: equal for equal rationales."""
    correct: Array
    """``[B, K]`` bool: valid, and ending in the answer."""
    where: Array
    """``[B, K]`` bool, false at padding, where ``correct`` is false, too."""
    memory_log_probs: Array
    """``[B]``: of the correct rationale that each problem remembers."""
    has_memory: Array
    """``[B]`` bool."""


Estimator = Callable[[Drawn], Array]


def _found(drawn: Drawn) -> Array:
    return sampled.distinct(drawn.programs, where=drawn.correct)


def mml(drawn: Drawn) -> Array:
    return losses.mml_loss(drawn.log_probs, where=_found(drawn), reduce_fn=None)


def iwae(drawn: Drawn) -> Array:
    proposal = jax.lax.stop_gradient(drawn.log_probs)
    draws = jnp.sum(drawn.where, axis=-1, keepdims=True)
    weights = -proposal - jnp.log(draws)
    return losses.mml_loss(
        drawn.log_probs, log_weights=weights, where=drawn.correct, reduce_fn=None
    )


def star(drawn: Drawn) -> Array:
    return losses.em_loss(drawn.log_probs, posteriors.uniform, where=_found(drawn), reduce_fn=None)


def hard_em(drawn: Drawn) -> Array:
    return losses.hard_em_loss(drawn.log_probs, where=drawn.correct, reduce_fn=None)


def jepo(drawn: Drawn) -> Array:
    likelihoods = log_likelihoods(drawn.correct)
    return sampled.jensen_loss(drawn.log_probs, likelihoods, where=drawn.where, reduce_fn=None)


def log_likelihoods(correct: Array) -> Array:
    """log P(y | x, z), see `MISPRINT`."""
    return jnp.where(correct, 0.0, jnp.log(MISPRINT))


def trice(drawn: Drawn, *, control_variate: bool = True) -> Array:
    return sampled.trice_loss(
        drawn.log_probs,
        drawn.correct,
        memory_log_probs=drawn.memory_log_probs,
        has_memory=drawn.has_memory,
        control_variate=control_variate,
        where=drawn.where,
        reduce_fn=None,
    )


def trice_without(drawn: Drawn) -> Array:
    return trice(drawn, control_variate=False)


def reinforce(drawn: Drawn) -> Array:
    rewards = drawn.correct.astype(jnp.float32)
    return sampled.reinforce_loss(drawn.log_probs, rewards, where=drawn.where, reduce_fn=None)


ESTIMATORS: dict[str, Estimator] = {
    "MML, distinct draws": mml,
    "Hard EM, draws": hard_em,
    "IWAE": iwae,
    "TRICE": trice,
    "TRICE, no control variate": trice_without,
    "REINFORCE": reinforce,
    "JEPO": jepo,
    "STaR, distinct draws": star,
}


def exact_mml(log_probs: Array, where: Array) -> Array:
    """``[B]``: -log P(y | x), the sum over all of Z."""
    return losses.mml_loss(log_probs, where=where, reduce_fn=None)


def exact_hard_em(log_probs: Array, where: Array) -> Array:
    """``[B]``: -log of the most likely rationale of Z."""
    return losses.hard_em_loss(log_probs, where=where, reduce_fn=None)
