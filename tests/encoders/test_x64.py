"""Models in programs that enable 64 bits: their arrays stay in float32."""

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from hardem_jax.encoders.lstm import BiLSTMs
from hardem_jax.equations.qanet import PassageQuestionAttention

pytestmark = pytest.mark.usefixtures("x64")


def test_lstms_return_float32():
    def run(x):
        lstms = BiLSTMs(1, 6, 4, num_layers=2, dropout=0.0, rngs=nnx.Rngs(0))
        return lstms(lstms.project(x), jnp.ones((2, 5), bool))

    x = jax.ShapeDtypeStruct((2, 5, 6), jnp.float32)
    assert jax.eval_shape(run, x).dtype == jnp.float32


def test_parameters_are_float32():
    make = nnx.eval_shape(lambda: PassageQuestionAttention(4, rngs=nnx.Rngs(0)))
    assert {leaf.dtype for leaf in jax.tree.leaves(nnx.state(make))} == {jnp.dtype("float32")}
