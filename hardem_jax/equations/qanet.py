"""Parts of QANet (Yu et al., 2018): encoder blocks, passage-question attention, word features.

Padding has no influence on real positions: it is zeroed before a convolution, whose window would
otherwise reach it, and receives no attention.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.typing import DTypeLike

from hardem_jax import masked
from hardem_jax.encoders.base import stack
from hardem_jax.encoders.layers import KERNEL_INIT, LayerNorm, dense, masked_max
from hardem_jax.encoders.ops.attention import attention
from hardem_jax.encoders.ops.fused import drop_and_scale, dropout, dropout_seeds
from hardem_jax.placement import platform_of

LAYER_NORM_EPS = 1e-5
# Standard deviation of embeddings that are trained from scratch.
EMBEDDING_STDDEV = 0.1


def sinusoidal_positions(length: int, size: int) -> jax.Array:
    """``[T, D]`` float32 position vectors (Vaswani et al., 2017, 3.5), sines first, then
    cosines."""
    half = size // 2
    rates = jnp.exp(jnp.arange(half, dtype=jnp.float32) * (-math.log(1e4) / (half - 1)))
    angles = jnp.arange(length, dtype=jnp.float32)[:, None] * rates[None, :]
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1)


class Draws(NamedTuple):
    """What is random in the n sublayers of a block, behind axes of passes and blocks."""

    seeds: jax.Array  # uint32 [n, 3, 2], of dropout before, inside and after a sublayer
    kept: jax.Array  # bool [n], which are not left out


def add_sublayer(x: jax.Array, y: jax.Array, rate: float, kept: jax.Array | None) -> jax.Array:
    """`x + y`, where `y` is left out for the whole batch with probability `rate` (Huang et al.,
    2016); without a draw the expectation `(1 - rate) * y` is added."""
    if kept is None:
        return x + (1 - rate) * y
    return x + jnp.where(kept, y, 0)


class SeparableConv(nnx.Module):
    """Depthwise-separable convolution (Chollet, 2017) over words, and ReLU.

    The depthwise half has no bias: that of the pointwise half makes up for it exactly.
    """

    def __init__(self, size: int, width: int, *, rngs: nnx.Rngs, dtype: DTypeLike):
        self.depthwise = nnx.Param(KERNEL_INIT(rngs.params(), (width, size), jnp.float32))
        self.pointwise = dense(size, size, rngs=rngs, dtype=dtype)

    def __call__(self, x: jax.Array, where: jax.Array) -> jax.Array:
        """[B, T, D], true words [B, T] -> [B, T, D]; texts end in zeros, whatever padding holds."""
        kernel = self.depthwise[...]
        width, length = kernel.shape[0], x.shape[1]
        before = width // 2
        padded = jnp.where(where[..., None], x, 0).astype(jnp.float32)
        padded = jnp.pad(padded, ((0, 0), (before, width - 1 - before), (0, 0)))
        # Shifted products, which fuse into one loop; a grouped convolution runs far slower.
        y = sum(padded[:, i : i + length] * kernel[None, i : i + 1] for i in range(width))
        return jax.nn.relu(self.pointwise(jnp.asarray(y).astype(x.dtype)))


class EncoderBlock(nnx.Module):
    """Positions, convolutions, self-attention, feed-forward (Yu et al., 2018, section 2.2).

    Each of the `n = num_convs + 2` sublayers is normalised before and added after; sublayer
    `i = 1 ... n` is left out with probability `layer_dropout * i / n`.
    """

    def __init__(
        self,
        size: int,
        *,
        num_convs: int,
        width: int,
        num_heads: int,
        dropout: float,
        layer_dropout: float,
        rngs: nnx.Rngs,
        dtype: DTypeLike,
    ):
        layer = functools.partial(dense, size, size, rngs=rngs, dtype=dtype)
        self.norms = nnx.List([LayerNorm(size, eps=LAYER_NORM_EPS) for _ in range(num_convs + 2)])
        self.convs = nnx.List(
            [SeparableConv(size, width, rngs=rngs, dtype=dtype) for _ in range(num_convs)]
        )
        self.query, self.key, self.value, self.attention_output = (layer() for _ in range(4))
        self.hidden, self.output = layer(), layer()
        self.num_heads = num_heads
        self.dropout = dropout
        last = len(self.norms)
        self.layer_rates = tuple(layer_dropout * (i + 1) / last for i in range(last))

    def __call__(self, x: jax.Array, where: jax.Array, drawn: Draws | None = None) -> jax.Array:
        """[B, T, D], true words [B, T], `draw` or `None` for no dropout -> [B, T, D]."""
        x = x + sinusoidal_positions(*x.shape[1:])[None].astype(x.dtype)
        for index, (norm, rate) in enumerate(zip(self.norms, self.layer_rates, strict=True)):
            seeds, kept = (None, None) if drawn is None else (part[index] for part in drawn)
            y = norm(x.reshape(-1, x.shape[-1])).reshape(x.shape)
            y = self._sublayer(index, self._drop(y, seeds, 0), where, seeds)
            x = add_sublayer(x, self._drop(y, seeds, 2), rate, kept)
        return x

    def _drop(self, x, seeds, place) -> jax.Array:
        if seeds is None or self.dropout == 0:
            return x
        return drop_and_scale(x, seeds[place], self.dropout)

    def _sublayer(self, index, x, where, seeds) -> jax.Array:
        if index < len(self.convs):
            return self.convs[index](x, where)
        if index == len(self.convs):
            return self.attend(x, where)
        return self.output(self._drop(jax.nn.relu(self.hidden(x)), seeds, 1))

    def attend(self, x, where) -> jax.Array:
        shape = (*x.shape[:2], self.num_heads, -1)
        q, k, v = (layer(x).reshape(shape) for layer in (self.query, self.key, self.value))
        # A TPU's kernel would fill an eighth of its lanes: heads are 16 wide.
        kernel = "xla" if platform_of(x) == "tpu" else "auto"
        context = attention(q, k, v, where=where, implementation=kernel).reshape(x.shape)
        return self.attention_output(context)


class QANetEncoder(nnx.Module):
    """`EncoderBlock`s, run by `jax.lax.scan`; parameters have a leading axis of ``num_blocks``."""

    def __init__(
        self,
        size: int,
        *,
        num_blocks: int,
        rngs: nnx.Rngs,
        dtype: DTypeLike = jnp.float32,
        remat: bool = False,
        **block: Any,
    ):
        blocks = [EncoderBlock(size, rngs=rngs, dtype=dtype, **block) for _ in range(num_blocks)]
        self.blocks = stack(blocks)
        self.num_blocks = num_blocks
        self.remat = remat

    def draw(self, keys: jax.Array) -> Draws:
        """Of calls with `keys` of any shape, in a few kernels instead of hundreds; flat, because
        programs with many axes compile slowly."""
        rates = np.array(self.blocks.layer_rates)
        numbers, shape = np.arange(len(rates), dtype=np.uint32), (*keys.shape, self.num_blocks)
        split = jax.vmap(jax.random.split, (0, None))
        keys = split(keys.reshape(-1), self.num_blocks).reshape(-1)
        fold = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)), (0, None))
        keys = split(fold(keys, numbers).reshape(-1), 4)
        kept = jax.vmap(jax.random.bernoulli)(keys[:, 3], np.resize(1 - rates, len(keys)))
        seeds = jax.vmap(dropout_seeds)(keys[:, :3].reshape(-1))
        return Draws(seeds.reshape(*shape, -1, 3, 2), kept.reshape(*shape, -1))

    def __call__(self, x: jax.Array, where: jax.Array, drawn: Draws | None = None) -> jax.Array:
        """[B, T, D], true words [B, T], `draw` or `None` -> [B, T, D]; anything at padding."""
        graphdef, params = nnx.split(self.blocks)

        def body(x, block):
            return nnx.merge(graphdef, block[0])(x, where, block[1]), None

        # A loop copies activations to where its backward pass reads them, one inside another twice.
        unroll = platform_of(x) == "gpu"
        # Common subexpressions are not merged across the iterations of a loop anyway.
        body = jax.checkpoint(body, prevent_cse=unroll) if self.remat else body
        return jax.lax.scan(body, x, (params, drawn), unroll=unroll)[0]


class PassageQuestionAttention(nnx.Module):
    r"""Attention between passage and question, both ways (Seo et al., 2017; Xiong et al., 2017).

    Scores are trilinear, :math:`S_{ij} = w_p \cdot p_i + w_q \cdot q_j + (w_{pq} \odot p_i) \cdot
    q_j`; a constant would change neither softmax. With :math:`A` the softmax of :math:`S` over
    question words and :math:`B` that over passage words, a passage word becomes
    :math:`[p; a; p \odot a; p \odot b]` with :math:`a = A q` and :math:`b = A B^\top p`
    (Yu et al., 2018, section 2.2).
    """

    def __init__(self, size: int, *, rngs: nnx.Rngs):
        limit = math.sqrt(6 / (3 * size + 1))
        key = rngs.params()
        kernel = jax.random.uniform(key, (3, size), jnp.float32, minval=-limit, maxval=limit)
        self.kernel = nnx.Param(kernel)

    def __call__(
        self,
        passage: jax.Array,
        question: jax.Array,
        passage_where: jax.Array,
        question_where: jax.Array,
    ) -> jax.Array:
        """[B, P, D], [B, Q, D] and their true words [B, P], [B, Q] -> [B, P, 4D]."""
        dtype = passage.dtype
        product = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)
        # In float32, so that devices add up its gradients in float32, see `ops.fused.linear`.
        w_p, w_q, w_pq = (row[None, None] for row in self.kernel[...])
        scores = product("bpd,bqd->bpq", (passage * w_pq).astype(dtype), question)
        scores = scores + (passage * w_p).sum(axis=-1)[:, :, None]
        scores = scores + (question * w_q).sum(axis=-1)[:, None, :]
        to_question = masked.softmax(scores, question_where[:, None, :], axis=2).astype(dtype)
        to_passage = masked.softmax(scores, passage_where[:, :, None], axis=1).astype(dtype)
        a = product("bpq,bqd->bpd", to_question, question).astype(dtype)
        # A (B^T p) instead of (A B^T) p: no [P, P] matrix.
        summary = product("bpq,bpd->bqd", to_passage, passage).astype(dtype)
        b = product("bpq,bqd->bpd", to_question, summary).astype(dtype)
        return jnp.concatenate([passage, a, passage * a, passage * b], axis=-1)


class CharacterCNN(nnx.Module):
    """A word as the largest response of each filter to its characters (Kim, 2014), at every place
    where it lies inside the word; in a shorter word, at its beginning, with zeros after the end."""

    def __init__(
        self,
        num_characters: int,
        size: int,
        filters: int,
        width: int,
        *,
        rngs: nnx.Rngs,
        dtype: DTypeLike = jnp.float32,
    ):
        init = jax.nn.initializers.normal(EMBEDDING_STDDEV)
        self.table = nnx.Param(init(rngs.params(), (num_characters, size), jnp.float32))
        self.filters = dense(width * size, filters, rngs=rngs, dtype=dtype, use_bias=False)
        self.bias = nnx.Param(jnp.zeros(filters, jnp.float32))
        self.width = width
        self.num_filters = filters
        self.dtype = dtype

    def __call__(self, char_ids: jax.Array) -> jax.Array:
        """[B, T, C] int -> [B, T, F]; a word without characters (padding) gives zeros."""
        width = self.width
        # A condition, not a maximum: in an exported program the number of characters is a symbol.
        if char_ids.shape[2] < width:
            char_ids = jnp.pad(char_ids, ((0, 0), (0, 0), (0, width - char_ids.shape[2])))
        places = char_ids.shape[2] - width + 1
        x = jnp.where((char_ids > 0)[..., None], self.table[...][char_ids], 0).astype(self.dtype)
        windows = [x[:, :, i : i + places] for i in range(width)]
        scores = self.filters(jnp.concatenate(windows, axis=-1))
        length = (char_ids > 0).sum(axis=-1, keepdims=True)
        inside = jnp.arange(places)[None, None] <= jnp.maximum(length - width, 0)
        inside = inside & (length > 0)
        best = masked_max(scores, inside)
        # Bias and ReLU are monotone and come after the maximum, on a fraction of the elements.
        best = jax.nn.relu(best.astype(jnp.float32) + self.bias[...][None, None])
        return jnp.where(length > 0, best, 0).astype(scores.dtype)


class Highway(nnx.Module):
    r"""Highway layer (Srivastava et al., 2015): :math:`g \odot x + (1 - g) \odot f(x)`.

    The gate's bias starts at 1, so that the layer begins by carrying most of its input.
    """

    def __init__(self, size: int, *, rngs: nnx.Rngs, dtype: DTypeLike = jnp.float32):
        self.transform = dense(size, size, rngs=rngs, dtype=dtype)
        ones = nnx.initializers.ones_init()
        self.gate = dense(size, size, rngs=rngs, dtype=dtype, bias_init=ones)

    def __call__(self, x: jax.Array) -> jax.Array:
        """[..., D] -> [..., D]."""
        gate = jax.nn.sigmoid(self.gate(x))
        return gate * x + (1 - gate) * jax.nn.relu(self.transform(x))


class WordEncoder(nnx.Module):
    """Word vector and character features to one vector of width D (Yu et al., 2018, section 2.2);
    pretrained ``vectors`` [num_words, W] stay fixed."""

    def __init__(
        self,
        num_words: int,
        word_size: int,
        *,
        characters: CharacterCNN,
        size: int,
        num_highway_layers: int,
        dropout: float,
        vectors: np.ndarray | jax.Array | None,
        rngs: nnx.Rngs,
        dtype: DTypeLike = jnp.float32,
    ):
        self.frozen = vectors is not None
        if vectors is None:
            init = jax.nn.initializers.normal(EMBEDDING_STDDEV)
            vectors = init(rngs.params(), (num_words, word_size), jnp.float32)
        self.word_vectors = nnx.Param(jnp.asarray(vectors, jnp.float32))
        self.characters = characters
        self.projection = dense(word_size + characters.num_filters, size, rngs=rngs, dtype=dtype)
        self.highway = nnx.List(
            [Highway(size, rngs=rngs, dtype=dtype) for _ in range(num_highway_layers)]
        )
        self.output = dense(size, size, rngs=rngs, dtype=dtype, use_bias=False)
        self.dropout = dropout
        self.dtype = dtype

    def __call__(
        self, words: jax.Array, chars: jax.Array, key: jax.Array | None = None
    ) -> jax.Array:
        """[B, T] and [B, T, C] ids, dropout key or `None` -> [B, T, D]."""
        table = self.word_vectors[...]
        # Without a gradient they neither move nor count in the norm by which gradients are clipped.
        table = jax.lax.stop_gradient(table) if self.frozen else table
        x = jnp.concatenate([table[words].astype(self.dtype), self.characters(chars)], axis=-1)
        x = self.projection(dropout(x, self.dropout, key))
        for layer in self.highway:
            x = layer(x)
        return self.output(x)
