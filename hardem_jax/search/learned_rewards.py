r"""Meta Reward Learning: weight the solutions found by a reward learned from held-out questions.

Several solutions of a question lead to its answer, and some only by chance. MeRL (Agarwal et al.,
2019) weighs those found by an auxiliary reward :math:`R_\phi(x, z)`,

.. math:: L(\theta, \phi) = -\frac{1}{B} \sum_x \sum_z q_\phi(z \mid x) \log P_\theta(z \mid x),
    \quad q_\phi(z \mid x) = \operatorname{softmax}_z R_\phi(x, z),

and chooses :math:`\phi` so that a step of training on L lowers a loss V of other questions:

.. math:: \theta' = \theta - \alpha \nabla_\theta L(\theta, \phi), \quad
    \nabla_\phi V(\theta') = \alpha \frac{1}{B} \sum_x \sum_z
    \nabla_\phi q_\phi(z \mid x) \, \langle \nabla_\theta \log P_\theta(z \mid x), \nabla V(\theta')
    \rangle .

L is linear in log P, so this needs no second derivative of the model. The inner products of all
solutions are one derivative of log P along :math:`\nabla V(\theta')`: a solution's reward rises if
making it more likely helps on the held-out questions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from hardem_jax import posteriors


def learned_reward_loss(
    params: Any,
    reward_params: Any,
    *,
    log_prob: Callable[[Any], Array],
    reward: Callable[[Any], Array],
    where: Array,
    held_out: Callable[[Any], Array],
    rate: float = 1.0,
) -> tuple[Array, dict[str, Array]]:
    r"""Likelihood of the solutions found, weighted by a reward that is learned with the model.

    Differentiate it with respect to both trees at once: the gradient of ``params`` is that of L,
    the gradient of ``reward_params`` is that of V after the step. One optimizer over the two trees
    then trains both, and one checkpoint holds them.

    Besides L, V and their gradients, a call costs one derivative of ``log_prob`` along a direction.

    Args:
        params: :math:`\theta`, a tree of float arrays.
        reward_params: :math:`\phi`, a tree of float arrays. With zeros for a linear reward all
            solutions begin with equal weight, as in iterative maximum likelihood.
        log_prob: gives log P(z | x) of the candidates, ``[B, N]`` float32, for ``params``. It may
            contain functions that have a derivative in reverse mode only (`jax.custom_vjp`).
        reward: gives :math:`R_\phi(x, z)`, ``[B, N]`` float32, for ``reward_params``; a log-linear
            one is ``features @ weights``.
        where: ``[B, N]`` bool, candidates that lead to the answer, each once. Questions without
            any, and candidates with a log P of -inf, count for nothing.
        held_out: V, a scalar for ``params``; such as `losses.mml_loss` of what was found for
            questions that are not in the batch.
        rate: :math:`\alpha`, the step's size. It scales the gradient of :math:`\phi`, and says
            where V is differentiated; 0 leaves the reward unchanged.

    Returns:
        L, float32, and by name: ``held_out``, V after the step; ``agreement``, the cosine between
        the gradients of L and of V after the step.

    Example:
        Candidate 0 has feature 0. Making it more likely is all that the held-out loss asks for:

        >>> features = jnp.array([[[1.0, 0.0], [0.0, 1.0]]])
        >>> def loss(logits, weights):
        ...     return learned_reward_loss(
        ...         logits,
        ...         weights,
        ...         log_prob=lambda logits: jax.nn.log_softmax(logits)[None],
        ...         reward=lambda weights: features @ weights,
        ...         where=jnp.ones((1, 2), bool),
        ...         held_out=lambda logits: -jax.nn.log_softmax(logits)[0],
        ...     )[0]
        >>> print(jax.grad(loss, argnums=1)(jnp.zeros(2), jnp.zeros(2)))
        [-0.25  0.25]
    """
    value, metrics, _ = searched_reward_loss(
        params,
        reward_params,
        log_prob=lambda theta: (log_prob(theta), where, None),
        reward=lambda phi, _: reward(phi),
        held_out=lambda theta: (held_out(theta), None),
        rate=rate,
    )
    return value, metrics


def searched_reward_loss(
    params: Any,
    reward_params: Any,
    *,
    log_prob: Callable[[Any], tuple[Array, Array, Any]],
    reward: Callable[[Any, Any], Array],
    held_out: Callable[[Any], tuple[Array, Any]],
    rate: float = 1.0,
) -> tuple[Array, dict[str, Array], tuple[Any, Any]]:
    """`learned_reward_loss` of candidates that the model proposes in the same forward pass:
    ``log_prob`` gives log P(z | x), ``where`` and what else was found, for ``reward``, ``held_out``
    V and the like; what they found is returned last."""
    theta, phi = jax.lax.stop_gradient((params, reward_params))

    def with_rest(theta: Any) -> tuple[Array, tuple[Array, Any]]:
        log_probs, where, found = log_prob(theta)
        return log_probs, (where, found)

    log_probs, backward, (where, found) = jax.vjp(with_rest, theta, has_aux=True)
    where = where & (log_probs != -jnp.inf)  # not `isfinite`: NaN has to show
    count = jnp.maximum(jnp.sum(jnp.any(where, axis=-1), dtype=jnp.float32), 1)

    def weighted(values: Array, phi: Any) -> Array:
        weights = posteriors.soft(reward(phi, found), where=where)
        return jnp.sum(weights * jnp.where(where, values, 0.0)) / count

    negative, slopes = jax.value_and_grad(weighted)(log_probs, phi)
    (gradient,) = backward(-slopes)
    after = jax.tree.map(lambda value, slope: value - rate * slope, theta, gradient)
    (held_out_loss, others), direction = jax.value_and_grad(held_out, has_aux=True)(after)
    # The derivative along a direction is the transpose of the backward pass. Unlike `jax.jvp` this
    # works for models with custom derivatives, and reuses the forward pass.
    _, along = jax.vjp(backward, jnp.zeros_like(log_probs))
    (rises,) = along((direction,))
    meta_gradient = jax.grad(lambda phi: rate * weighted(rises, phi))(phi)
    value = _with_gradient(-negative, (params, reward_params), (gradient, meta_gradient))
    norms = jnp.sqrt(_dot(gradient, gradient) * _dot(direction, direction))
    agreement = _dot(gradient, direction) / jnp.where(norms > 0, norms, 1.0)
    return value, {"held_out": held_out_loss, "agreement": agreement}, (found, others)


def _with_gradient(value: Array, variables: Any, gradient: Any) -> Array:
    """A value whose gradient with respect to the variables is given."""
    zeros = jax.tree.map(lambda x: x - jax.lax.stop_gradient(x), variables)
    return jax.lax.stop_gradient(value) + _dot(jax.lax.stop_gradient(gradient), zeros)


def _dot(one: Any, other: Any) -> Array:
    products = jax.tree.map(lambda x, y: jnp.sum(x * y, dtype=jnp.float32), one, other)
    return sum(jax.tree.leaves(products), jnp.zeros((), jnp.float32))
