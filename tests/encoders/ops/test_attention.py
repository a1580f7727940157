"""Attention by name: kernels equal plain XLA, and which of them computes is read off programs."""

import functools
import re
import types
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import AbstractDevice, AbstractMesh, AxisType, NamedSharding, PartitionSpec

from hardem_jax.data.batching.plans import packing_arrays
from hardem_jax.encoders.bert import Bert, BertConfig
from hardem_jax.encoders.ops import attention_kernels
from hardem_jax.encoders.ops.attention import Texts, attention, kernels
from hardem_jax.encoders.ops.fused import dropout_seeds
from hardem_jax.errors import InputError
from tests.encoders.modules import assert_trees_close
from tests.marks import slow

B, T, HEADS, SIZE = 8, 20, 2, 8
RNG = np.random.default_rng(0)
# Padding last, and a row of nothing else.
WHERE = np.arange(T)[None] < np.array([20, 13, 1, 20, 9, 17, 5, 0])[:, None]
SEGMENTS = np.searchsorted([1, 6, 11], np.arange(T), side="right")[None].repeat(B, axis=0)
Q, K, V, WEIGHT = RNG.normal(size=(4, B, T, HEADS, SIZE)).astype(np.float32)


def with_gradients(attend):
    """`(q, k, v, where, weight) ->` outputs at real tokens and the gradients of their sum."""

    def run(q, k, v, where, weight):
        def loss(q, k, v):
            out = jnp.where(where[..., None, None], attend(q, k, v, where), 0)
            return (out * weight).sum(), out

        return jax.value_and_grad(loss, (0, 1, 2), has_aux=True)(q, k, v)

    return run


def of_xla(segments, window=None):
    attend = functools.partial(attention, segments=segments, window=window, implementation="xla")
    return with_gradients(lambda q, k, v, where: attend(q, k, v, where=where))


def of_splash(segments, window=None):
    attend = functools.partial(
        attention_kernels.splash, segments=segments, window=window, interpret=True
    )
    return with_gradients(lambda q, k, v, where: attend(q, k, v, where))


@pytest.mark.slow
@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("segments", [None, SEGMENTS], ids=["whole", "segments"])
def test_the_kernel_of_tpus_equals_xla(segments, window):
    inputs = Q, K, V, WHERE, WEIGHT
    expected, actual = (jax.jit(of(segments, window))(*inputs) for of in (of_xla, of_splash))
    assert_trees_close(actual, expected)


@pytest.mark.parametrize("recompute", [False, True])
def test_a_window_sees_what_the_same_tokens_alone_would(recompute):
    attend = functools.partial(attention, window=2, recompute=recompute)
    out = attend(Q, K, V, where=WHERE)
    # Token 9 sees tokens 7 to 11, as the middle one of these five does by themselves.
    part = slice(7, 12)
    alone = attention(Q[:, part], K[:, part], V[:, part], where=WHERE[:, part])
    np.testing.assert_allclose(out[[0, 1, 3], 9], alone[[0, 1, 3], 2], atol=1e-6)
    assert np.isfinite(out).all()
    wide = attend(Q, K, V, where=WHERE, segments=np.zeros_like(WHERE, np.int32))
    np.testing.assert_allclose(wide[WHERE], out[WHERE], atol=1e-6)


def test_devices_run_the_kernel_on_their_own_rows():
    mesh = jax.make_mesh((4, 2), ("data", "fsdp"), axis_types=(AxisType.Auto,) * 2)
    rows = NamedSharding(mesh, PartitionSpec(("data", "fsdp")))
    inputs = jax.device_put((Q, K, V, WHERE, WEIGHT), rows)
    compiled = jax.jit(of_splash(None)).lower(*inputs).compile()
    assert_trees_close(compiled(*inputs), of_xla(None)(Q, K, V, WHERE, WEIGHT))
    # The sum of the loss, and no row of anything.
    assert set(re.findall(r" = (\S+) (?:all|reduce|coll)[\w-]+\(", compiled.as_text())) <= {"f32[]"}


def device_of(platform):
    """An array on a device that is not here."""
    device = AbstractDevice(device_kind=platform, num_cores=None, platform=platform)
    mesh = AbstractMesh((1,), ("data",), (AxisType.Auto,), abstract_device=device)
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    return functools.partial(jax.ShapeDtypeStruct, sharding=sharding)


def program_for(platform, implementation, *, dtype=jnp.bfloat16, rate=0.0, slots=None):
    """The traced attention of arrays on such a device, maybe of `Texts`."""
    array = device_of(platform)
    x, where = array((B, T, HEADS, SIZE), dtype), array((B, T), jnp.bool_)
    seeds = dropout_seeds(jax.random.key(0)) if rate else None
    segments = None if slots is None else Texts(array((B, T), jnp.int32), slots)
    call = functools.partial(attention, seeds=seeds, rate=rate, implementation=implementation)

    def run(x, where, segments):
        return call(x, x, x, where=where, segments=segments)

    return str(jax.make_jaxpr(run)(x, where, segments))


@pytest.fixture
def cudnn_here(monkeypatch):
    """JAX finds a version of cuDNN on this machine, which is enough to trace its kernels.

    JAX has no public way to say so, and its kernels are to be tested without a GPU.
    """
    library = pytest.importorskip("jax._src.cudnn.fused_attention_stablehlo")
    version = types.SimpleNamespace(cudnn_get_version=lambda: 91000)
    monkeypatch.setattr(library, "cuda_versions", version)
    monkeypatch.setattr(library, "check_compute_capability", lambda capability: True)
    attention_kernels._fault_of_rows.cache_clear()
    yield library
    attention_kernels._fault_of_rows.cache_clear()


def test_auto_chooses_by_the_device_the_arrays_lie_on(cudnn_here):
    assert "splash" in program_for("tpu", "auto")
    assert "splash" in program_for("tpu", "auto", dtype=jnp.float32)
    assert "dot_product_attention_fwd" in program_for("gpu", "auto")
    plain = program_for("cpu", "xla")
    assert "pallas" not in plain and "dot_product_attention_fwd" not in plain
    # What the kernels cannot do is left to XLA without a word.
    by_xla = program_for("gpu", "xla", dtype=jnp.float32)
    assert program_for("gpu", "auto", dtype=jnp.float32) == by_xla
    for platform in "tpu", "gpu":
        dropped = program_for(platform, "auto", rate=0.1)
        assert dropped == program_for(platform, "xla", rate=0.1) != plain
    assert program_for("cpu", "auto") == plain


def test_a_kernel_that_is_missing_is_replaced_and_the_warning_says_so(monkeypatch):
    x = jnp.asarray(Q, jnp.bfloat16)
    expected = attention(x, x, x, where=WHERE, implementation="xla")
    for name, reason in (("splash", "of TPUs, not of this cpu"), ("cudnn", "of GPUs, not of this")):
        with pytest.warns(UserWarning, match=f"by XLA, not by '{name}': a kernel {reason}"):
            actual = attention(x, x, x, where=WHERE, implementation=name)
        np.testing.assert_array_equal(actual, expected)
    for name in "auto", "cudnn":
        with pytest.warns(UserWarning, match="not by 'cudnn': cuDNN is not detected"):
            program = program_for("gpu", name)
        assert "dot_product_attention_fwd" not in program
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for _ in range(3):
            attention(x, x, x, where=WHERE, implementation="splash")
    assert len(shown) == 1


@pytest.mark.parametrize("length", [20, 21])
@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("segmented", [False, True, "texts"])
def test_cudnn_lowers_to_its_own_kernels(cudnn_here, segmented, window, length):
    """Lowered for GPUs on a machine without one; they are not run here."""
    texts = 3 if segmented == "texts" and window is None else None
    masked = not texts and (bool(segmented) or window is not None)
    shape = B, length, HEADS, SIZE
    assert attention_kernels.cudnn_fault(shape, jnp.bfloat16, masked, texts) is None
    x = jax.ShapeDtypeStruct((B, length, HEADS, SIZE), jnp.bfloat16)
    where = jax.ShapeDtypeStruct((B, length), jnp.bool_)
    segments = jax.ShapeDtypeStruct((B, length), jnp.int32) if segmented else None

    def total(q, k, v, where, segments):
        out = attention_kernels.cudnn(q, k, v, where, segments, window=window)
        if texts:
            out = attention_kernels.cudnn_texts(q, k, v, segments, texts)
        return out.astype(jnp.float32).sum()

    step = jax.jit(jax.grad(total, (0, 1, 2))).trace(x, x, x, where, segments)
    name = "__cudnn$fmhaScaleBiasSoftmax" if masked else "__cudnn$fmhaSoftmax"
    program = step.lower(lowering_platforms=("cuda",)).as_text()
    assert kernels(program) == {name: 1, f"{name}Backward": 1}


def emulated(q, k, v, *, q_seqlen, kv_seqlen, q_offsets, kv_offsets, scale):
    """JAX's function by what it gives to cuDNN: where it writes nothing there is no number."""
    library = pytest.importorskip("jax._src.cudnn.fused_attention_stablehlo")
    assert (q_seqlen is kv_seqlen, q_offsets is kv_offsets, scale) == (True, True, SIZE**-0.5)
    fixed = library._fix_seqlen_offsets(q_seqlen, kv_seqlen, q_offsets, kv_offsets, q, k)
    lengths, begins = fixed[0].reshape(-1), fixed[2].reshape(-1)[: q_seqlen.size] // (HEADS * SIZE)
    tokens = jnp.arange(q.shape[0] * q.shape[1])[:, None]
    inside = (begins[None] <= tokens) & (tokens < (begins + lengths)[None])
    number, one_row = inside.argmax(axis=1)[None], (1, -1, HEADS, SIZE)
    flat = (x.reshape(one_row) for x in (q, k, v))
    out = attention(*flat, where=inside.any(axis=1)[None], segments=number, implementation="xla")
    return jnp.where(inside.any(axis=1)[:, None, None], out, jnp.nan).reshape(q.shape)


@pytest.mark.parametrize("num_devices", [1, *slow(2), 8])
def test_texts_of_packed_rows_are_found_by_their_places(cudnn_here, monkeypatch, num_devices):
    monkeypatch.setattr(cudnn_here, "dot_product_attention", emulated)
    # On one device 16 texts of a token crowd three rows, which then come last.
    where = np.arange(10)[None] < np.tile([[7], [7], [1], [1]], (8, 1))
    rows = packing_arrays(where, num_devices=num_devices, num_rows=8 // num_devices, row_tokens=T)
    places = rows["packing"].reshape(B, T)
    real, segments = places >= 0, np.where(places < 0, -1, places // 10)

    def of_texts(q, k, v, where):
        return attention_kernels.cudnn_texts(q, k, v, jnp.asarray(segments), 5)

    mesh = jax.make_mesh((num_devices,), ("data",), axis_types=(AxisType.Auto,))
    inputs = jax.device_put((Q, K, V, real, WEIGHT), NamedSharding(mesh, PartitionSpec("data")))
    actual = jax.jit(with_gradients(of_texts))(*inputs)
    assert_trees_close(actual, of_xla(segments)(Q, K, V, real, WEIGHT))


def refusing(*arrays, **places):
    raise NotImplementedError("Packed layout requires a GPU\nof these")


@pytest.mark.parametrize(
    ("kernel", "fault"),
    [
        (emulated, None),
        # Texts see all tokens of their row; nothing is written; only a gradient is wrong.
        (lambda q, k, v, **_: jax.nn.dot_product_attention(q, k, v), "miss XLA's by [1-9][0-9]"),
        (lambda q, k, v, **_: q * jnp.nan, "miss XLA's by nan"),
        (lambda q, k, v, **at: emulated(q, jax.lax.stop_gradient(k), v, **at), "by 100"),
        (refusing, "Packed layout requires a GPU$"),
        (None, "has no attribute 'dot_product_attention'"),
    ],
)
def test_a_gpu_compares_the_places_of_texts_first(cudnn_here, monkeypatch, kernel, fault):
    monkeypatch.setattr(cudnn_here, "dot_product_attention", kernel)
    if kernel is None:
        monkeypatch.delattr(cudnn_here, "dot_product_attention")
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    found = []

    def step(x):  # asks while it is traced
        found.append(attention_kernels.cudnn_fault(x.shape, x.dtype, False, 4))
        return x

    with jax.transfer_guard("disallow"):  # of training, which may forbid it
        for rows in B, B + 1:
            jax.eval_shape(step, jax.ShapeDtypeStruct((rows, T, HEADS, SIZE), jnp.bfloat16))
    assert found == [None] * 2 if fault is None else re.search(fault, found[0])
    assert attention_kernels._fault_of_rows.cache_info().misses == 1


def test_packed_rows_need_no_mask_with_few_texts_a_row(cudnn_here):
    program = program_for("gpu", "auto", slots=3)
    assert "dot_product_attention_fwd" in program and f"{B},1,{T},{T}" not in program
    # The same for any number of rows: Python shows a warning of one text once.
    message = r"a mask \[B, 1, T, T\]: expected at most 8 slots for the texts of a row, found 9$"
    with pytest.warns(UserWarning, match=message):
        assert f"{B},1,{T},{T}" in program_for("gpu", "auto", slots=9)
    fault = attention_kernels.cudnn_fault((2**20, 512, 2, 8), jnp.bfloat16, False, 3)
    assert "fewer than 2**31 numbers" in fault


def test_a_kernel_by_name_refuses_what_it_cannot_compute():
    config = BertConfig(50, 16, 1, 2, 32, attention_dropout=0.1)
    for name in "splash", "cudnn":
        message = f"attention_dropout 0 with the kernel '{name}', .*0.1"
        with pytest.raises(InputError, match=message):
            Bert(config, rngs=nnx.Rngs(0), dtype=jnp.bfloat16, attention=name)
    with pytest.raises(InputError, match="bfloat16 or float16 with .*'cudnn', found float32"):
        attention(Q, K, V, where=WHERE, implementation="cudnn")
