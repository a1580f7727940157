"""Attention kernels for GPUs and TPUs, which hold no array of size T x T.

They compute what `fused.attention` does without dropout, on [B, T, heads, head size]. Call
`attention.attention`, which checks whether a kernel can be used.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hardem_jax.encoders.ops.fused import visible_keys
from hardem_jax.placement import on_own_rows

# Lanes of a TPU's registers: the kernel's blocks are whole numbers of them along T.
_LANES = 128
# Tokens of a block, the most first. A block of 512 x 512 float32 scores fills 1 MiB of on-chip
# memory, and a whole row of that length is one block.
_BLOCKS = (512, 384, 256, 128)
# Segment of keys that nothing attends to: no query has it.
_HIDDEN = np.iinfo(np.int32).min


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
        out = attend(mask=visible_keys(where, segments, window))
    return out[:, :length]


@functools.cache
def cudnn_fault(shape: tuple[int, ...], dtype: np.dtype, masked: bool) -> str | None:
    """Why `cudnn` does not work here on a q of this shape, or `None` where it does.

    Where there is a GPU, a few rows are compiled with their gradient: what a version of cuDNN
    supports is known only then (with CUDA 13 some failed, jax issue 32430). `masked`: there are
    segments or a window.
    """

    def total(x, where, segments):
        return cudnn(x, x, x, where, segments if masked else None).astype(jnp.float32).sum()

    rows = min(shape[0], 2)  # a bias of one row is a case of its own
    tokens_shape = rows, shape[1]
    inputs = (
        jax.ShapeDtypeStruct((rows, *shape[1:]), dtype),
        jax.ShapeDtypeStruct(tokens_shape, jnp.bool_),
        jax.ShapeDtypeStruct(tokens_shape, jnp.int32),
    )
    try:
        traced = jax.jit(jax.grad(total)).trace(*inputs)
        if jax.default_backend() == "gpu":
            traced.lower().compile()
    except (RuntimeError, NotImplementedError, ValueError) as error:
        return str(error).partition("\n")[0]
    return None
