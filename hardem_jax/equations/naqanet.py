"""NAQANet (Dua et al., 2019, section 6) with the abilities that the paper of hard EM uses.

The numerically-augmented QANet reads a number off a passage in one of two ways: it gives every
number a sign (0, + or -) and adds up, or it counts, 0 to 9. Min et al. (2019), section 5.2, leave
out the span abilities of the original because all answers of their subset are numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.typing import DTypeLike

from hardem_jax import masked
from hardem_jax.encoders.layers import dense
from hardem_jax.encoders.ops.fused import dropout
from hardem_jax.equations.config import NAQANetConfig
from hardem_jax.equations.distribution import AbilityDistribution
from hardem_jax.equations.qanet import (
    CharacterCNN,
    PassageQuestionAttention,
    QANetEncoder,
    WordEncoder,
)
from hardem_jax.equations.solutions.rules import EquationRules
from hardem_jax.placement import platform_of

NUM_SIGNS = 3


class FeedForward(nnx.Module):
    """Hidden layer with ReLU and linear output, in float32 whatever the compute dtype."""

    def __init__(self, inputs: int, hidden: int, outputs: int, *, rngs: nnx.Rngs):
        self.hidden = dense(inputs, hidden, rngs=rngs, dtype=jnp.float32)
        self.output = dense(hidden, outputs, rngs=rngs, dtype=jnp.float32)

    def __call__(self, x: jax.Array, rate: float = 0.0, key: jax.Array | None = None) -> jax.Array:
        """[..., inputs] -> [..., outputs], with dropout at `rate` on the hidden layer."""
        return self.output(dropout(jax.nn.relu(self.hidden(x)), rate, key))


class Pooling(nnx.Module):
    """A text as the mean of its words, weighted by a softmax over learned scores."""

    def __init__(self, size: int, *, rngs: nnx.Rngs):
        self.score = dense(size, 1, rngs=rngs, dtype=jnp.float32, use_bias=False)

    def __call__(self, x: jax.Array, where: jax.Array) -> jax.Array:
        """[B, T, D] float32, true words [B, T] -> [B, D]."""
        return jnp.einsum("bt,btd->bd", masked.softmax(self.score(x)[..., 0], where), x)


class NAQANet(nnx.Module):
    """QANet with a head for the ability, for the signs of numbers and for counts.

    Args:
        config: sizes and rates.
        rngs: source of the initial parameters (stream `params`).
        word_vectors: float [num_words, word_size] pretrained, e.g. from `load_word_vectors`; they
            stay fixed. `None`: random, and trained with everything else.
        dtype: of activations and products; parameters, norms, softmax and heads are in float32.
        remat: recompute each block in the backward pass instead of storing its activations.
        rules: normalise signs over the equations of these rules, and not over all signs of all
            numbers. A batch then has `kinds` [B, N] too.

    Calling it takes a batch with, for `x` in `passage` and `question`, `x_words` int32 [B, T],
    `x_chars` int32 [B, T, C] and `x_where` bool [B, T] (real words), each with its own T and C,
    and `number_tokens` int32 [B, M] (the passage word that each number starts at) and
    `numbers_where` bool [B, M]. It returns an `AbilityDistribution` over the M numbers of the
    passage. `rngs` with the stream `dropout` turns dropout on, of elements and of layers.

    Example:
        >>> config = NAQANetConfig(num_words=9, num_characters=9, word_size=4, character_size=4,
        ...     num_filters=4, filter_width=2, hidden_size=8, num_heads=2,
        ...     num_modelling_blocks=1, num_passes=2)
        >>> words, chars = jnp.array([[2, 3, 4]]), jnp.ones((1, 3, 4), int)
        >>> batch = dict(passage_words=words, passage_chars=chars, passage_where=words > 0,
        ...     question_words=words, question_chars=chars, question_where=words > 0,
        ...     number_tokens=jnp.array([[0, 2]]), numbers_where=jnp.array([[True, True]]))
        >>> equations = jax.eval_shape(lambda: NAQANet(config, rngs=nnx.Rngs(0))(batch))
        >>> equations.ability.shape, equations.signs.tags.shape, equations.counts.shape
        ((1, 2), (1, 2, 4), (1, 10))
    """

    def __init__(
        self,
        config: NAQANetConfig,
        *,
        rngs: nnx.Rngs,
        word_vectors: np.ndarray | jax.Array | None = None,
        dtype: DTypeLike = jnp.float32,
        remat: bool = False,
        rules: EquationRules | None = None,
    ):
        size = config.hidden_size
        self.rules = rules

        made: dict[str, Any] = {"rngs": rngs, "dtype": dtype}
        encoder = functools.partial(
            QANetEncoder,
            size,
            num_heads=config.num_heads,
            dropout=config.dropout,
            layer_dropout=config.layer_dropout,
            remat=remat,
            **made,
        )
        of_characters = config.num_characters, config.character_size
        filters = config.num_filters, config.filter_width
        self.words = WordEncoder(
            config.num_words,
            config.word_size,
            characters=CharacterCNN(*of_characters, *filters, **made),
            size=size,
            num_highway_layers=config.num_highway_layers,
            dropout=config.dropout,
            vectors=word_vectors,
            **made,
        )
        self.phrase = encoder(
            num_blocks=config.num_phrase_blocks,
            num_convs=config.num_phrase_convs,
            width=config.phrase_width,
        )
        self.attention = PassageQuestionAttention(size, rngs=rngs)
        self.attention_output = dense(4 * size, size, use_bias=False, **made)
        self.modelling = encoder(
            num_blocks=config.num_modelling_blocks,
            num_convs=config.num_modelling_convs,
            width=config.modelling_width,
        )
        self.passage_pooling = Pooling(size, rngs=rngs)
        self.question_pooling = Pooling(size, rngs=rngs)
        self.ability = FeedForward(2 * size, size, 2, rngs=rngs)
        self.signs = FeedForward(3 * size, size, NUM_SIGNS, rngs=rngs)
        self.counts = FeedForward(size, size, config.num_counts, rngs=rngs)
        self.config = config

    def __call__(
        self, batch: Mapping[str, jax.Array], *, rngs: nnx.Rngs | None = None
    ) -> AbilityDistribution:
        rate = self.config.dropout
        keys = (None,) * 5 if rngs is None else jax.random.split(rngs.dropout(), 5)
        where, question_where = batch["passage_where"], batch["question_where"]
        passage = self._phrases(batch, "passage", keys[0])
        question = self._phrases(batch, "question", keys[1])
        both = self.attention(passage, question, where, question_where)
        first, last = self._model(
            self.attention_output(dropout(both, rate, keys[2])), where, keys[3]
        )
        # The question is pooled as it was before it met the passage: it decides how to answer.
        p = self.passage_pooling(first, where)
        q = self.question_pooling(question.astype(jnp.float32), question_where)
        ability = self.ability(jnp.concatenate([p, q], axis=-1), rate, keys[4])
        signs = self._signs(batch, first, last, p)
        distribution = AbilityDistribution.from_logits(
            ability, signs, self.counts(p), where=batch["numbers_where"]
        )
        if self.rules is None:
            return distribution
        pairs, lone = self.rules.table(batch["kinds"]), self.rules.lone(batch["kinds"])
        return distribution.over_equations(pairs=pairs, lone=lone)

    def _phrases(self, batch, text: str, key) -> jax.Array:
        """[B, T, D] words of passage or question in their neighbourhood."""
        keys: Any = (None,) * 3 if key is None else jax.random.split(key, 3)
        x = self.words(batch[f"{text}_words"], batch[f"{text}_chars"], keys[0])
        drawn = None if key is None else self.phrase.draw(keys[1])
        x = self.phrase(x, batch[f"{text}_where"], drawn)
        return dropout(x, self.config.dropout, keys[2])

    def _model(self, x, where, key) -> tuple[jax.Array, jax.Array]:
        """float32 [B, P, D] each: the passage after the first and after the last pass."""
        graphdef, params = nnx.split(self.modelling)

        def one_pass(x, drawn):
            x = nnx.merge(graphdef, params)(x, where, drawn[0])
            x = dropout(x, self.config.dropout, drawn[1])
            return x, x

        num_passes, drawn = self.config.num_passes, (None, None)
        if key is not None:
            keys = jax.vmap(jax.random.split)(jax.random.split(key, num_passes))
            drawn = self.modelling.draw(keys[:, 0]), keys[:, 1]
        unroll = platform_of(x) == "gpu"  # as blocks are
        last, states = jax.lax.scan(one_pass, x, drawn, length=num_passes, unroll=unroll)
        return states[0].astype(jnp.float32), last.astype(jnp.float32)

    def _signs(self, batch, first, last, p) -> jax.Array:
        # Padding may hold any number; a gather out of range would turn it into NaN.
        places = jnp.where(batch["numbers_where"], batch["number_tokens"], 0)[..., None]
        numbers = jnp.take_along_axis(jnp.concatenate([first, last], axis=-1), places, axis=1)
        shape = (*numbers.shape[:2], p.shape[-1])
        return self.signs(jnp.concatenate([numbers, jnp.broadcast_to(p[:, None], shape)], axis=-1))
