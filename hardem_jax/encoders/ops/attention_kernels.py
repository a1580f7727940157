"""Attention kernels for GPUs and TPUs, which hold no array of size T x T.

They compute what `fused.attention` does without dropout, on [B, T, heads, head size]. Call
`attention.attention`, which checks whether a kernel can be used.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hardem_jax.encoders.ops import fused
from hardem_jax.placement import on_own_rows

# Lanes of a TPU's registers: the kernel's blocks are whole numbers of them along T.
_LANES = 128
# Tokens of a block, the most first. A block of 512 x 512 float32 scores fills 1 MiB of on-chip
# memory, and a whole row of that length is one block.
_BLOCKS = (512, 384, 256, 128)
# Segment of keys that nothing attends to: no query has it.
_HIDDEN = np.iinfo(np.int32).min
#: Slots for the texts of a packed row, at most: cuDNN keeps float32 sums of a whole row for each.
MOST_SLOTS = 8


def splash(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    where: jax.Array,
    segments: jax.Array | None,
    *,
    window: int | None = None,
    interpret: bool = False,
) -> jax.Array:
    """By the Pallas kernel "splash" of JAX, on TPUs (Dao et al., 2022, tiled for them).

    T is padded to a multiple of 128 inside. On a mesh, every device computes its own rows: the
    compiler cannot partition a kernel. `interpret` runs its body as ordinary operations.
    """
    length, size = q.shape[1], q.shape[-1]
    padded = -(-length // _LANES) * _LANES

    def by_head(x):  # [B, T, heads, head size] -> [B, heads, padded T, head size]
        return _pad_tokens(x, padded).transpose(0, 2, 1, 3)

    query_segments = jnp.zeros(where.shape, jnp.int32) if segments is None else segments
    key_segments = jnp.where(where, query_segments, _HIDDEN)
    attend = functools.partial(_splash_rows, window=window, interpret=interpret)
    scaled = q * jnp.asarray(size**-0.5, q.dtype)
    out = on_own_rows(
        attend,
        *(by_head(scaled), by_head(k), by_head(v)),
        *(_pad_tokens(query_segments, padded), _pad_tokens(key_segments, padded, _HIDDEN)),
    )
    return out.transpose(0, 2, 1, 3)[:, :length]


def _pad_tokens(x, length, value=0):
    """[B, T, ...] -> [B, length, ...]."""
    ends = [(0, 0)] * x.ndim
    ends[1] = (0, length - x.shape[1])
    return jnp.pad(x, ends, constant_values=value)


def _splash_rows(q, k, v, query_segments, key_segments, *, window, interpret) -> Any:
    # Imported where it is used: a second that only TPUs need to spend.
    from jax.experimental.pallas.ops.tpu import splash_attention as library

    heads, length = q.shape[1:3]
    block = next(b for b in _BLOCKS if length % b == 0)
    mask: Any = library.FullMask((length, length))
    if window is not None:
        mask = library.LocalMask((length, length), (window, window), offset=0)
    kernel = library.make_splash_mha(
        library.MultiHeadMask([mask] * heads),
        # One backward kernel for the gradients of q, k and v: scores are computed again once.
        block_sizes=library.BlockSizes(*[block] * 6, use_fused_bwd_kernel=True),
        head_shards=1,
        q_seq_shards=1,
        interpret=interpret,
    )
    return jax.vmap(kernel)(q, k, v, library.SegmentIds(query_segments, key_segments))


def cudnn(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    where: jax.Array,
    segments: jax.Array | None,
    *,
    window: int | None = None,
) -> jax.Array:
    """By cuDNN's fused kernel, on NVIDIA GPUs, in 16 bits; errors are those of `cudnn_fault`.

    Without segments and window the kernel gets the number of real tokens of each row, which must
    come first in it, and skips the padding; the output is 0 there. With either it is given a mask
    [B, 1, T, T]: its own windows look back only.
    """
    length = q.shape[1]
    if length % 2:  # the kernel's gradient takes even lengths only
        q, k, v = (_pad_tokens(x, length + 1) for x in (q, k, v))
    attend = functools.partial(jax.nn.dot_product_attention, q, k, v, implementation="cudnn")
    if segments is None and window is None:
        # A row of nothing but padding is read as one token, to avoid an empty sum.
        lengths = jnp.maximum(where.sum(axis=1, dtype=jnp.int32), 1)
        out = attend(query_seq_lengths=lengths, key_value_seq_lengths=lengths)
    else:
        where = _pad_tokens(where, q.shape[1])
        segments = None if segments is None else _pad_tokens(segments, q.shape[1])
        # Of full size: one that is to be broadcast is refused (jax issue 28974).
        out = attend(mask=fused.visible_keys(where, segments, window))
    return out[:, :length]


def cudnn_texts(
    q: jax.Array, k: jax.Array, v: jax.Array, segments: jax.Array, slots: int
) -> jax.Array:
    """`cudnn` without a mask, on `attention.Texts`: what a row has left over attends to itself.

    So all outputs and gradients are written.
    """
    return on_own_rows(functools.partial(_cudnn_texts_rows, slots=slots), q, k, v, segments)


def _cudnn_texts_rows(q, k, v, segments, *, slots) -> Any:
    # JAX's public function takes no offsets (jax pull request 29731).
    from jax._src.cudnn import fused_attention_stablehlo as library

    given = segments.shape[1]
    even = given + given % 2  # as in `cudnn`
    q, k, v = (_pad_tokens(x, even) for x in (q, k, v))
    segments = _pad_tokens(segments, even, -1)
    # This one wants lengths [B, M] and beginnings [B, M + 1] in each row, -1 where there is none.
    # It adds the row's own and strings the rows together: slots are those of any row before.
    (rows, length), size = segments.shape, segments.size
    new = jnp.diff(segments, axis=1, prepend=jnp.iinfo(jnp.int32).min) != 0
    first = jnp.nonzero(new.reshape(-1), size=rows * (slots + 1), fill_value=size)[0]
    lengths = jnp.diff(first[: rows * slots], append=size)
    lengths = jnp.where(lengths > 0, lengths, -1).reshape(rows, -1).astype(jnp.int32)
    slot_rows = jnp.arange(first.size) // (slots + 1)
    begins = jnp.where(first < size, first - slot_rows * length, -1)
    begins = begins.reshape(rows, -1).astype(jnp.int32)
    attend: Any = library.dot_product_attention
    places = {"q_seqlen": lengths, "kv_seqlen": lengths, "q_offsets": begins, "kv_offsets": begins}
    return attend(q, k, v, **places, scale=q.shape[-1] ** -0.5)[:, :given]


def cudnn_fault(
    shape: tuple[int, ...], dtype: np.dtype, masked: bool, slots: int | None = None
) -> str | None:
    """Why `cudnn` does not work here on a q of this shape, or `None` where it does.

    Where there is a GPU, a few rows are compiled with their gradient: what a version of cuDNN
    supports is known only then (with CUDA 13 some failed, jax issue 32430). `masked`: there are
    segments or a window. With M `slots` it is about `cudnn_texts`: JAX's function is private and
    may change, so outputs and gradients are compared with XLA's.
    """
    if (slots or 0) > MOST_SLOTS:
        return f"expected at most {MOST_SLOTS} slots for the texts of a row, found {slots}"
    if slots is not None and math.prod(shape) >= 2**31:
        return f"expected fewer than 2**31 numbers, which 32 bits can count, in {shape}"
    rows, heads = min(shape[0], 2), shape[2]  # a bias of one row is its own case
    if slots is not None:  # XLA needs a [T, T] array for each head
        rows, heads = 2, min(heads, 2)
    return _fault_of_rows((rows, shape[1], heads, shape[3]), dtype, masked, slots)


@functools.cache
@jax.transfer_guard("allow")  # which is for training, not for this
def _fault_of_rows(shape, dtype, masked, slots) -> str | None:
    rows, length = shape[:2]
    x = jax.ShapeDtypeStruct(shape, dtype)
    # A text fills the first row. Most of those of the second have slots of the first.
    second = np.arange(length, dtype=np.int32) * (2 * (slots or 1) - 2) // length
    segments = np.stack([np.full_like(second, -1), second][:rows])
    tokens = np.ones(segments.shape, bool), segments

    def by_cudnn(q, k, v, where, segments):
        if slots is not None:
            return _cudnn_texts_rows(q, k, v, segments, slots=slots)
        return cudnn(q, k, v, where, segments if masked else None)

    def outputs(attend, weight, q, k, v, where, segments):
        seen = {"where": where, "segments": segments}
        out, gradients = jax.vjp(lambda *qkv: attend(*qkv, **seen), q, k, v)
        return jnp.stack([out, *gradients(weight)]).astype(jnp.float32)

    def by_xla(q, k, v, where, segments):
        by_head = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
        out: Any = fused.attention(*by_head, where, segments, None, 0.0)
        return out.transpose(0, 2, 1, 3)

    run = jax.jit(outputs, static_argnums=0)
    try:
        traced = run.trace(by_cudnn, x, x, x, x, *tokens)
        if jax.default_backend() != "gpu":
            return None
        program = traced.lower().compile()
        if slots is None:
            return None
        numbers = np.random.default_rng(0).normal(size=(4, *x.shape)).astype(dtype)
        found = np.asarray(program(*numbers, *tokens))
        program = run.trace(by_xla, *numbers, *tokens).lower().compile()
        expected = np.asarray(program(*numbers, *tokens))
    except (ImportError, AttributeError, TypeError, RuntimeError, ValueError) as error:
        return str(error).partition("\n")[0]
    each = 1, 2, 3, 4  # of outputs, and of gradients of q, k and v
    error = (abs(found - expected).max(each) / abs(expected).max(each)).max()
    # Rounded to 16 bits; not a number is wrong, too.
    return None if error <= 0.05 else f"its outputs or gradients miss XLA's by {error:.1%}"
