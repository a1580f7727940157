"""A small autoregressive Transformer: log-probs of texts after a prompt, and samples of them.

Decoder only, over [prompt ; target] with causal attention: pre-norm layers (Xiong et al., 2020),
learned positions, GELU, and an output layer tied to the embeddings. It is for texts that are
themselves the latent variable, such as rationales: `Decoder.sequence_log_prob` is what a loss
takes, and `Decoder.sample` draws the solutions.

Padding may stand anywhere: a token sees only the real tokens before it, its position counts those,
and its probability is read off the last of them. So prompts of unequal lengths are padded wherever
convenient, and a target follows after the padding.

Like encoders, the module holds parameters and nothing else and is used functionally: `nnx.split`
once, `nnx.merge` inside the loss, dropout keys passed in.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from hardem_jax.errors import InputError, require
from hardem_jax.models.ops.dropout import dropout

Array = jax.Array

_INIT = jax.nn.initializers.normal(0.02)


@dataclasses.dataclass(frozen=True)
class DecoderConfig:
    """Sizes of a `Decoder`.

    Raises:
        InputError: a size is not a positive integer, the heads do not divide the width, or the
            dropout rate is outside ``0 <= dropout < 1``.
    """

    vocab_size: int
    """Tokens of the vocabulary."""
    max_tokens: int
    """Largest number of tokens of a prompt with its target, padding included."""
    width: int = 64
    """Width of a token's vector."""
    layers: int = 2
    """Layers of attention and feed-forward network, which is four times as wide."""
    heads: int = 4
    """Heads of each attention."""
    dropout: float = 0.0
    """Probability of dropping an element of the embeddings and of each sublayer's output."""

    def __post_init__(self) -> None:
        sizes = "vocab_size", "max_tokens", "width", "layers", "heads"
        require(self, *sizes, at_least=1, integer=True)
        require(self, "dropout", at_least=0, below=1)
        if self.width % self.heads:
            raise InputError(
                f"width: expected a multiple of {self.heads} heads, found {self.width}"
            )


class Samples(NamedTuple):
    """What `Decoder.sample` drew."""

    tokens: Array
    """``[B, K, N]`` int32; 0 after the end."""
    where: Array
    """``[B, K, N]`` bool, true up to the token ``end_id``, itself included."""
    log_probs: Array
    """``[B, K, N]`` float32, of each token under the model (at temperature 1); 0 after the end."""


class Decoder(nnx.Module):
    """P(text | prompt), token by token.

    Args:
        config: sizes.
        rngs: stream ``params`` initialises.

    Example:
        >>> config = DecoderConfig(vocab_size=5, max_tokens=6, width=8, layers=1, heads=2)
        >>> @jax.jit
        ... def sample_and_score(prompt, key):
        ...     decoder = Decoder(config, rngs=nnx.Rngs(0))
        ...     drawn = decoder.sample(prompt, num_samples=2, num_tokens=3, end_id=1, key=key)
        ...     text = jnp.concatenate([prompt, drawn.tokens[:, 0]], axis=1)
        ...     where = jnp.concatenate([prompt > 0, drawn.where[:, 0]], axis=1)
        ...     target = jnp.arange(6)[None] >= 3
        ...     return drawn, decoder.sequence_log_prob(text, where=where, target=target)
        >>> drawn, log_prob = sample_and_score(jnp.array([[3, 4, 2]]), jax.random.key(0))
        >>> drawn.tokens.shape, bool(jnp.allclose(log_prob, drawn.log_probs[:, 0].sum(-1)))
        ((1, 2, 3), True)
    """

    def __init__(self, config: DecoderConfig, *, rngs: nnx.Rngs):
        self.config = config
        self.tokens = nnx.Embed(config.vocab_size, config.width, embedding_init=_INIT, rngs=rngs)
        self.positions = nnx.Embed(config.max_tokens, config.width, embedding_init=_INIT, rngs=rngs)
        self.blocks = nnx.List(_Block(config, rngs=rngs) for _ in range(config.layers))
        self.norm = nnx.LayerNorm(config.width, rngs=rngs)

    def log_probs(
        self,
        tokens: Array,
        *,
        target: Array,
        where: Array | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> Array:
        """The log-probability of each token of the target, given all real tokens before it.

        Args:
            tokens: ``[B, T]`` int.
            target: bool, broadcast to ``[B, T]``: the tokens that are predicted.
            where: ``[B, T]`` bool, false at padding, wherever that is; None without padding.
            rngs: stream ``dropout`` turns dropout on.

        Returns:
            ``[B, T]`` float32; 0 at padding, outside the target and at the first real token, which
            nothing predicts.

        Raises:
            InputError: more tokens than ``max_tokens``.
        """
        self._check_length(tokens.shape[1])
        where = jnp.ones(tokens.shape, bool) if where is None else where
        place = jnp.arange(tokens.shape[1])[None]
        last = jax.lax.cummax(jnp.where(where, place, -1), axis=1)
        before = jnp.concatenate([jnp.full_like(last[:, :1], -1), last[:, :-1]], axis=1)
        seen = where[:, None] & (place[:, None] <= place[..., None])
        keys = _dropout_keys(self.config, rngs)
        hidden, _ = self._run(tokens, _positions(where), seen, None, keys)
        hidden = jnp.take_along_axis(hidden, jnp.maximum(before, 0)[..., None], axis=1)
        found = _pick(self._log_softmax(hidden), tokens)
        counts = jnp.broadcast_to(target, where.shape) & where & (before >= 0)
        return jnp.where(counts, found, 0.0)

    def sequence_log_prob(
        self,
        tokens: Array,
        *,
        target: Array,
        where: Array | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> Array:
        """``[B]`` float32: log P(target | prompt), the sum of `log_probs`."""
        return self.log_probs(tokens, target=target, where=where, rngs=rngs).sum(axis=-1)

    def sample(
        self,
        prompts: Array,
        *,
        num_samples: int,
        num_tokens: int,
        end_id: int,
        key: Array,
        where: Array | None = None,
        temperature: float = 1.0,
    ) -> Samples:
        """Draws texts after each prompt, with a cache of keys and values.

        A prompt is read once for all its samples.

        Args:
            prompts: ``[B, P]`` int, with at least one real token each.
            num_samples: K, drawn independently.
            num_tokens: N, the largest length; texts that have not ended by then are cut off.
            end_id: the token that ends a text.
            key: a PRNG key.
            where: ``[B, P]`` bool, false at padding; None without padding.
            temperature: divides the logits; 0 for the most likely token at each place.

        Raises:
            InputError: more tokens than ``max_tokens``, or a temperature below 0.
        """
        batch, length = prompts.shape
        self._check_length(length + num_tokens)
        if not temperature >= 0:
            raise InputError(f"temperature: expected a number >= 0, found {temperature}")
        where = jnp.ones(prompts.shape, bool) if where is None else where
        last, cache = self._read_prompt(prompts, where, num_tokens)
        repeated = jax.tree.map(
            lambda x: jnp.repeat(x, num_samples, axis=0), (self._log_softmax(last), where, cache)
        )
        log_probs, real, cache = repeated
        real = jnp.pad(real, ((0, 0), (0, num_tokens)))

        def step(carry, n):
            log_probs, real, done, cache = carry
            token = _draw(log_probs, temperature, jax.random.fold_in(key, n))
            token = jnp.where(done, 0, token)
            found = jnp.where(done, 0.0, _pick(log_probs, token))
            real = real.at[:, length + n].set(~done)
            # The n-th tokens of all rows are in the same slot, but not at the same position.
            position = real.sum(axis=1, keepdims=True) - 1
            slot = length + n, cache
            hidden, cache = self._run(token[:, None], position, real[:, None], slot, None)
            carry = self._log_softmax(hidden[:, 0]), real, done | (token == end_id), cache
            return carry, (token, ~done, found)

        start = log_probs, real, jnp.zeros(len(real), bool), cache
        _, drawn = jax.lax.scan(step, start, jnp.arange(num_tokens))
        shape = batch, num_samples, num_tokens
        return Samples(*(jnp.moveaxis(x, 0, -1).reshape(shape) for x in drawn))

    def _read_prompt(self, prompts: Array, where: Array, room: int) -> tuple[Array, list[_Cache]]:
        """``[B, D]`` of the last real token, and every layer's cache with room for more tokens."""
        (batch, length), config = prompts.shape, self.config
        shape = batch, length + room, config.heads, config.width // config.heads
        empty = jnp.zeros(shape, jnp.float32)
        cache = [_Cache(empty, empty) for _ in range(config.layers)]
        place = jnp.arange(length + room)[None]
        earlier = place[:, None] <= place[:, :length, None]
        seen = jnp.pad(where, ((0, 0), (0, room)))[:, None] & earlier
        hidden, cache = self._run(prompts, _positions(where), seen, (0, cache), None)
        last = jnp.max(jnp.where(where, place[:, :length], 0), axis=1)
        return jnp.take_along_axis(hidden, last[:, None, None], axis=1)[:, 0], cache

    def _run(self, tokens, positions, seen, cache, keys) -> tuple[Array, list[_Cache]]:
        """``[B, T, D]`` before the output layer, and the caches with these tokens.

        Args:
            seen: ``[B, T, S]`` bool, which keys a token attends to: those of the tokens themselves
                or, with a cache, its slots.
            cache: the slot of the first token and every layer's cache, or None.
            keys: of dropout, one more than there are layers, or None.
        """
        rate = self.config.dropout
        keys = [None] * (len(self.blocks) + 1) if keys is None else keys
        x = dropout(self.tokens(tokens) + self.positions(positions), rate, keys[-1])
        written = []
        for index, block in enumerate(self.blocks):
            own = None if cache is None else (cache[0], cache[1][index])
            x, own = block(x, seen, own, keys[index])
            written.append(own)
        return self.norm(x), written

    def _log_softmax(self, hidden: Array) -> Array:
        return jax.nn.log_softmax(self.tokens.attend(hidden).astype(jnp.float32))

    def _check_length(self, length: int) -> None:
        if length > (limit := self.config.max_tokens):
            raise InputError(f"Decoder input: expected at most {limit} tokens, found {length}")


class _Cache(NamedTuple):
    """Keys and values of a layer, ``[B, S, heads, head size]`` each."""

    keys: Array
    values: Array


class _Block(nnx.Module):
    """A pre-norm layer: causal attention, then a feed-forward network."""

    def __init__(self, config: DecoderConfig, *, rngs: nnx.Rngs):
        width = config.width
        self.heads, self.rate = config.heads, config.dropout
        self.attention_norm = nnx.LayerNorm(width, rngs=rngs)
        self.qkv = nnx.Linear(width, 3 * width, rngs=rngs)
        self.attention_output = nnx.Linear(width, width, rngs=rngs)
        self.feed_forward_norm = nnx.LayerNorm(width, rngs=rngs)
        self.wide = nnx.Linear(width, 4 * width, rngs=rngs)
        self.narrow = nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(
        self, x: Array, seen: Array, cache: tuple[Array | int, _Cache] | None, key: Array | None
    ) -> tuple[Array, _Cache]:
        keys = (None, None) if key is None else jax.random.split(key)
        qkv = self.qkv(self.attention_norm(x))
        q, k, v = jnp.moveaxis(qkv.reshape(*x.shape[:2], 3, self.heads, -1), 2, 0)
        written = _Cache(k, v)
        if cache is not None:
            slot, kept = cache
            written = _Cache(
                *(
                    jax.lax.dynamic_update_slice_in_dim(old, new, slot, axis=1)
                    for old, new in zip(kept, written, strict=True)
                )
            )
        attended = jax.nn.dot_product_attention(q, *written, mask=seen[:, None])
        attended = self.attention_output(attended.reshape(x.shape))
        x += dropout(attended, self.rate, keys[0])
        forward = self.narrow(jax.nn.gelu(self.wide(self.feed_forward_norm(x))))
        return x + dropout(forward, self.rate, keys[1]), written


def _dropout_keys(config: DecoderConfig, rngs: nnx.Rngs | None) -> Array | None:
    return None if rngs is None else jax.random.split(rngs.dropout(), config.layers + 1)


def _positions(where: Array) -> Array:
    return jnp.maximum(jnp.cumsum(where, axis=1) - 1, 0)


def _pick(log_probs: Array, tokens: Array) -> Array:
    return jnp.take_along_axis(log_probs, tokens[..., None], axis=-1)[..., 0]


def _draw(log_probs: Array, temperature: float, key: Array) -> Array:
    if temperature == 0:
        return jnp.argmax(log_probs, axis=-1)
    return jax.random.categorical(key, log_probs / temperature)
