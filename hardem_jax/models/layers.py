"""Layers that several models share."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike

from hardem_jax.models.bert_ops import MASK

# U(-1/sqrt(fan in), 1/sqrt(fan in)) for kernels: what PyTorch starts dense layers from.
KERNEL_INIT = jax.nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")


def dense(
    inputs: int,
    outputs: int,
    *,
    rngs: nnx.Rngs,
    dtype: DTypeLike = jnp.float32,
    use_bias: bool = True,
) -> nnx.Linear:
    """A dense layer with the initial values of `KERNEL_INIT`."""
    return nnx.Linear(
        inputs, outputs, kernel_init=KERNEL_INIT, use_bias=use_bias, dtype=dtype, rngs=rngs
    )


def masked_softmax(scores: jax.Array, where: jax.Array, axis: int = -1) -> jax.Array:
    """Softmax over the positions `where`, in float32; zero elsewhere and where there are none.

    Args:
        scores: float array of any shape.
        where: bool, broadcastable to it with axes of size 1.

    Example:
        >>> masked_softmax(jnp.zeros((1, 3)), jnp.array([[True, True, False]])).tolist()
        [[0.5, 0.5, 0.0]]
    """
    # Finite, and zeroed afterwards: a row without any position has neither NaN nor gradient.
    scores = jnp.where(where, scores.astype(jnp.float32), MASK)
    return jnp.where(where, jax.nn.softmax(scores, axis=axis), 0.0)
