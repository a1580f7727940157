"""Several texts in one row: what each gets is what it gets alone."""

import jax
import numpy as np
import pytest
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from hardem_jax.data.batching.plans import packing_arrays
from hardem_jax.encoders import base
from hardem_jax.encoders.base import encode, encode_layers
from hardem_jax.encoders.bert import Bert, BertConfig
from hardem_jax.encoders.ops.attention import Texts
from hardem_jax.errors import InputError
from tests.encoders.modules import assert_trees_close
from tests.hlo import collectives
from tests.marks import slow

# Rows of 14 tokens, more than the position table has.
CONFIG = BertConfig(50, 16, 2, 4, 32, max_position_embeddings=9)
LENGTHS = np.array([5, 8])
RNG = np.random.default_rng(0)
# Eight pairs of texts; PACKED holds a pair in each row with one token of padding between them.
ALONE = {
    "token_ids": RNG.integers(1, 50, (16, 9)),
    "where": np.arange(9)[None] < np.tile(LENGTHS, 8)[:, None],
    "token_type_ids": RNG.integers(0, 2, (16, 9)),
}
SLOTS = np.r_[0:5, 6:14]  # where the tokens of the first and of the second text stand


def packed(name):
    """[8, 14] of the two texts of each row, and zeros at padding."""
    values = ALONE[name][ALONE["where"]].reshape(8, 13)
    row = np.zeros((8, 14), values.dtype)
    row[:, SLOTS] = values
    return row


PACKED = {name: packed(name) for name in ALONE} | {
    "positions": np.tile(np.r_[0:5, 0, 0:8], (8, 1)),
    "segments": np.tile(np.r_[[1] * 5, 0, [2] * 8], (8, 1)),
}
WEIGHT = RNG.normal(size=(8 * 13, 16)).astype(np.float32)


def spread(where):
    """WEIGHT at real tokens of either layout, 0 elsewhere."""
    weight = np.zeros((*where.shape, 16), np.float32)
    weight[where] = WEIGHT
    return weight


def step_of(bert):
    """`(params, inputs, weight) -> ((loss, outputs), gradients)`, and `params`."""
    graphdef, params = nnx.split(bert, nnx.Param)

    def loss(params, inputs, weight):
        out = nnx.merge(graphdef, params)(**inputs)
        return (out * weight).sum(), out

    return jax.value_and_grad(loss, has_aux=True), params


@pytest.mark.parametrize("scan", [True, *slow(False)])
def test_texts_that_share_a_row_are_as_if_alone(scan):
    step, params = step_of(Bert(CONFIG, rngs=nnx.Rngs(0), scan_layers=scan))
    step = jax.jit(step)
    (_, expected), expected_grads = step(params, ALONE, spread(ALONE["where"]))
    (_, out), grads = step(params, PACKED, spread(PACKED["where"]))
    np.testing.assert_allclose(out[PACKED["where"]], expected[ALONE["where"]], atol=2e-6)
    assert np.isfinite(out).all()
    assert_trees_close(grads, expected_grads)


def test_eight_devices_reduce_gradients_and_nothing_else():
    step, params = step_of(Bert(CONFIG, rngs=nnx.Rngs(0)))
    weight = spread(PACKED["where"])
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    rows, everywhere = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (["data"], []))
    inputs = jax.device_put(params, everywhere), *jax.device_put((PACKED, weight), rows)
    outputs = (everywhere, rows), everywhere
    compiled = jax.jit(step, out_shardings=outputs).lower(*inputs).compile()
    (_, expected), expected_grads = jax.jit(step)(params, PACKED, weight)
    (_, out), grads = compiled(*inputs)
    np.testing.assert_allclose(out, expected, atol=2e-6)
    assert_trees_close(grads, expected_grads)
    assert {kind for kind, _ in collectives(compiled.as_text())} == {"all-reduce"}


@pytest.mark.parametrize("count", [1, 2])
def test_inputs_beyond_the_positions_are_refused_packed_as_padded(count):
    bert = Bert(CONFIG, rngs=nnx.Rngs(0))
    where = np.ones((2, 10), bool)
    ids = where.astype(np.int32)
    batch = {"token_ids": ids, "token_type_ids": ids, "where": where}
    rows = packing_arrays(where, num_devices=1, num_rows=1, row_tokens=20)
    for own in batch, batch | rows:
        with pytest.raises(InputError, match="Bert input: expected at most 9 tokens, found 10"):
            encode_layers(bert, own, count=count)


def test_a_gpu_gets_rows_of_texts_with_a_slot_more_than_a_row_has_on_average(monkeypatch):
    where = np.arange(9)[None] < np.array([[9], [9], [2], [3], [4]])
    batch = {"token_ids": where, "token_type_ids": where, "where": where}
    batch |= packing_arrays(where, num_devices=1, num_rows=2, row_tokens=14)
    bert, seen = Bert(CONFIG, rngs=nnx.Rngs(0)), []
    monkeypatch.setattr(bert, "_run", lambda *inputs: seen.append(inputs[4]) or [inputs[0]])
    encode(bert, batch)
    monkeypatch.setattr(base, "platform_of", lambda *arrays: "gpu")
    encode(bert, batch)
    plain, texts = seen
    assert isinstance(texts, Texts) and texts.slots == 4
    np.testing.assert_array_equal(texts.segments, plain)
