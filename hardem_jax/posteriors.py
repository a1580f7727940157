r"""E-steps: the weight that an objective puts on each solution.

A posterior maps ``log_probs`` (``[..., Z]``, :math:`\log P(z \mid x)`, -inf where
impossible) and the bool mask ``where`` to float32 weights ``[..., Z]`` that sum
to 1 in every row with a possible solution and are 0 elsewhere. Given to
`losses.em_loss`, ``hard``, ``soft`` and ``first`` are the paper's hard EM, MML and
First-only; the rest lies between and beyond them.

Example:
    >>> import jax.numpy as jnp
    >>> log_probs = jnp.log(jnp.array([0.1, 0.3]))
    >>> print(hard(log_probs), soft(log_probs).round(4), tempered(0.0)(log_probs))
    [0. 1.] [0.25 0.75] [0.5 0.5]
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from hardem_jax.losses import as_mask, one_hot_argmax

Array = jax.Array


def hard(log_probs: ArrayLike, *, where: ArrayLike | None = None) -> Array:
    """All weight on the likeliest solution, the first among ties.

    Example:
        >>> print(hard(jnp.array([-2.0, -1.0, -1.0])))
        [0. 1. 0.]
    """
    scores = _scores(log_probs, where)
    return (one_hot_argmax(scores) & (scores != -jnp.inf)).astype(jnp.float32)


def first(log_probs: ArrayLike, *, where: ArrayLike | None = None) -> Array:
    """All weight on the first solution of the row, be it impossible: First-only trusts no other.

    Example:
        >>> print(first(jnp.array([-2.0, -1.0]), where=jnp.array([False, True])))
        [0. 1.]
    """
    scores = _scores(log_probs, where)
    valid = jnp.ones(scores.shape, bool) if where is None else as_mask(where)
    return _first_true(valid & (_peak(scores) != -jnp.inf))


def soft(log_probs: ArrayLike, *, where: ArrayLike | None = None) -> Array:
    r"""The model's own posterior :math:`P(z \mid x, z \in Z)`: the gradient weights of MML.

    Example:
        >>> print(soft(jnp.log(jnp.array([0.1, 0.3]))).round(4))
        [0.25 0.75]
    """
    return _softmax(_scores(log_probs, where))


def uniform(log_probs: ArrayLike, *, where: ArrayLike | None = None) -> Array:
    """Equal weight on every possible solution, whatever the model thinks.

    Example:
        >>> print(uniform(jnp.array([-2.0, -1.0, -jnp.inf])))
        [0.5 0.5 0. ]
    """
    return tempered(0.0)(log_probs, where=where)


def tempered(inverse_temperature: float) -> Callable[..., Array]:
    r"""Weights :math:`\propto P(z \mid x)^\beta`: uniform at 0, soft at 1, hard as it grows.

    Args:
        inverse_temperature: :math:`\beta`, finite and at least 0; its limit is `hard`.

    Example:
        >>> print([f"{weight:.2f}" for weight in tempered(2.0)(jnp.log(jnp.array([0.1, 0.3])))])
        ['0.10', '0.90']
    """
    if not 0 <= inverse_temperature < float("inf"):
        raise ValueError(f"inverse_temperature must be finite, >= 0, got {inverse_temperature}")

    def weights(log_probs: ArrayLike, *, where: ArrayLike | None = None) -> Array:
        scores = _scores(log_probs, where)
        # The likeliest is at 0 before it is scaled, so that no temperature overflows. 0 * -inf
        # is NaN: gaps stay finite, and impossible solutions impossible at any temperature.
        gaps = jnp.maximum(scores - _peak(scores), jnp.finfo(jnp.float32).min)
        return _softmax(jnp.where(scores == -jnp.inf, -jnp.inf, inverse_temperature * gaps))

    return weights


def top_k(k: int) -> Callable[..., Array]:
    """The soft posterior among the ``k`` likeliest solutions; earlier ones first among ties.

    Args:
        k: number of solutions kept, at least 1; 1 is `hard`.

    Example:
        >>> print(top_k(2)(jnp.log(jnp.array([0.1, 0.3, 0.1]))).round(4))
        [0.25 0.75 0.  ]
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")

    def weights(log_probs: ArrayLike, *, where: ArrayLike | None = None) -> Array:
        scores = _scores(log_probs, where)
        # Sorting puts NaN last, where it would be dropped unseen: here it ranks first.
        order = jnp.argsort(jnp.where(jnp.isnan(scores), -jnp.inf, -scores), stable=True)
        rank = jnp.argsort(order)
        return _softmax(jnp.where(rank < k, scores, -jnp.inf))

    return weights


def _scores(log_probs: ArrayLike, where: ArrayLike | None) -> Array:
    scores = jnp.asarray(log_probs, jnp.float32)
    return scores if where is None else jnp.where(as_mask(where), scores, -jnp.inf)


def _softmax(scores: Array) -> Array:
    """Softmax over the last axis; zeros, not NaN, for a row that is -inf throughout."""
    peak = _peak(scores)
    weights = jnp.exp(scores - jnp.where(peak == -jnp.inf, 0.0, peak))
    total = jnp.sum(weights, axis=-1, keepdims=True)
    return weights / jnp.where(total == 0, 1.0, total)


def _peak(scores: Array) -> Array:
    return jnp.max(scores, axis=-1, keepdims=True, initial=-jnp.inf)


def _first_true(chosen: Array) -> Array:
    return (chosen & (jnp.cumsum(chosen, axis=-1) == 1)).astype(jnp.float32)
