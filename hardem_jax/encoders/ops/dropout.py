"""Dropout whose mask is a hash of (key, element index): no random bits in memory.

Threefry spends about twenty rounds on every element, which at attention sizes costs as much as
the softmax. Here a key gives two seeds, and each element hashes its row-major index with them: a
few integer operations that XLA fuses into the multiplication. The mask is the same on any number of
devices.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

_RANGE = 2**32


def keep_threshold(rate: float) -> int:
    """Number of 32-bit hashes, out of 2**32, that keep an element.

    `dropout` divides by this share, not by `1 - rate`, so that the expectation is exact.
    """
    return min(max(round((1 - rate) * _RANGE), 1), _RANGE - 1)


def dropout_seeds(key: jax.Array) -> jax.Array:
    """Two words that fix a mask: uint32 [2] from a `jax.random` key of any implementation."""
    return jax.random.bits(key, (2,), jnp.uint32)


def keep_mask(seeds: jax.Array, rate: float, shape: tuple[int, ...]) -> jax.Array:
    """Bool mask of this shape, true where the element is kept.

    Two keyed applications of `lowbias32`, the 32-bit mixer with the smallest bias found by Wellons'
    hash-prospector search: one alone would make the masks of two keys permutations of each other.
    Elements beyond 2**32 reuse the bits of the first ones.
    """
    index = jnp.zeros(shape, jnp.uint32)
    stride = 1
    for axis in reversed(range(len(shape))):
        # A sum of iotas, not a reshaped flat one: each is partitioned along with its axis.
        iota = jax.lax.broadcasted_iota(jnp.uint32, shape, axis)
        index = index + iota * jnp.uint32(stride % _RANGE)
        stride *= shape[axis]
    return _kept(index, seeds[0], seeds[1], rate)


def _kept(index: jax.Array, first: jax.Array, second: jax.Array, rate: float) -> jax.Array:
    bits = _lowbias32(_lowbias32(index ^ first) + second)
    return bits < np.uint32(keep_threshold(rate))


def _lowbias32(x: jax.Array) -> jax.Array:
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)


def drop_and_scale(x: jax.Array, seeds: jax.Array, rate: float) -> jax.Array:
    """`dropout` for callers that already have the seeds, such as hand-written derivatives."""
    scale = _RANGE / keep_threshold(rate)
    return jnp.where(keep_mask(seeds, rate, x.shape), x * scale, jnp.zeros((), x.dtype))


def drop_rows(
    x: jax.Array, index: jax.Array, first: jax.Array, second: jax.Array, rate: float
) -> jax.Array:
    """`drop_and_scale` of a tile, whose elements have these row-major indices, in kernels."""
    scale = _RANGE / keep_threshold(rate)
    return jnp.where(_kept(index, first, second, rate), x * scale, 0.0)


def dropout(x: jax.Array, rate: float, key: jax.Array | None) -> jax.Array:
    """Inverted dropout (Srivastava et al., 2014), `0 <= rate < 1`; without a key, `x` itself."""
    if key is None or rate == 0:
        return x
    return drop_and_scale(x, dropout_seeds(key), rate)
