r"""P(z | x) over spans, with independent start and end positions.

.. math:: \log P(z = (i, j) \mid x) = \log \mathrm{softmax}(s)_i + \log \mathrm{softmax}(e)_j

(Min et al., 2019, section 4.1 and appendix A). The softmax runs over the positions where
a span may start or end; all others have exactly zero mass. For a document or question that
is read in several windows, `SpanDistribution.normalize_over_groups` shares one softmax
among all of them, as Clark and Gardner (2018) propose.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from hardem_jax import masked
from hardem_jax import score_tables as tables

Array = jax.Array


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["start", "end", "where", "log_partitions"],
    meta_fields=[],
)
@dataclasses.dataclass(frozen=True)
class SpanDistribution:
    """Independent distributions over the first and the last token of a span.

    Build it with `from_logits`.

    Attributes:
        start: ``[B, T]`` float32 log-probabilities of the first token; -inf outside ``where``.
        end: ``[B, T]`` float32, the same for the last token.
        where: ``[B, T]`` bool, the positions where a span may start or end.
        log_partitions: ``[B, 2]`` float32, log-partitions of start and end: of the row or, after
            `normalize_over_groups`, of its group, in each of its rows; -inf without any position.

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
    log_partitions: Array

    @classmethod
    def from_logits(
        cls, start_logits: Array, end_logits: Array, *, where: Array
    ) -> "SpanDistribution":
        """Normalise ``[B, T]`` logits over the positions ``where`` (bool), in float32."""
        logits = start_logits, end_logits
        start, end = (masked.log_softmax(x, where) for x in logits)
        log_partitions = jnp.stack([masked.logsumexp(x, where) for x in logits], axis=-1)
        return cls(start, end, where, log_partitions)

    def normalize_over_groups(self, group_size: int) -> "SpanDistribution":
        """Renormalises each group of ``group_size`` consecutive rows (windows) together.

        Each window's distribution is scaled by the window's share of the group's partition:
        log P(i | group) = log P(i | window) + log (partition of window / partition of group).
        Call it once, on distributions over windows: those over groups have lost their partitions.

        Args:
            group_size: G, static; divides B. Rows 0 to G - 1 are the first group.

        Example:
            >>> logits = jnp.log(jnp.array([[1.0, 1.0], [3.0, 5.0]]))
            >>> spans = SpanDistribution.from_logits(logits, logits, where=logits > -1)
            >>> print((100 * jnp.exp(spans.normalize_over_groups(2).start)).round().astype(int))
            [[10 10]
             [30 50]]
        """
        # [B / G, G, 2]
        groups = self.log_partitions.reshape(-1, group_size, 2)
        totals = masked.logsumexp(groups, axis=1)[:, None]
        # Padding rows have no positions; their start and end stay -inf.
        finite = jnp.maximum(totals, jnp.finfo(jnp.float32).min)  # -inf minus -inf is NaN
        shares = jnp.where(groups > -jnp.inf, groups - finite, 0.0).reshape(-1, 2)
        return SpanDistribution(
            self.start + shares[:, :1],
            self.end + shares[:, 1:],
            self.where,
            jnp.broadcast_to(totals, groups.shape).reshape(-1, 2),
        )

    def log_prob(self, spans: Array) -> Array:
        """log P(z | x) of given spans.

        Args:
            spans: ``[B, Z, 2]`` int, positions of first and last token, both inclusive.

        Returns:
            ``[B, Z]`` float32; -inf where an end lies outside ``where`` or the row.
        """
        return tables.gather(self.start, spans[..., 0]) + tables.gather(self.end, spans[..., 1])

    def restrict_to(self, starts: Array, ends: Array | None = None) -> "SpanDistribution":
        """Sets log-probabilities of other starts and ends to -inf, unnormalised.

        The rest keep their values under the model, whose mass may partly lie elsewhere.

        Args:
            starts: ``[B, T]`` bool, where a span may start.
            ends: ``[B, T]`` bool, where it may end; None for the same.
        """
        ends = starts if ends is None else ends
        return SpanDistribution(
            jnp.where(starts, self.start, -jnp.inf),
            jnp.where(ends, self.end, -jnp.inf),
            self.where & (starts | ends),
            self.log_partitions,
        )

    def top(self, k: int, *, max_length: int, parts: Array | None = None) -> tuple[Array, Array]:
        """The ``k`` most likely spans of at most ``max_length`` tokens, best first.

        Ties go to the earlier start, then to the shorter span. Every span appears once.
        If there are fewer than ``k`` spans, the rest mean nothing and have log-probability -inf.

        Args:
            k: number of spans, static.
            max_length: tokens, static.
            parts: ``[B, T]`` int, the part of the input that each token belongs to; a span begins
                and ends in the same one. None for one part.

        Returns:
            ``[B, k, 2]`` int32 spans and their ``[B, k]`` float32 log-probabilities.

        Raises:
            ValueError: ``max_length`` is less than 1.

        Example:
            >>> logits = jnp.array([[0.0, 2.0, 0.5]])
            >>> spans = SpanDistribution.from_logits(logits, logits, where=logits > -1)
            >>> spans.top(2, max_length=2)[0].tolist()
            [[[1, 1], [1, 2]]]
            >>> spans.top(2, max_length=2, parts=jnp.array([[0, 0, 1]]))[0].tolist()
            [[[1, 1], [0, 1]]]
        """
        if max_length < 1:
            raise ValueError(f"max_length: expected at least 1, found {max_length}")
        num_tokens = self.start.shape[-1]
        max_length = max(1, min(max_length, num_tokens))

        def following(values: Array, beyond: float) -> Array:
            """``[B, T, L]``: the value l tokens after each one."""
            padded = jnp.pad(values, ((0, 0), (0, max_length - 1)), constant_values=beyond)
            return jnp.stack([padded[:, i : i + num_tokens] for i in range(max_length)], axis=-1)

        scores = self.start[..., None] + following(self.end, -jnp.inf)
        if parts is not None:
            scores = jnp.where(following(parts, 0) == parts[..., None], scores, -jnp.inf)
        log_probs, flat = tables.top(jax.lax.collapse(scores, 1), k)
        first = flat // max_length
        return jnp.stack([first, first + flat % max_length], axis=-1), log_probs

    def mode(self, *, max_length: int, parts: Array | None = None) -> Array:
        """The most likely span, ``[B, 2]`` int32. Arguments as in `top`."""
        return self.top(1, max_length=max_length, parts=parts)[0][:, 0]
