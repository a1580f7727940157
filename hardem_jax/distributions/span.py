r"""P(z | x) over spans: a start and an end position, chosen independently.

.. math:: \log P(z = (i, j) \mid x) = \log \mathrm{softmax}(s)_i + \log \mathrm{softmax}(e)_j

(Min et al., 2019, section 4.1 and appendix A). The softmax runs over the positions
where a span may stand and gives every other position exactly no mass.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp

Array = jax.Array


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["start", "end", "where"], meta_fields=[]
)
@dataclasses.dataclass(frozen=True)
class SpanDistribution:
    """Independent distributions over the first and the last token of a span.

    Build it with `from_logits`.

    Attributes:
        start: ``[B, T]`` float32 log-probabilities of the first token; -inf outside ``where``.
        end: ``[B, T]`` float32, the same of the last token.
        where: ``[B, T]`` bool, the positions where a span may stand.

    Example:
        >>> logits = jnp.log(jnp.array([[8.0, 1.0, 3.0]]))
        >>> where = jnp.array([[False, True, True]])
        >>> spans = SpanDistribution.from_logits(logits, logits, where=where)
        >>> print(jnp.exp(spans.log_prob(jnp.array([[[1, 2], [2, 2], [0, 0]]]))).round(4))
        [[0.1875 0.5625 0.    ]]
    """

    start: Array
    end: Array
    where: Array

    @classmethod
    def from_logits(
        cls, start_logits: Array, end_logits: Array, *, where: Array
    ) -> "SpanDistribution":
        """Normalise ``[B, T]`` logits over the positions ``where`` (bool), in float32."""
        return cls(_log_softmax(start_logits, where), _log_softmax(end_logits, where), where)

    def log_prob(self, spans: Array) -> Array:
        """log P(z | x) of given spans.

        Args:
            spans: ``[B, Z, 2]`` int, positions of first and last token, both inclusive.

        Returns:
            ``[B, Z]`` float32; -inf where an end lies outside ``where``.
        """
        start = jnp.take_along_axis(self.start, spans[..., 0], axis=-1)
        end = jnp.take_along_axis(self.end, spans[..., 1], axis=-1)
        return start + end

    def within(self, where: Array) -> "SpanDistribution":
        """The same log-probabilities, but none outside ``where`` (``[B, T]`` bool).

        Not normalised anew: what a model that may also point elsewhere says about these spans.
        """
        return SpanDistribution(
            jnp.where(where, self.start, -jnp.inf),
            jnp.where(where, self.end, -jnp.inf),
            self.where & where,
        )

    def top(self, k: int, *, max_length: int) -> tuple[Array, Array]:
        """The ``k`` likeliest spans of at most ``max_length`` tokens, best first.

        Ties go to the earlier start, then to the shorter span. Every span appears once.
        If there are fewer than ``k`` spans, the rest have log-probability -inf.

        Args:
            k: number of spans, static; at most T * max_length.
            max_length: tokens, static.

        Returns:
            ``[B, k, 2]`` int32 spans and their ``[B, k]`` float32 log-probabilities.

        Example:
            >>> logits = jnp.array([[0.0, 2.0, 1.0]])
            >>> spans = SpanDistribution.from_logits(logits, logits, where=logits > -1)
            >>> spans.top(2, max_length=2)[0].tolist()
            [[[1, 1], [1, 2]]]
        """
        num_tokens = self.start.shape[-1]
        max_length = min(max_length, num_tokens)
        # [B, T, L]: the end l tokens after each start, -inf beyond the last token.
        padded = jnp.pad(self.end, ((0, 0), (0, max_length - 1)), constant_values=-jnp.inf)
        ends = jnp.stack([padded[:, i : i + num_tokens] for i in range(max_length)], axis=-1)
        scores = (self.start[..., None] + ends).reshape(self.start.shape[0], -1)
        log_probs, flat = jax.lax.top_k(scores, k)
        first = flat // max_length
        return jnp.stack([first, first + flat % max_length], axis=-1), log_probs

    def mode(self, *, max_length: int) -> Array:
        """The likeliest span of at most ``max_length`` tokens, ``[B, 2]`` int32."""
        return self.top(1, max_length=max_length)[0][:, 0]


def _log_softmax(logits: Array, where: Array) -> Array:
    """Log-softmax over ``where``; -inf elsewhere and throughout a row without any position."""
    logits = jnp.where(where, logits.astype(jnp.float32), -jnp.inf)
    # A row of padding must not turn into NaN: it is normalised as if it were zeros, then masked.
    some = jnp.any(where, axis=-1, keepdims=True)
    normalised = jax.nn.log_softmax(jnp.where(some, logits, 0.0), axis=-1)
    return jnp.where(where, normalised, -jnp.inf)
