"""The multi-mention reader: span scores and a paragraph selector on an encoder.

Min et al., 2019, appendix A: a span has a start and an end score, linear in the last
layer; whether the paragraph holds the answer is read off the max-pooled last layer.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx

from hardem_jax.encoders.base import Encoder, encode
from hardem_jax.encoders.layers import masked_max
from hardem_jax.spans.distribution import SpanDistribution

Array = jax.Array
#: Positions at which a span may begin or end, see `SpanReader`.
SoftmaxOver = Literal["context", "tokens"]
#: What the selector reads, see `SpanReader`.
SelectorInput = Literal["max", "first"]


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["spans", "selector_logits"], meta_fields=[]
)
@dataclasses.dataclass(frozen=True)
class Reading:
    """The reader's output for a batch of paragraphs.

    Attributes:
        spans: P(z | x) over the spans of each paragraph.
        selector_logits: ``[B, 2]`` float32; class 1 says that the paragraph holds the answer.
    """

    spans: SpanDistribution
    selector_logits: Array


class SpanReader(nnx.Module):
    """An encoder with span and selector heads.

    Args:
        encoder: gives ``[B, T, D]`` from token ids.
        rngs: stream ``params`` initialises the heads, N(0, 0.02) as in BERT.
        softmax_over: positions at which a span may begin or end. "context" excludes question,
            special tokens and padding; "tokens" excludes only padding, as in the paper's formula.
        selector_input: what the selector reads of the last layer: its maximum over all real tokens
            ("max", the paper), or the activations of the first token ("first", DPR).

    Calling it takes a batch with ``token_ids`` and ``token_type_ids`` ``[B, T]`` int32, ``where``
    ``[B, T]`` bool (real tokens) and ``context`` ``[B, T]`` bool (tokens of the paragraph), and
    returns a `Reading`. ``rngs`` with the stream ``dropout`` turns dropout on.

    Example:
        >>> from hardem_jax.encoders.bert import Bert, BertConfig
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1,
        ...     num_attention_heads=2, intermediate_size=16)
        >>> reader = SpanReader(Bert(config, rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1))
        >>> tokens = jnp.ones((1, 4), int)
        >>> reading = reader(dict(token_ids=tokens, token_type_ids=0 * tokens,
        ...     where=tokens > 0, context=jnp.array([[False, True, True, False]])))
        >>> print(jnp.exp(reading.spans.start).sum().round(4), reading.selector_logits.shape)
        1.0 (1, 2)
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        rngs: nnx.Rngs,
        softmax_over: SoftmaxOver = "context",
        selector_input: SelectorInput = "max",
    ):
        if softmax_over not in ("context", "tokens"):
            raise ValueError(f"softmax_over must be 'context' or 'tokens', got {softmax_over!r}")
        if selector_input not in ("max", "first"):
            raise ValueError(f"selector_input must be 'max' or 'first', got {selector_input!r}")
        width = encoder.config.hidden_size
        head = functools.partial(
            nnx.Linear, width, 2, kernel_init=nnx.initializers.normal(0.02), rngs=rngs
        )
        self.encoder = encoder
        self.span_scores = head()
        self.selector = head()
        self.softmax_over: SoftmaxOver = softmax_over
        self.selector_input: SelectorInput = selector_input

    def __call__(self, batch: Mapping[str, Array], *, rngs: nnx.Rngs | None = None) -> Reading:
        where = batch["where"]
        hidden = encode(self.encoder, batch, rngs=rngs).astype(jnp.float32)
        scores = self.span_scores(hidden)
        pooled = masked_max(hidden, where) if self.selector_input == "max" else hidden[:, 0]
        positions = batch["context"] if self.softmax_over == "context" else where
        return Reading(
            SpanDistribution.from_logits(scores[..., 0], scores[..., 1], where=positions),
            self.selector(pooled),
        )
