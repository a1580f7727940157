"""Batched bidirectional LSTMs against one written out step by step."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.encoders import lstm
from hardem_jax.encoders.lstm import BiLSTMs, last_output
from hardem_jax.encoders.ops import attention
from hardem_jax.training.mesh import data_mesh, place_batch
from tests.encoders.modules import drawn

M, B, T, INPUTS, SIZE, LAYERS = 3, 2, 5, 6, 4, 2
LENGTHS = np.array([3, 5])
WHERE = np.arange(T)[None] < LENGTHS[:, None]


def make(layers, size=SIZE):
    return drawn(lambda: BiLSTMs(M, INPUTS, size, num_layers=layers, dropout=0.5, rngs=nnx.Rngs(0)))


@pytest.fixture(scope="module")
def lstms():
    return make(LAYERS)


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).normal(size=(B, T, INPUTS)).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def one_way(x, kernel, recurrent, bias, hidden, cell):
    """[T, I] of real positions -> [T, h]."""
    outputs = []
    for now in x:
        i, f, g, o = np.split(now @ kernel + hidden @ recurrent + bias, 4)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell)
        outputs.append(hidden)
    return np.stack(outputs)


def by_hand(lstms, x, initial):
    """[M, B, T, 2h], every LSTM and example by itself."""
    result = np.zeros((M, B, T, SIZE))
    for m in range(M):
        for b, length in enumerate(LENGTHS):
            text = x[b, :length]
            for layer in range(LAYERS):
                halves = []
                for direction in range(2):
                    kernel = lstms.kernel[...][:, m, direction]
                    if layer:
                        kernel = lstms.deeper[layer - 1][...][m, direction]
                    states = (np.asarray(s)[layer, m, direction, b] for s in initial)
                    weights = (p[layer][...][m, direction] for p in (lstms.recurrent, lstms.bias))
                    turned = text if direction == 0 else text[::-1]
                    out = one_way(turned, np.asarray(kernel), *map(np.asarray, weights), *states)
                    halves.append(out if direction == 0 else out[::-1])
                text = np.concatenate(halves, axis=-1)
            result[m, b, :length] = text
    return result


@pytest.mark.parametrize("from_zero", [True, False])
def test_outputs_are_those_of_lstms_one_by_one(lstms, x, from_zero):
    shape = (LAYERS, M, 2, B, SIZE // 2)
    states = tuple(np.random.default_rng(s).normal(size=shape).astype(np.float32) for s in (1, 2))
    expected = by_hand(lstms, x, tuple(0 * s for s in states) if from_zero else states)
    run = jax.jit(lambda x, s: lstms(lstms.project(x), WHERE, initial=s))
    found = run(x, None if from_zero else states)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    at_the_end = [found[:, b, length - 1] for b, length in enumerate(LENGTHS)]
    np.testing.assert_array_equal(last_output(found, jnp.asarray(WHERE)), np.stack(at_the_end, 1))


def test_gradients_are_those_of_the_loop():
    """The backward loop is written by hand; JAX differentiates the forward loop by itself."""
    rng = np.random.default_rng(0)
    hidden = SIZE // 2

    def normal(*shape):
        return jnp.asarray(rng.normal(size=shape), jnp.float32)

    gates, recurrent = normal(T, M, 2, B, 4 * hidden), normal(M, 2, hidden, 4 * hidden)
    state = normal(M, 2, B, hidden), normal(M, 2, B, hidden)
    upstream, real = normal(T, M, 2, B, hidden), jnp.asarray(rng.random((T, 2, B)) < 0.7)

    def gradient(run):
        def loss(gates, recurrent, state):
            return jnp.sum(upstream * run(gates, recurrent, real, state))

        return jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(gates, recurrent, state)

    found, expected = gradient(lstm._run), gradient(lambda *args: lstm._run_fwd(*args)[0])
    assert all(np.any(leaf) for leaf in jax.tree.leaves(expected))
    close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6)
    jax.tree.map(close, found, expected)


def test_dropout_is_between_layers_only(lstms, x):
    def reader(lstms):
        def read(key):
            rngs = None if key is None else nnx.Rngs(dropout=key)
            return lstms(lstms.project(x), jnp.asarray(WHERE), rngs=rngs)

        return jax.jit(read)

    read = reader(lstms)
    one, other = (read(jax.random.key(seed)) for seed in (0, 1))
    assert np.any(one != other)
    read = reader(make(1))
    np.testing.assert_array_equal(read(jax.random.key(0)), read(None))


@pytest.mark.slow
# Tiles that rows and columns do not fill: one, and two on each of several devices.
@pytest.mark.parametrize(("rows", "size", "devices"), [(5, 100, 1), (34, 14, 2)])
def test_kernels_compute_the_same_with_the_same_dropout(rows, size, devices):
    graphdef, params = nnx.split(make(LAYERS, size))
    rng = np.random.default_rng(0)
    shapes = (rows, T, INPUTS), (2, LAYERS, M, 2, rows, size // 2), (M, rows, T, size)
    x, states, weights = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    batch = {"x": x, "where": np.arange(T) < rng.integers(T + 1, size=(rows, 1))}

    def compute(num_devices):
        def loss(params, states, batch):
            lstms, rngs = nnx.merge(graphdef, params), nnx.Rngs(dropout=jax.random.key(0))
            gates = lstms.project(batch["x"])
            outputs = lstms(gates, batch["where"], initial=tuple(states), rngs=rngs)
            return (outputs * weights).sum(), outputs

        step = jax.jit(jax.grad(loss, argnums=(0, 1), has_aux=True))
        traced = step.trace(params, states, place_batch(batch, data_mesh(num_devices)))
        kernels = attention.allowed_kernels() == "interpreted"
        assert ("pallas_call" in str(traced.jaxpr)) == kernels
        return traced.lower().compile()(params, states, place_batch(batch, data_mesh(num_devices)))

    expected = compute(1)
    with attention.kernels_are("interpreted"):
        found = compute(devices)
    for mine, theirs in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        mine, theirs = np.asarray(mine), np.asarray(theirs)
        assert np.linalg.norm(mine - theirs) < 1e-6 * np.linalg.norm(theirs)


def test_wide_states_are_left_to_the_loop():
    lstms = nnx.eval_shape(lambda: make(1, 130))
    gates, where = jnp.ones((2, 3, M, 2, 4 * 65)), jnp.ones((2, 3), bool)
    with attention.kernels_are("interpreted"):
        assert "pallas_call" not in str(jax.make_jaxpr(lambda x: x(gates, where))(lstms))
