"""The kernels of GPUs, interpreted, against the layer as it is written for other devices."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.encoders import bert, lstm
from hardem_jax.encoders.bert import Bert, BertConfig
from hardem_jax.encoders.ops import attention, fused, gpu_kernels, lstm_kernels, post_norm
from hardem_jax.encoders.ops.fused import drop_and_scale

# Largest relative error of an array, by dtype.
TOLERANCE = {"float32": 1e-6, "bfloat16": 2e-2}
SEEDS = np.array([3, 5], np.uint32)


@pytest.fixture
def interpreted():
    with attention.kernels_are("interpreted"):
        yield


def error(found, expected):
    found, expected = (np.asarray(x, np.float64) for x in (found, expected))
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def random(*shape, dtype="float32", seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def norm_arguments(rows, inputs, width, dtype):
    return (
        random(rows, width, dtype=dtype),
        random(rows, inputs, dtype=dtype, seed=1),
        random(inputs, width, seed=2) / 4,
        random(width, seed=3),
        random(width, seed=4),
        random(width, seed=5),
    )


def plain_norm(rate):
    def compute(residual, x, kernel, bias, scale, shift):
        y = fused.linear(x, kernel, bias)
        if rate:
            y = drop_and_scale(y, jnp.asarray(SEEDS), rate)
        return fused.layer_norm(residual + y, scale, shift, 1e-6)

    return compute


def kernel_norm(rate, times=1):
    settings: Any = {"seeds": jnp.asarray(SEEDS), "eps": 1e-6}

    def compute(*arguments):
        out = post_norm.dense_norm(*arguments, **settings, rate=rate, times=times)
        return sum(x.astype(jnp.float32) for x in out) / times

    return compute


def gradients(function, arguments, out_dtype="float32"):
    """Of a sum in which every element of the output counts differently."""
    weights = random(*jax.eval_shape(function, *arguments).shape, seed=9)

    def total(*arguments):
        return (function(*arguments).astype(out_dtype) * weights).sum()

    return jax.jit(jax.grad(total, argnums=tuple(range(len(arguments)))))(*arguments)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("rate", [0.0, 0.25])
# Rows that fill no tile of a masked width, several loads a row, more tiles than programs.
@pytest.mark.parametrize(("rows", "width"), [(5, 96), (4, 384), (1100, 8)])
@pytest.mark.usefixtures("interpreted")
def test_dense_norm(rows, width, rate, dtype):
    arguments = norm_arguments(rows, 24, width, dtype)
    found, expected = (f(*arguments) for f in (kernel_norm(rate), plain_norm(rate)))
    assert error(found, expected) < TOLERANCE[dtype]
    found = gradients(kernel_norm(rate), arguments)
    expected = gradients(plain_norm(rate), arguments)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype == theirs.dtype
        assert error(mine, theirs) < 2 * TOLERANCE[dtype]


@pytest.mark.usefixtures("interpreted")
def test_dense_norm_adds_up_the_gradients_of_all_its_readers():
    arguments = norm_arguments(5, 24, 96, "float32")
    weights = random(3, 5, 96, seed=7)
    settings: Any = {"seeds": jnp.asarray(SEEDS), "eps": 1e-6}

    def total(*arguments):
        out = post_norm.dense_norm(*arguments, **settings, rate=0.25, times=3)
        return sum((w * x).sum() for w, x in zip(weights, out, strict=True))

    def plain(*arguments):
        return (weights.sum(axis=0) * plain_norm(0.25)(*arguments)).sum()

    found, expected = (jax.grad(f, argnums=range(6))(*arguments) for f in (total, plain))
    for mine, theirs in zip(found, expected, strict=True):
        assert error(mine, theirs) < TOLERANCE["float32"]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("rows", "width"), [(5, 96), (40, 384), (3000, 8)])
@pytest.mark.usefixtures("interpreted")
def test_dense_gelu(rows, width, dtype):
    arguments = random(rows, 24, dtype=dtype), random(24, width, seed=1) / 4, random(width, seed=2)

    def plain(x, kernel, bias):
        return fused.ACTIVATIONS["gelu"](fused.linear(x, kernel, bias))

    functions = post_norm.dense_gelu, plain
    found, expected = (f(*arguments) for f in functions)
    assert error(found, expected) < TOLERANCE[dtype]
    found, expected = (gradients(f, arguments) for f in functions)
    for mine, theirs in zip(found, expected, strict=True):
        assert error(mine, theirs) < 2 * TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.usefixtures("interpreted")
def test_dense_each(dtype):
    inputs = tuple(random(21, 24, dtype=dtype, seed=i) for i in range(3))
    kernels = tuple(random(24, 96, seed=i + 3) / 4 for i in range(3))
    biases = tuple(random(96, seed=i + 6) for i in range(3))
    weights = random(3, 21, 96, seed=9)

    def total(inputs, kernels, biases):
        out = post_norm.dense_each(inputs, kernels, biases)
        return sum((w * y.astype(jnp.float32)).sum() for w, y in zip(weights, out, strict=True))

    def plain(inputs, kernels, biases):
        out = [fused.linear(*each) for each in zip(inputs, kernels, biases, strict=True)]
        return sum((w * y.astype(jnp.float32)).sum() for w, y in zip(weights, out, strict=True))

    functions = (jax.value_and_grad(f, argnums=range(3)) for f in (total, plain))
    found, expected = (jax.tree.leaves(f(inputs, kernels, biases)) for f in functions)
    assert len(found) == 10
    for mine, theirs in zip(found, expected, strict=True):
        assert error(mine, theirs) < TOLERANCE[dtype]


@pytest.mark.usefixtures("interpreted")
def test_gelu_gradient_far_from_zero():
    x = jnp.linspace(-12, 12, 4096).reshape(32, 128)
    found, _ = gpu_kernels.gelu_gradient(x, jnp.ones_like(x), jnp.zeros(128))
    expected = jax.vmap(jax.vmap(jax.grad(fused.gelu)))(x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=5e-7)


CONFIG = BertConfig(50, 32, 2, 4, 64, hidden_dropout=0.2, attention_dropout=0.2)


def bert_gradients(ids, *, kernels, devices=1, **settings):
    """Activations of all layers and the gradient of a loss of a small BERT, compiled on a mesh."""
    from hardem_jax.training.mesh import data_mesh, place_batch

    graphdef, params = nnx.split(Bert(CONFIG, rngs=nnx.Rngs(0), **settings), nnx.Param)

    def loss(params, ids):
        encoder = nnx.merge(graphdef, params)
        states = encoder.hidden_states(ids, where=ids > 0, rngs=nnx.Rngs(dropout=jax.random.key(1)))
        scores = jnp.stack(states).astype(jnp.float32)
        return jnp.mean(scores * random(*scores.shape, seed=4)), scores

    batch = place_batch({"ids": ids}, data_mesh(devices))["ids"]
    compiled = jax.jit(jax.value_and_grad(loss, has_aux=True))
    with attention.kernels_are("interpreted" if kernels else "none"):
        (_, scores), gradient = compiled(params, batch)
    return [np.asarray(x) for x in (scores, *jax.tree.leaves(gradient))]


IDS = np.random.default_rng(0).integers(1, 50, (8, 9)).astype(np.int32)


@pytest.mark.parametrize(
    ("devices", "settings"),
    [(1, {}), (4, {}), (1, {"scan_layers": True}), (1, {"remat": "layer"}), (1, {"remat": "dots"})],
)
def test_layers_compute_the_same_with_kernels_on_any_mesh(devices, settings):
    expected = bert_gradients(IDS, kernels=False, **settings)
    found = bert_gradients(IDS, kernels=True, devices=devices, **settings)
    # Against the largest: the gradients of the keys' biases are zero but for rounding.
    largest = max(np.linalg.norm(theirs) for theirs in expected[1:])
    assert error(found[0], expected[0]) < 3e-6
    for mine, theirs in zip(found[1:], expected[1:], strict=True):
        assert np.linalg.norm(mine - theirs) < 3e-6 * largest


def test_kernels_are_not_used_where_there_is_no_gpu():
    assert not bert._layer_kernels(jnp.ones((2, 8)))


@pytest.mark.usefixtures("interpreted")
def test_nor_for_widths_and_dtypes_that_they_do_not_take():
    assert bert._layer_kernels(jnp.ones((2, 8)))
    assert not bert._layer_kernels(jnp.ones((2, 8192)))
    assert not bert._layer_kernels(jnp.ones((2, 8), jnp.int32))
    with attention.only_xla():
        assert not bert._layer_kernels(jnp.ones((2, 8)))


def test_what_a_gpu_cannot_compile_is_left_to_xla_with_a_warning(monkeypatch):
    monkeypatch.setattr(attention, "platform_of", lambda x: "gpu")
    for kernels, compute in (
        (post_norm, lambda: bert._layer_kernels(jnp.ones((2, 8)))),
        (lstm_kernels, lambda: attention.kernels_compute("LSTMs", jnp.ones(2), lstm._fault)),
    ):
        monkeypatch.setattr(kernels, "fault", lambda *sizes: "no Triton")
        with pytest.warns(UserWarning, match="without kernels of their own: no Triton"):
            assert not compute()


def test_what_a_gpu_cannot_compile_says_why(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert attention.compile_fault(jnp.sin, jnp.ones(2)) is None
    assert "renamed" in (attention.compile_fault(lambda x: x.renamed(), jnp.ones(2)) or "")
    for kernels in (lambda: lstm_kernels.fault.__wrapped__(16), post_norm.fault.__wrapped__):
        assert "interpret mode" in (kernels() or "")  # all that a CPU can do with them
