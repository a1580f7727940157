"""Dropout by hashing: unbiased, independent between elements and keys, one mask both ways."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax.encoders.ops.fused import dropout, dropout_seeds, keep_mask, keep_threshold


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_is_unbiased(rate):
    """Kept share and expectation within four standard errors."""
    n = 1_000_000
    mask = np.asarray(keep_mask(dropout_seeds(jax.random.key(3)), rate, (1000, 1000)))
    error = 4 * math.sqrt(rate * (1 - rate) / n)
    assert abs(mask.mean() - (1 - rate)) < error
    dropped = dropout(jnp.ones((1000, 1000)), rate, jax.random.key(3))
    assert abs(float(dropped.mean()) - 1) < error / (1 - rate)
    assert float(dropped.max()) == np.float32(2**32 / keep_threshold(rate))
    # Every row and column, each of 1000 draws; five errors, because there are 2000 of them.
    for axis in 0, 1:
        rates = mask.mean(axis=axis)
        assert np.abs(rates - (1 - rate)).max() < 5 * math.sqrt(rate * (1 - rate) / 1000)
        assert rates.std() == pytest.approx(math.sqrt(rate * (1 - rate) / 1000), rel=0.15)


def test_dropout_masks_are_independent():
    """Neighbours, powers of two apart, and different keys: no correlation beyond four errors."""
    n = 2**20
    masks = [
        np.asarray(keep_mask(dropout_seeds(jax.random.key(k)), 0.5, (n,))) * 2.0 - 1
        for k in range(4)
    ]
    for lag in [1, 2, 3, 7, 16, 128, 300, 384, 512, 4096, 2**16]:
        assert abs((masks[0][lag:] * masks[0][:-lag]).mean()) < 4 / math.sqrt(n - lag)
    for i in range(4):
        for j in range(i):
            assert abs((masks[i] * masks[j]).mean()) < 4 / math.sqrt(n)


def test_dropout_gradient_uses_the_same_mask():
    x = jnp.linspace(1, 2, 600).reshape(20, 30)
    out, vjp = jax.vjp(lambda x: dropout(x, 0.3, jax.random.key(5)), x)
    (grad,) = vjp(jnp.ones_like(x))
    np.testing.assert_allclose(grad, out / x, rtol=1e-6)
    assert dropout(x, 0.0, jax.random.key(5)) is x
    assert dropout(x, 0.3, None) is x
