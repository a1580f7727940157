"""Operations with derivatives of their own, against plain ones differentiated by JAX."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax.encoders.ops.fused import (
    attention,
    dropout_seeds,
    keep_mask,
    keep_threshold,
    layer_norm,
    linear,
)
from tests.encoders.modules import assert_trees_close
from tests.marks import slow

RNG = np.random.default_rng(0)
WHERE = np.arange(10)[None] < np.array([10, 7, 1, 3, 10, 9, 5, 2])[:, None]


def plain_attention(q, k, v, where, segments, seeds, rate, window):
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    seen = where[:, None, None]
    if segments is not None:
        seen = seen & (segments[:, None, :, None] == segments[:, None, None, :])
    if window is not None:
        places = np.arange(where.shape[1])
        seen = seen & (abs(places[:, None] - places) <= window)
    probs = jax.nn.softmax(scores, axis=-1, where=seen)
    if rate:
        probs = probs * keep_mask(seeds, rate, probs.shape) * (2**32 / keep_threshold(rate))
    return probs @ v


def plain_layer_norm(x, scale, bias=None):
    normed = (x - x.mean(1, keepdims=True)) / jnp.sqrt(x.var(1, keepdims=True) + 1e-5)
    return normed * scale[None] + (0.0 if bias is None else bias[None])


# Of each row the first 1, 3 and 5 tokens, and the rest.
SEGMENTS = np.searchsorted([1, 3, 5], np.arange(10), side="right")[None] + np.zeros((8, 1), int)


@pytest.mark.parametrize("segments", [None, SEGMENTS], ids=["whole", "segments"])
@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("rate", [0.4, *slow(0.0)])
def test_attention_and_its_gradient(rate, window, segments):
    q, k, v, weight = RNG.normal(size=(4, 8, 2, 10, 4)).astype(np.float32)
    seeds = dropout_seeds(jax.random.key(0)) if rate else None

    def run(function):
        def loss(q, k, v):
            out = function(q, k, v, WHERE, segments, seeds, rate, window)
            out = jnp.where(WHERE[:, None, :, None], out, 0)
            return (out * weight).sum(), out

        return jax.value_and_grad(loss, (0, 1, 2), has_aux=True)(q, k, v)

    assert_trees_close(run(attention), run(plain_attention))


@pytest.mark.parametrize("bias", [None, RNG.normal(size=3).astype(np.float32)])
def test_linear_and_its_gradient(bias):
    x, kernel = (RNG.normal(size=shape).astype(np.float32) for shape in ((5, 6, 4), (4, 3)))
    weight = RNG.normal(size=(5, 6, 3)).astype(np.float32)

    def run(function):
        return jax.value_and_grad(lambda *a: (function(*a) * weight).sum(), (0, 1, 2))(
            x, kernel, bias
        )

    expected = run(lambda x, w, b: x @ w + (0.0 if b is None else b[None, None]))
    assert_trees_close(run(linear), expected, rtol=1e-5, atol=1e-5)


def test_linear_sums_gradients_in_float32_when_it_computes_in_bfloat16():
    x = RNG.normal(size=(4096, 4)).astype(jnp.bfloat16)
    kernel, bias = jnp.ones((4, 3)), jnp.zeros(3)
    weight = RNG.normal(size=(4096, 3)).astype(jnp.bfloat16)

    def loss(kernel, bias):
        y = linear(jnp.asarray(x), kernel, bias)
        assert y.dtype == jnp.bfloat16
        return (y * weight).astype(jnp.float32).sum()

    of_kernel, of_bias = jax.grad(loss, (0, 1))(kernel, bias)
    x, weight = x.astype(np.float64), weight.astype(np.float64)
    # One bfloat16 has a relative precision of 4e-3.
    np.testing.assert_allclose(of_kernel, x.T @ weight, rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(of_bias, weight.sum(axis=0), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("biased", [True, False])
def test_layer_norm_and_its_gradient(biased):
    x, weight = RNG.normal(size=(2, 6, 16)).astype(np.float32)
    scale, bias = RNG.normal(size=(2, 16)).astype(np.float32)
    inputs = (x, scale, bias) if biased else (x, scale)

    def run(function):
        loss = jax.value_and_grad(lambda *a: (function(*a) * weight).sum(), range(len(inputs)))
        return loss(*inputs)

    actual = run(lambda x, scale, bias=None: layer_norm(x, scale, bias, 1e-5))
    assert_trees_close(actual, run(plain_layer_norm))
