"""Dropout without random bits in memory, and operations with hand-written derivatives.

The mask of dropout is a hash of (key, element index). Threefry spends about twenty rounds on every
element, which at attention sizes costs as much as the softmax; two seeds and a row-major index take
a few integer operations, which XLA fuses into the multiplication. It is the same on all devices.

Each operation keeps its inputs (attention: the probabilities too) and recomputes the rest in the
backward pass. Without them, attention makes a step of BERT slower, and its memory at least a
seventh larger. The others matter where `scan_layers` makes a loop of the layers: XLA stores all
that the derivative of its body needs, whereas in unrolled layers it mostly finds by itself what to
recompute. Statistics, softmax and activations are in float32 whatever the compute dtype.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

# Added to the scores of masked keys: low enough that exp gives exactly 0 next to any real score,
# finite so that a row without a real key gives no NaN.
MASK = -1e9
GATES = 4  # of an LSTM: input, forget, cell, output
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
    return jnp.where(_kept(index, first, second, rate), x * (_RANGE / keep_threshold(rate)), 0.0)


def dropout(x: jax.Array, rate: float, key: jax.Array | None) -> jax.Array:
    """Inverted dropout (Srivastava et al., 2014), `0 <= rate < 1`; without a key, `x` itself."""
    if key is None or rate == 0:
        return x
    return drop_and_scale(x, dropout_seeds(key), rate)


@functools.partial(jax.custom_vjp, nondiff_argnums=(6, 7))
def attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    where: jax.Array,
    segments: jax.Array | None,
    seeds: jax.Array | None,
    rate: float,
    window: int | None = None,
) -> jax.Array:
    """Scaled dot-product attention with dropout on the probabilities (Vaswani et al., 2017, 3.2).

    `attention.attention` without a choice, on [B, heads, T, head size].
    """
    return _attention_fwd(q, k, v, where, segments, seeds, rate, window)[0]


def _product(equation: str, a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.einsum(equation, a, b, preferred_element_type=jnp.float32)


def visible_keys(
    where: jax.Array, segments: jax.Array | None, window: int | None = None
) -> jax.Array:
    """Which keys a query sees: bool [B, 1, T, T], or [B, 1, 1, T] if all queries see the same.

    `window`: those at most this many positions before and after it. The tokens of a segment stand
    next to each other, so that it sees the same in any row.
    """
    seen = where[:, None, None, :]
    if segments is not None:
        seen = seen & (segments[:, None, :, None] == segments[:, None, None, :])
    if window is not None:
        places = jnp.arange(where.shape[1])
        seen = seen & (jnp.abs(places[:, None] - places[None, :]) <= window)[None, None]
    return seen


def _attention_fwd(q, k, v, where, segments, seeds, rate, window):
    scores = _product("bhtd,bhsd->bhts", q, k) * (1 / math.sqrt(q.shape[-1]))
    scores = scores + jnp.where(visible_keys(where, segments, window), 0.0, MASK)
    exps = jnp.exp(scores - scores.max(axis=-1, keepdims=True))
    # One reciprocal per row instead of one division per element.
    probs = (exps * (1 / exps.sum(axis=-1, keepdims=True))).astype(v.dtype)
    dropped = drop_and_scale(probs, seeds, rate) if rate else probs
    out = _product("bhts,bhsd->bhtd", dropped, v).astype(v.dtype)
    return out, (q, k, v, probs, out, seeds)


def _attention_bwd(rate, window, saved, grad):
    del window  # what is not seen has probability 0
    q, k, v, probs, out, seeds = saved
    drop = functools.partial(drop_and_scale, seeds=seeds, rate=rate) if rate else lambda x: x
    grad_v = _product("bhts,bhtd->bhsd", drop(probs), grad)
    grad_probs = drop(_product("bhtd,bhsd->bhts", grad, v))
    # Row sums of probs * grad_probs, at the size of the output (Dao et al., 2022, appendix B.2).
    row = (out.astype(jnp.float32) * grad.astype(jnp.float32)).sum(axis=-1, keepdims=True)
    grad_scores = (probs.astype(jnp.float32) * (grad_probs - row)).astype(q.dtype)
    scale = 1 / math.sqrt(q.shape[-1])
    grad_q = _product("bhts,bhsd->bhtd", grad_scores, k) * scale
    grad_k = _product("bhts,bhtd->bhsd", grad_scores, q) * scale
    grads = grad_q.astype(q.dtype), grad_k.astype(k.dtype), grad_v.astype(v.dtype)
    return *grads, None, None, None


attention.defvjp(_attention_fwd, _attention_bwd)


def linear(x: jax.Array, kernel: jax.Array, bias: jax.Array | None, axes: int = 1) -> jax.Array:
    """x W + b in the dtype of `x`, with gradients of W and b summed in float32.

    Automatic differentiation rounds the gradient of a converted kernel to the compute dtype before
    devices add up theirs, so that a mean over hundreds of chips would be taken in bfloat16. The
    last `axes` of x are summed over, the first of W.
    """
    return _linear(x, kernel, bias, axes)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _linear(x, kernel, bias, axes):
    return _linear_fwd(x, kernel, bias, axes)[0]


def _linear_fwd(x, kernel, bias, axes):
    y = jnp.tensordot(x, kernel.astype(x.dtype), axes)
    if bias is not None:
        y = y + bias.astype(x.dtype)[(None,) * (y.ndim - bias.ndim)]
    return y, (x, kernel, bias)


def linear_gradient(saved, grad, axes=1):
    """The gradient of `linear` in (x, W, b), from these three and that of its output."""
    x, kernel, bias = saved
    rows = tuple(range(x.ndim - axes))
    outputs = tuple(range(len(rows), grad.ndim)), tuple(range(axes, kernel.ndim))
    grad_x = jnp.tensordot(grad, kernel.astype(grad.dtype), outputs)
    grad_kernel = jnp.tensordot(x, grad, (rows, rows), preferred_element_type=jnp.float32)
    return grad_x, grad_kernel, None if bias is None else grad.astype(jnp.float32).sum(rows)


_linear.defvjp(_linear_fwd, lambda axes, saved, grad: linear_gradient(saved, grad, axes))


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def layer_norm(x: jax.Array, scale: jax.Array, bias: jax.Array | None, eps: float) -> jax.Array:
    """Layer normalisation (Ba et al., 2016) of [N, D] in the dtype of `x`, computed in float32."""
    return _layer_norm_fwd(x, scale, bias, eps)[0]


def _layer_norm_fwd(x, scale, bias, eps):
    wide = x.astype(jnp.float32)
    mean = wide.mean(axis=-1, keepdims=True)
    centred = wide - mean
    inverse = jax.lax.rsqrt((centred * centred).mean(axis=-1, keepdims=True) + eps)
    y = centred * inverse * scale[None]
    if bias is not None:
        y = y + bias[None]
    return y.astype(x.dtype), (x, scale, bias, mean, inverse)


def _layer_norm_bwd(eps, saved, grad):
    del eps
    x, scale, bias, *statistics = saved
    # Without the barrier XLA computes the statistics again, in a kernel of its own.
    mean, inverse = jax.lax.optimization_barrier(statistics)
    normed = (x.astype(jnp.float32) - mean) * inverse
    grad = grad.astype(jnp.float32)
    inner = grad * scale[None]
    average = inner.mean(axis=-1, keepdims=True)
    slope = (inner * normed).mean(axis=-1, keepdims=True)
    grad_x = (inverse * (inner - average - normed * slope)).astype(x.dtype)
    return grad_x, (grad * normed).sum(axis=0), None if bias is None else grad.sum(axis=0)


layer_norm.defvjp(_layer_norm_fwd, _layer_norm_bwd)


def activate(take, forget, new, give) -> tuple[jax.Array, ...]:
    """The gates of an LSTM, from what they are functions of."""
    return jax.nn.sigmoid(take), jax.nn.sigmoid(forget), jnp.tanh(new), jax.nn.sigmoid(give)


def grow(gates, cell) -> tuple[jax.Array, jax.Array]:
    """The next cell state of an LSTM, and its output."""
    take, forget, new, give = gates
    grown = forget * cell + take * new
    return grown, give * jnp.tanh(grown)


def grow_gradient(gates, cell, to_output, to_grown) -> tuple[list[jax.Array], jax.Array]:
    """The gradient of `grow` in the inputs of `activate`, and in the cell state."""
    take, forget, new, give = gates
    grown = jnp.tanh(forget * cell + take * new)
    to_grown = to_grown + to_output * give * (1 - grown**2)
    to_gates = [
        to_grown * new * take * (1 - take),
        to_grown * cell * forget * (1 - forget),
        to_grown * take * (1 - new**2),
        to_output * grown * give * (1 - give),
    ]
    return to_gates, to_grown * forget


def gelu(x: jax.Array) -> jax.Array:
    """x Phi(x) with the exact error function (Hendrycks and Gimpel, 2016)."""
    return x * 0.5 * (1 + jax.lax.erf(x * math.sqrt(0.5)))


def _gelu_tanh(x: jax.Array) -> jax.Array:
    return jax.nn.gelu(x, approximate=True)


def _recomputed(function: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    """An element-wise function in float32 that stores only its input for the backward pass."""

    def in_float32(x):
        return function(x.astype(jnp.float32)).astype(x.dtype)

    def backward(x, grad):
        _, vjp = jax.vjp(in_float32, x)
        # Else XLA keeps it in float32 for the sum over rows that is the gradient of a bias.
        return jax.lax.optimization_barrier(vjp(grad))

    wrapped = jax.custom_vjp(in_float32)
    wrapped.defvjp(lambda x: (in_float32(x), x), backward)
    return wrapped


# Keys are the values of `hidden_act` in Hugging Face configs.
ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "gelu": _recomputed(gelu),
    "gelu_new": _recomputed(_gelu_tanh),
    "gelu_pytorch_tanh": _recomputed(_gelu_tanh),
    "relu": jax.nn.relu,
}
