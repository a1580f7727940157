"""Words as vectors: word vectors and a character convolution, mixed by highway layers.

Ids follow `hardem_jax.equations.words`: 0 is padding, 1 an unknown word or character.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.typing import DTypeLike

from hardem_jax.encoders.layers import dense, masked_max
from hardem_jax.encoders.ops.fused import dropout
from hardem_jax.errors import InputError

# Standard deviation of embeddings that are trained from scratch.
EMBEDDING_STDDEV = 0.1


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
        shape = (num_words, word_size)
        if vectors is None:
            init = jax.nn.initializers.normal(EMBEDDING_STDDEV)
            vectors = init(rngs.params(), shape, jnp.float32)
            self.frozen = False
        elif tuple(vectors.shape) != shape:
            raise InputError(
                f"word vectors: expected shape {list(shape)}, found {list(vectors.shape)}"
            )
        else:
            self.frozen = True
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
