"""Encoder: masks, dropout, the options that must not change the outputs, and sharding."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from hardem_jax.encoders.bert import Bert, BertConfig
from hardem_jax.errors import InputError
from tests.encoders.modules import assert_trees_close
from tests.marks import slow

CONFIG = BertConfig(50, 16, 2, 4, 32, max_position_embeddings=12)
RNG = np.random.default_rng(0)
IDS = RNG.integers(1, 50, (8, 10))
WHERE = np.arange(10)[None] < np.array([10, 7, 1, 3, 10, 9, 5, 2])[:, None]
TYPES = RNG.integers(0, 2, (8, 10))


@pytest.mark.parametrize("option", [{"remat": "layers"}, {"attention": "flash"}])
def test_options_that_there_are_not_are_refused(option):
    [(name, found)] = option.items()
    with pytest.raises(InputError, match=f"^{name}: expected one of .*, found '{found}'$"):
        Bert(CONFIG, rngs=nnx.Rngs(0), **option)


def make(config=CONFIG, **options):
    return Bert(config, rngs=nnx.Rngs(0), **options)


def value_and_grad(bert, key=None, ids=IDS, where=WHERE):
    """Outputs at real tokens and the gradient of their weighted sum, keyed by dotted path."""
    graphdef, params = nnx.split(bert, nnx.Param)
    shape = (*where.shape, bert.config.hidden_size)
    weight = np.random.default_rng(1).normal(size=shape).astype(np.float32)

    @jax.jit
    def run(params, key, ids, where):
        def loss(params):
            rngs = None if key is None else nnx.Rngs(dropout=key)
            out = nnx.merge(graphdef, params)(ids, where=where, rngs=rngs)
            out = jnp.where(where[..., None], out, 0)
            return (out * weight).sum(), out

        (_, out), grads = jax.value_and_grad(loss, has_aux=True)(params)
        return out, nnx.to_pure_dict(grads)

    return run(params, key, ids, where)


@functools.cache
def reference(seed=None):
    """`value_and_grad` of the plain encoder, compiled once for all tests."""
    return value_and_grad(make(), None if seed is None else jax.random.key(seed))


def stack(tree):
    """The gradient of unrolled layers in the layout of stacked ones."""
    layers = [tree["layers"][i] for i in range(len(tree["layers"]))]
    return tree | {"layers": jax.tree.map(lambda *xs: jnp.stack(xs), *layers)}


@pytest.mark.parametrize(
    ("options", "seed"),
    [
        *slow(({"remat": "layer"}, 0), ({"remat": "attention"}, 0)),
        *slow(({"scan_layers": True}, None)),
        *slow(({"scan_layers": True}, 0)),
        *slow(({"scan_layers": True, "remat": "layer"}, 0)),
        ({"scan_layers": True, "remat": "dots"}, 0),
    ],
)
def test_remat_and_scan_change_nothing(options, seed):
    expected, expected_grads = reference(seed)
    out, grads = value_and_grad(make(**options), None if seed is None else jax.random.key(seed))
    np.testing.assert_allclose(out, expected, atol=2e-6)
    if "scan_layers" in options:
        expected_grads = stack(expected_grads)
    assert_trees_close(grads, expected_grads)


@pytest.mark.slow
def test_what_is_computed_again_need_not_be_stored():
    """From policy to policy the memory of a step falls, and operations are what it costs."""
    ids = np.ones((8, 96), int)
    config = dataclasses.replace(CONFIG, max_position_embeddings=96)
    key = jax.random.key(0)

    def step(remat):
        bert = nnx.eval_shape(lambda: make(config, remat=remat, scan_layers=True))
        graphdef, params = nnx.split(bert, nnx.Param)

        def loss(params, key):
            return nnx.merge(graphdef, params)(ids, where=ids > 0, rngs=nnx.Rngs(dropout=key)).sum()

        compiled = jax.jit(jax.grad(loss)).lower(params, key).compile()
        return compiled.memory_analysis().temp_size_in_bytes, compiled.cost_analysis()["flops"]

    memory, flops = zip(*map(step, ("none", "attention", "dots", "layer")), strict=True)
    assert all(less < 0.9 * more for more, less in itertools.pairwise(memory)), memory
    assert flops[0] < flops[1] < flops[2] < flops[3]


def test_hidden_states_end_with_the_output():
    for scan in False, True:
        bert = make(scan_layers=scan)
        states = bert.hidden_states(IDS, where=WHERE, token_type_ids=TYPES)
        assert len(states) == CONFIG.num_hidden_layers + 1
        last = bert(IDS, where=WHERE, token_type_ids=TYPES)
        np.testing.assert_allclose(states[-1], last, atol=1e-6)
        assert all(state.shape == (8, 10, 16) for state in states)


def test_split_leaves_no_rest():
    """Parameters are all the state there is: no counts, no keys."""
    for scan in False, True:
        _, params, rest = nnx.split(make(scan_layers=scan), nnx.Param, ...)
        assert jax.tree.leaves(params) and not jax.tree.leaves(rest)
        assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype(jnp.float32)}


@pytest.mark.parametrize("seed", [None, 0], ids=["plain", "dropout"])
def test_padding_gets_no_gradient(seed):
    """Word 0 stands at padding only: nothing real may depend on it."""
    ids = np.where(WHERE, IDS, 0)
    _, grads = value_and_grad(make(), None if seed is None else jax.random.key(seed), ids)
    word = grads["embeddings"]["word"]
    np.testing.assert_array_equal(word[0], 0)
    assert np.all(np.abs(word[np.unique(ids[WHERE])]).max(axis=1) > 0)


def test_a_row_without_tokens_is_finite():
    out, grads = value_and_grad(make(), where=np.zeros((8, 10), bool))
    assert np.isfinite(make()(IDS, where=np.zeros((8, 10), bool))).all()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((out, grads)))


def test_wrong_configs():
    with pytest.raises(InputError, match="hidden_size.*4 heads, found 18"):
        dataclasses.replace(CONFIG, hidden_size=18)
    with pytest.raises(InputError, match="hidden_dropout: .* less than 1, found 1.0"):
        dataclasses.replace(CONFIG, hidden_dropout=1.0)


def test_dropout_follows_the_key_and_differs_between_layers(monkeypatch):
    bert = make()
    run = [bert(IDS, where=WHERE, rngs=nnx.Rngs(dropout=k)) for k in (1, 1, 2)]
    np.testing.assert_array_equal(run[0], run[1])
    assert np.abs(run[0] - run[2]).max() > 0.1
    np.testing.assert_array_equal(bert(IDS, where=WHERE), bert(IDS, where=WHERE))

    seen, bits = [], jax.random.bits

    def record(key, *arguments):
        seen.append(np.asarray(bits(key, *arguments)).tobytes())
        return bits(key, *arguments)

    monkeypatch.setattr(jax.random, "bits", record)
    bert(IDS, where=WHERE, rngs=nnx.Rngs(dropout=1))
    # One for the embeddings, three per layer, all different.
    assert len(seen) == len(set(seen)) == 1 + 3 * CONFIG.num_hidden_layers


@pytest.mark.parametrize("scan", [True, *slow(False)])
def test_eight_devices_equal_one(scan):
    """Dropout included: its masks do not depend on how the batch is divided."""
    bert = make(scan_layers=scan)
    expected, expected_grads = reference(0)
    if scan:
        expected_grads = stack(expected_grads)
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    rows = NamedSharding(mesh, PartitionSpec("data"))
    everywhere = NamedSharding(mesh, PartitionSpec())
    graphdef, params = nnx.split(bert, nnx.Param)
    bert = nnx.merge(graphdef, jax.device_put(params, everywhere))
    ids, where = jax.device_put((IDS, WHERE), rows)
    out, grads = value_and_grad(bert, jax.device_put(jax.random.key(0), everywhere), ids, where)
    assert len(out.sharding.device_set) == 8
    np.testing.assert_allclose(out, expected, atol=2e-6)
    assert_trees_close(grads, expected_grads)
