"""Packing changes what the encoder reads, and neither loss nor gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from hardem_jax import HardEM
from hardem_jax.data.batching.plans import packing_arrays, rows_needed
from hardem_jax.encoders.base import encode_layers
from hardem_jax.training.mesh import data_mesh, place_batch
from hardem_jax.training.state import init_state, named_leaves
from hardem_jax.training.step import compile_train_step, make_train_step
from tests.hlo import collectives
from tests.marks import slow
from tests.task.toy import TASKS, make_bert

TOKENS, ROW_TOKENS = 24, 50


@functools.cache
def batch_of(task):
    return TASKS[task].batch(16, TOKENS)


def packed(batch, num_devices=1):
    lengths = batch["where"].sum(axis=1).reshape(num_devices, -1)
    num_rows = max(rows_needed(own, ROW_TOKENS) for own in lengths)
    return batch | packing_arrays(
        batch["where"], num_devices=num_devices, num_rows=num_rows, row_tokens=ROW_TOKENS
    )


def tiny_bert(**encoder):
    """Without dropout: its mask is a function of the place in the row."""
    return make_bert(hidden_dropout=0.0, attention_dropout=0.0, **encoder)


def step_on(task, batch, num_devices=1, **encoder):
    """The compiled step of one update by the gradient itself, its metrics, and the parameters."""
    graphdef, params = nnx.split(TASKS[task].model(tiny_bert(**encoder)), nnx.Param)
    mesh, optimizer = data_mesh(num_devices), optax.sgd(1.0)
    step = make_train_step(TASKS[task].make_loss(graphdef, HardEM()), optimizer)
    state = init_state(params, optimizer, seed=0, mesh=mesh)
    placed = place_batch(batch, mesh)
    compiled = compile_train_step(step, mesh).lower(state, placed).compile()
    state, metrics = compiled(state, placed)
    return compiled, jax.device_get(metrics), jax.device_get(named_leaves(state.params))


def assert_same_step(one, other):
    assert one[1]["loss"] == pytest.approx(other[1]["loss"], rel=1e-5)
    assert one[1]["grad_norm"] == pytest.approx(other[1]["grad_norm"], rel=1e-4)
    for name, value in one[2].items():
        np.testing.assert_allclose(value, other[2][name], atol=2e-5, err_msg=name)


# SQLova reads `encode_layers`, which is tested below; its losses take half a minute to compile.
@pytest.mark.slow
@pytest.mark.parametrize("task", ["spans", "taggings", *slow("equations")])
def test_a_packed_step_is_the_step(task):
    batch = batch_of(task)
    assert packed(batch)["packing"].size < 0.95 * batch["where"].size
    assert_same_step(step_on(task, batch), step_on(task, packed(batch)))


@pytest.mark.slow
def test_every_device_packs_its_own_rows_and_sends_none():
    compiled, *results = step_on("spans", packed(batch_of("spans"), num_devices=8), num_devices=8)
    assert_same_step(step_on("spans", batch_of("spans")), (compiled, *results))
    assert {kind for kind, _ in collectives(compiled.as_text())} == {"all-reduce"}


@pytest.mark.slow
def test_layers_of_packed_rows_in_bfloat16():
    batch = batch_of("spans")
    graphdef, params = nnx.split(tiny_bert(dtype=jnp.bfloat16, scan_layers=True))

    @functools.partial(jax.jit, static_argnames="count")
    def read(batch, count):
        return encode_layers(nnx.merge(graphdef, params), batch, count=count)

    padded, unpacked = read(batch, 3), read(packed(batch), 3)
    assert [x.dtype for x in unpacked] == [jnp.bfloat16] * 3
    for a, b in zip(padded, unpacked, strict=True):
        real = batch["where"]
        difference = np.asarray(a, np.float32)[real] - np.asarray(b, np.float32)[real]
        assert np.abs(difference).max() < 0.05
        assert (np.asarray(b, np.float32)[~real] == 0).all()
    np.testing.assert_array_equal(read(packed(batch), 1)[0], unpacked[-1])
