"""Layers that several models share."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike

from hardem_jax.encoders.config import Implementation
from hardem_jax.encoders.ops.attention import allowed_kernels, attention, check_attention
from hardem_jax.encoders.ops.fused import dropout_seeds, layer_norm, linear
from hardem_jax.placement import platform_of

# U(-1/sqrt(fan in), 1/sqrt(fan in)) for kernels: what PyTorch starts dense layers from.
KERNEL_INIT = jax.nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")


class Linear(nnx.Linear):
    """A dense layer whose gradients are float32 whatever the compute dtype, see `linear`."""

    def __call__(self, inputs: jax.Array) -> jax.Array:
        """[..., D] -> [..., F] in the compute dtype."""
        return self.reshaped(inputs, self.kernel.shape)

    def reshaped(self, inputs: jax.Array, shape: tuple[int, ...], axes: int = 1) -> jax.Array:
        """The same with W in this shape, whose first `axes` are the last of `inputs`."""
        bias = None if self.bias is None else self.bias[...].reshape(shape[axes:])
        return linear(inputs.astype(self.dtype), self.kernel[...].reshape(shape), bias, axes)


class LayerNorm(nnx.Module):
    """Layer normalisation over the last axis with a learned scale and, unless turned off, bias."""

    def __init__(self, size: int, *, eps: float, use_bias: bool = True):
        self.scale = nnx.Param(jnp.ones(size, jnp.float32))
        self.bias = nnx.Param(jnp.zeros(size, jnp.float32)) if use_bias else None
        self.eps = eps

    def __call__(self, x: jax.Array) -> jax.Array:
        """[N, D] -> [N, D] in the dtype of `x`, computed in float32."""
        bias = None if self.bias is None else self.bias[...]
        return layer_norm(x, self.scale[...], bias, self.eps)


class SelfAttention(nnx.Module):
    """What layers of all architectures do between their projections and the output's."""

    def __init__(
        self,
        config: Any,
        dtype: DTypeLike,
        implementation: Implementation,
        recompute: bool,
        window: int | None = None,
    ):
        check_attention(implementation, dtype=dtype, rate=config.attention_dropout)
        self.config, self.window = config, window
        self.implementation: Implementation = implementation
        self.recompute_attention = recompute

    def project_and_attend(self, x, where, segments, key, **turn) -> jax.Array:
        """[B*T, D] -> `attend` between its four projections, [B*T, D]."""
        layer: Any = self
        projections = layer.query, layer.key, layer.value
        on_tpu = platform_of(x, where) == "tpu" and allowed_kernels() == "here"
        if not on_tpu or where.shape[1] % 128:
            projected = [dense(x) for dense in projections]
            context = self.attend(projected, where, segments, key, **turn).reshape(x.shape)
            return layer.attention_output(context)
        # Products with [D, heads, head size] write what splash reads, and read what it writes;
        # between [B*T, D] and heads XLA transposes. At other lengths splash pads.
        size = self.config.head_size
        hidden, heads = x.shape[-1], x.shape[-1] // size
        tokens = x.reshape(*where.shape, hidden)
        projected = [dense.reshaped(tokens, (hidden, heads, size)) for dense in projections]
        context = self.attend(projected, where, segments, key, **turn)
        return layer.attention_output.reshaped(context, (heads, size, hidden), 2).reshape(x.shape)

    def attend(self, projected, where, segments, key, *, turn=lambda x: x) -> jax.Array:
        """Queries, keys and values [B*T, D] or in heads -> [B, T, heads, head size]; `turn` is
        applied to the first two."""
        batch, length = where.shape
        q, k, v = (x.reshape(batch, length, -1, self.config.head_size) for x in projected)
        rate = 0.0 if key is None else self.config.attention_dropout
        return attention(
            turn(q),
            turn(k),
            v,
            where=where,
            segments=segments,
            seeds=None if key is None or rate == 0 else dropout_seeds(key),
            rate=rate,
            window=self.window,
            implementation=self.implementation,
            recompute=self.recompute_attention,
        )


def dense(
    inputs: int, outputs: int, *, rngs: nnx.Rngs, dtype: DTypeLike = jnp.float32, **options: Any
) -> Linear:
    """A dense layer with the initial values of `KERNEL_INIT`."""
    return Linear(inputs, outputs, kernel_init=KERNEL_INIT, dtype=dtype, rngs=rngs, **options)


def take(x: jax.Array, places: jax.Array) -> jax.Array:
    """``[B, T, ...]``, ``[B, N]`` -> ``[B, N, ...]``."""
    return jax.vmap(lambda row, place: row[place])(x, places)


@jax.custom_vjp
def masked_max(x: jax.Array, where: jax.Array) -> jax.Array:
    """Maximum over the positions `where`, 0 without any: [..., T, D], [..., T] -> [..., D].

    The gradient goes to the first of the highest, remembered by its position. `jnp.max` finds it
    again by ``x == max(x)``, and where a compiler computes ``x`` twice with different rounding none
    is equal and the gradient is lost (https://github.com/jax-ml/jax/issues/40564).
    """
    return _masked_max_fwd(x, where)[0]


def _masked_max_fwd(x, where):
    x = jnp.where(where[..., None], x, -jnp.inf)
    best = jnp.argmax(x, axis=-2, keepdims=True)
    found = jnp.take_along_axis(x, best, axis=-2)
    there = jnp.any(where, axis=-1)[..., None]
    return jnp.where(there, found[..., 0, :], 0), (best, there, where)


def _masked_max_bwd(saved, grad):
    best, there, where = saved
    positions = jnp.arange(where.shape[-1]).reshape((1,) * (where.ndim - 1) + (-1, 1))
    return jnp.where(positions == best, jnp.where(there, grad, 0)[..., None, :], 0), None


masked_max.defvjp(_masked_max_fwd, _masked_max_bwd)
