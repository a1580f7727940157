"""Layers that several models share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.encoders import layers
from hardem_jax.encoders.bert import BertConfig, BertLayer
from hardem_jax.encoders.layers import masked_max
from hardem_jax.encoders.modernbert import ModernBertConfig, ModernBertLayer, rotation
from hardem_jax.encoders.ops.attention import only_xla
from tests.encoders.modules import assert_trees_close, drawn
from tests.marks import slow

# Programs in which XLA computes a value twice and rounds it differently the second time.
CARELESS = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    x, shift = (jnp.asarray(rng.normal(size=(4, 24, 32)), jnp.float32) for _ in range(2))
    return x, shift, jnp.arange(24)[None] < jnp.array([[24], [13], [1], [0]])


def test_maximum_of_the_unmasked_and_zero_without_any(arrays):
    x, _, where = arrays
    found = masked_max(x, where)
    np.testing.assert_array_equal(found[:2], [x[0].max(axis=0), x[1, :13].max(axis=0)])
    np.testing.assert_array_equal(found[2:], [x[2, 0], np.zeros(32)])
    assert masked_max(x.astype(jnp.bfloat16), where).dtype == jnp.bfloat16
    assert jnp.isnan(masked_max(x.at[0, 3, 5].set(jnp.nan), where)[0, 5])


def test_gradient_reaches_one_position_of_each_maximum_in_any_program(arrays):
    x, shift, where = arrays

    def loss(x):
        return (masked_max(1.3 * x + shift, where) * jnp.arange(1.0, 33.0)[None]).sum()

    gradient = jax.jit(jax.grad(loss), compiler_options=CARELESS)(x)
    expected = np.zeros((4, 24, 32))
    best = np.argmax(np.where(where[..., None], 1.3 * x + shift, -np.inf), axis=1)
    np.put_along_axis(expected, best[:, None], 1.3 * np.arange(1.0, 33.0), axis=1)
    expected[3] = 0  # the row without any position
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)


def test_of_equals_the_first_is_taken():
    gradient = jax.grad(lambda x: masked_max(x, jnp.array([False, True, True, True])).sum())(
        jnp.array([[9.0], [2.0], [2.0], [1.0]])
    )
    assert gradient.tolist() == [[0.0], [1.0], [0.0], [0.0]]


@pytest.mark.parametrize("kind", [BertLayer, *slow(ModernBertLayer)])
def test_heads_of_their_own_axis_change_nothing_but_the_layout(kind, monkeypatch):
    """As products for TPUs write and read them; computed here."""
    x, weight = np.random.default_rng(0).normal(size=(2, 256, 32)).astype(np.float32)
    where = np.arange(128)[None] < np.array([[128], [90]])
    config = {BertLayer: BertConfig, ModernBertLayer: ModernBertConfig}[kind](50, 32, 1, 4, 48)
    options = {"dtype": jnp.float32, "attention": "xla", "recompute_attention": False}
    graphdef, params = nnx.split(drawn(lambda: kind(config, 0, rngs=nnx.Rngs(0), **options)))
    turns = [rotation(jnp.arange(128)[None], 8, 1e4)] * 2 if kind is ModernBertLayer else []

    def traced(length=128):
        def loss(params, x):
            inputs = where[:, :length], None, *turns, None
            return (nnx.merge(graphdef, params)(x, *inputs) * weight[: len(x)]).sum()

        return jax.jit(jax.value_and_grad(loss, (0, 1))).trace(params, x[: 2 * length])

    expected = traced().lower().compile()(params, x)
    monkeypatch.setattr(layers, "platform_of", lambda *arrays: "tpu")
    assert ":f32[2,128,4,8] = dot_general" in str(traced().jaxpr)
    assert_trees_close(traced().lower().compile()(params, x), expected, atol=2e-4)
    with only_xla():  # for devices that are not known yet
        assert ",4,8] = dot_general" not in str(traced().jaxpr)
    if not turns:  # where splash has to pad
        assert ",4,8] = dot_general" not in str(traced(100).jaxpr)
