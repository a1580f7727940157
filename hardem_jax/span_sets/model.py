"""A reader of answers that consist of several spans: a tag for every word, on an encoder.

The paper's reader (`hardem_jax.spans.model`) with a tagging of the words instead of a start
and an end (Segal et al., 2020).
"""

import dataclasses
import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import nnx

from hardem_jax.encoders.base import Encoder, encode
from hardem_jax.encoders.layers import masked_max
from hardem_jax.span_sets.distribution import TaggingDistribution

Array = jax.Array


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["taggings", "selector_logits"], meta_fields=[]
)
@dataclasses.dataclass(frozen=True)
class TaggedReading:
    """The reader's output for a batch of windows.

    Attributes:
        taggings: P(z | x) over the taggings of each window's words.
        selector_logits: ``[B, 2]`` float32; class 1 says that the window holds the answer.
    """

    taggings: TaggingDistribution
    selector_logits: Array


class TaggedReader(nnx.Module):
    """An encoder with a head for tags, read off the first token of each word, and a selector.

    Args:
        encoder: gives ``[B, T, D]`` from token ids.
        rngs: stream ``params`` initialises the heads, N(0, 0.02) as in BERT.
        num_tags: 2 for inside and outside, 3 to tell where a span begins, too.

    Calling it takes a batch with ``token_ids`` and ``token_type_ids`` ``[B, T]`` int32, ``where``
    ``[B, T]`` bool (real tokens), ``words`` ``[B, W]`` int32 (their first tokens), ``words_where``
    ``[B, W]`` bool, and returns a `TaggedReading`. Stream ``dropout`` of ``rngs`` turns dropout on.

    Example:
        >>> from hardem_jax.encoders.bert import Bert, BertConfig
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1,
        ...     num_attention_heads=2, intermediate_size=16)
        >>> reader = TaggedReader(Bert(config, rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1))
        >>> tokens = jnp.ones((1, 4), int)
        >>> reading = reader(dict(token_ids=tokens, token_type_ids=0 * tokens, where=tokens > 0,
        ...     words=jnp.array([[1, 3]]), words_where=jnp.ones((1, 2), bool)))
        >>> reading.taggings.tags.shape, reading.selector_logits.shape
        ((1, 2, 3), (1, 2))
    """

    def __init__(self, encoder: Encoder, *, rngs: nnx.Rngs, num_tags: int = 3):
        head = functools.partial(
            nnx.Linear,
            encoder.config.hidden_size,
            kernel_init=nnx.initializers.normal(0.02),
            rngs=rngs,
        )
        self.encoder = encoder
        self.tag_scores = head(num_tags)
        self.selector = head(2)

    def __call__(self, batch: Mapping[str, Array], *, rngs: nnx.Rngs | None = None):
        hidden = encode(self.encoder, batch, rngs=rngs).astype(jnp.float32)
        words = jnp.take_along_axis(hidden, batch["words"][..., None], axis=1)
        return TaggedReading(
            TaggingDistribution.from_logits(self.tag_scores(words), where=batch["words_where"]),
            self.selector(masked_max(hidden, batch["where"])),
        )
