"""The tagger for discrete reasoning: an operator for every number, on an encoder.

Min et al., 2019, appendix A ("Sequence Tagging model for discrete reasoning"): a number of
the text is tagged from the last layer at its position, a special number (1, 2, ... 1000,
in no text) from the max-pooled last layer.
"""

import functools
from collections.abc import Mapping
from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike

from hardem_jax.encoders.base import Encoder, encode
from hardem_jax.encoders.layers import masked_max
from hardem_jax.equations.distribution import NUM_TAGS, EquationDistribution, TagDistribution
from hardem_jax.equations.solutions.rules import NONE, EquationRules
from hardem_jax.errors import check_choice

Array = jax.Array


class EquationTagger(nnx.Module):
    """An encoder that tags the numbers of the text and special numbers.

    A number's position is its first token. Two numbers that begin in the same token
    are two slots with the same tag probabilities, each with a factor of its own.

    Args:
        encoder: gives ``[B, T, D]`` from token ids.
        num_special: |S|, special numbers that every question has; may be 0.
        no_tag_bias: initial bias of both heads towards NONE. At 0 the heads are matrices without
            bias, W1 and W2 of the paper, and at the start each number is an operand with
            probability 3/4; the loss falls for hundreds of steps without telling numbers apart.
        rngs: stream ``params`` initialises the heads, N(0, 0.02) as in BERT.
        product_over: positions whose tag probabilities are multiplied to give P(z | x). With
            "tokens", the paper's formula, these are all real tokens, and every token without a
            number is tagged NONE. With "numbers" (default), they are the numbers only. The two
            differ by a factor that is the same for all equations of a question and gets smaller
            as its text gets longer. Without it, probabilities can be compared between texts of
            different lengths, and the gradient comes from the numbers alone instead of from
            hundreds of words tagged NONE.
        rules: normalise P(z | x) over the equations of these rules, and not over all taggings;
            ``product_over`` then changes nothing.

    Calling it takes a batch with ``token_ids`` ``[B, T]`` int32, ``token_type_ids`` ``[B, T]``
    int32, ``where`` ``[B, T]`` bool (real tokens), ``number_tokens`` ``[B, M]`` int32 (first
    token of each number of the text) and ``numbers_where`` ``[B, M]`` bool (real numbers),
    and returns a `TagDistribution` over |S| + M slots, special numbers first. With ``rules`` it
    takes ``kinds`` ``[B, |S| + M]`` too, and returns an `EquationDistribution`. ``rngs`` with the
    stream ``dropout`` turns dropout on.

    Example:
        >>> from hardem_jax.encoders.bert import Bert, BertConfig
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1,
        ...     num_attention_heads=2, intermediate_size=16)
        >>> tagger = EquationTagger(Bert(config, rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1))
        >>> tokens = jnp.ones((1, 4), int)
        >>> equations = tagger(dict(token_ids=tokens, token_type_ids=0 * tokens,
        ...     where=tokens > 0, number_tokens=jnp.array([[1, 3]]),
        ...     numbers_where=jnp.array([[True, True]])))
        >>> print(equations.tags.shape, equations.log_prob(jnp.array([[[0, 1, 11, 2]]])).shape)
        (1, 12, 4) (1, 1)
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        num_special: int = 10,
        product_over: Literal["numbers", "tokens"] = "numbers",
        no_tag_bias: float = 0.0,
        rules: EquationRules | None = None,
        rngs: nnx.Rngs,
    ):
        check_choice(product_over, Literal["numbers", "tokens"], "product_over")
        head = functools.partial(
            nnx.Linear,
            encoder.config.hidden_size,
            use_bias=no_tag_bias != 0,
            kernel_init=nnx.initializers.normal(0.02),
            bias_init=functools.partial(_no_tag_bias, no_tag_bias),
            rngs=rngs,
        )
        self.encoder = encoder
        self.tag_scores = head(NUM_TAGS)
        # Checkpoints cannot hold a matrix without columns.
        self.special_scores = head(num_special * NUM_TAGS) if num_special else None
        self.num_special = num_special
        self.product_over = product_over
        self.rules = rules

    def __call__(
        self, batch: Mapping[str, Array], *, rngs: nnx.Rngs | None = None
    ) -> TagDistribution | EquationDistribution:
        where, numbers_where = batch["where"], batch["numbers_where"]
        hidden = encode(self.encoder, batch, rngs=rngs).astype(jnp.float32)
        scores = self.tag_scores(hidden)
        tokens = jnp.where(numbers_where, batch["number_tokens"], 0)
        text_scores = jnp.take_along_axis(scores, tokens[..., None], axis=1)
        special = self._special_scores(hidden, where)
        special_where = jnp.ones(special.shape[:2], bool)
        rest = None
        if self.product_over == "tokens":
            others = where & ~_carries_number(where, tokens, numbers_where)
            rest = jnp.sum(jax.nn.log_softmax(scores)[..., NONE], axis=1, where=others)
        tags = TagDistribution.from_logits(
            jnp.concatenate([special, text_scores], axis=1),
            where=jnp.concatenate([special_where, numbers_where], axis=1),
            rest=rest,
        )
        if self.rules is None:
            return tags
        kinds = batch["kinds"]
        return tags.over_equations(pairs=self.rules.table(kinds), lone=self.rules.lone(kinds))

    def _special_scores(self, hidden: Array, where: Array) -> Array:
        """[B, T, D], [B, T] -> [B, |S|, 4] from the max-pooled hidden units."""
        if self.special_scores is None:
            return jnp.zeros((hidden.shape[0], 0, NUM_TAGS))
        return self.special_scores(masked_max(hidden, where)).reshape(
            hidden.shape[0], self.num_special, NUM_TAGS
        )


def _no_tag_bias(bias: float, key: Array, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """The bias of NONE for each number that a head scores, 0 for other tags; an initialiser."""
    return jnp.where(jnp.arange(shape[0]) % NUM_TAGS == NONE, bias, 0.0).astype(dtype)


def _carries_number(where: Array, tokens: Array, numbers_where: Array) -> Array:
    """``[B, T]`` bool, the positions at which at least one number begins."""
    positions = jnp.arange(where.shape[1])[None, None]
    return jnp.any((tokens[..., None] == positions) & numbers_where[..., None], axis=1)
