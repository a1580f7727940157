r"""P(z | x) over sets of spans, from an independent tag for every token.

An answer of several spans is a tagging of the tokens (Segal et al., 2020). With BIO tags, B begins
a span, I continues it, and O is outside; with IO tags, a span is a run of I, and spans that touch
are one. Tags are independent given x:

.. math:: \log P(z \mid x) = \sum_t \log P(\mathrm{O}_t) + \sum_{m \in z} s_m, \quad
    s_m = \sum_{t \in m} \log P(z_t) - \log P(\mathrm{O}_t)

for the set z of disjoint mentions m that a tagging marks. The first sum is shared by all z.

We know which texts belong to the answer, but each may be mentioned several times. Z holds the
taggings that mark every text at least once, and nothing else: one non-empty subset of mentions for
each text (`hardem_jax.span_sets.solutions.enumerate_taggings`)."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array

OUTSIDE, INSIDE, BEGIN = range(3)


@functools.partial(jax.tree_util.register_dataclass, data_fields=["tags", "where"], meta_fields=[])
@dataclasses.dataclass(frozen=True)
class TaggingDistribution:
    """Independent distributions over the tags of tokens.

    Build it with `from_logits`.

    Attributes:
        tags: ``[B, T, K]`` float32 log-probabilities of OUTSIDE and INSIDE (IO, K = 2), and of
            BEGIN (BIO, K = 3). Outside ``where``, OUTSIDE is certain.
        where: ``[B, T]`` bool, the tokens that may belong to a span.

    Example:
        >>> probabilities = jnp.array([[[0.5, 0.1, 0.4], [0.2, 0.7, 0.1], [0.6, 0.1, 0.3]]])
        >>> taggings = TaggingDistribution.from_logits(
        ...     jnp.log(probabilities), where=jnp.ones((1, 3), bool))
        >>> mentions = jnp.array([[[0, 1], [2, 2]]])  # the first two tokens; the third
        >>> chosen = jnp.array([[[True, False], [True, True]]])
        >>> print((1000 * jnp.exp(taggings.log_prob(mentions, chosen))).round())
        [[168.  84.]]
    """

    tags: Array
    where: Array

    @classmethod
    def from_logits(cls, logits: Array, *, where: Array) -> "TaggingDistribution":
        """Normalise the logits of each token over its tags, in float32.

        Args:
            logits: ``[B, T, K]`` float, finite where ``where`` is True; K is 2 for IO or 3 for BIO.
            where: ``[B, T]`` bool.

        Raises:
            ValueError: K is neither 2 nor 3.
        """
        num_tags = logits.shape[-1]
        if num_tags not in (2, 3):
            raise ValueError(f"logits: expected 2 or 3 tags for each token, found {num_tags}")
        real = where[..., None]
        # Mask the input too: an infinite logit at padding would make gradients NaN.
        tags = jax.nn.log_softmax(jnp.where(real, logits.astype(jnp.float32), 0.0), axis=-1)
        outside = jnp.where(jnp.arange(num_tags) == OUTSIDE, 0.0, -jnp.inf)[None, None]
        return cls(jnp.where(real, tags, outside), where)

    def log_prob(self, mentions: Array, chosen: Array) -> Array:
        """log P(z | x) of taggings that mark some of the given mentions, and nothing else.

        Args:
            mentions: ``[B, M, 2]`` int, first and last token, inclusive; valid in padding, too.
            chosen: ``[B, Z, M]`` bool, the mentions that each tagging marks.

        Returns:
            ``[B, Z]`` float32; -inf where a mention leaves ``where`` or the input, and where two
            that are chosen overlap or, with IO tags, touch, as they would be one span. A row that
            chooses nothing is the tagging without a span.
        """
        scores, possible = self._scores(mentions)
        clashes = self._clashes(mentions)
        clash = jnp.einsum("bzm,bzn,bmn->bz", *[chosen.astype(jnp.float32)] * 2, clashes) > 0
        impossible = clash | jnp.any(chosen & ~possible[:, None], axis=-1)
        marked = jnp.sum(jnp.where(chosen, scores[:, None], 0.0), axis=-1)
        unmarked = jnp.sum(self.tags[..., OUTSIDE], axis=-1, keepdims=True)
        return jnp.where(impossible, -jnp.inf, unmarked + marked)

    def mode(self, *, empty: bool = True) -> Array:
        """The most likely tagging that is well-formed: no I after an O or at the very start.

        Args:
            empty: whether it may mark nothing; if not, it has a span in every row with a token.

        Returns:
            ``[B, T]`` int32 tags. IO taggings are all well-formed.

        Example:
            >>> logits = jnp.log(jnp.array([[[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]]]))
            >>> where = jnp.ones((1, 2), bool)
            >>> TaggingDistribution.from_logits(logits, where=where).mode().tolist()
            [[2, 1]]
        """
        num_tags = self.tags.shape[-1]
        follows = _FOLLOWS[num_tags][None]
        scores = jnp.concatenate([self.tags, self.tags[..., OUTSIDE, None]], axis=-1)

        def forward(best: Array, tags: Array) -> tuple[Array, Array]:
            """Best score of the tokens so far by last state -> with one more, and where from."""
            allowed = jnp.where(follows, best[:, None, :], -jnp.inf)  # [B, state, state before]
            return jnp.max(allowed, axis=-1) + tags, jnp.argmax(allowed, axis=-1)

        def backward(state: Array, came_from: Array) -> tuple[Array, Array]:
            return jnp.take_along_axis(came_from, state[:, None], axis=1)[:, 0], state

        nothing_yet = jnp.arange(num_tags + 1)[None] == num_tags
        start = jnp.broadcast_to(jnp.where(nothing_yet, 0.0, -jnp.inf), (len(scores), num_tags + 1))
        best, came_from = jax.lax.scan(forward, start, jnp.swapaxes(scores, 0, 1))
        if not empty:
            must_mark = jnp.any(self.where, axis=-1, keepdims=True)
            best = jnp.where(nothing_yet & must_mark, -jnp.inf, best)
        _, found = jax.lax.scan(backward, jnp.argmax(best, axis=-1), came_from, reverse=True)
        found = jnp.swapaxes(found, 0, 1)
        return jnp.where(found == num_tags, OUTSIDE, found).astype(jnp.int32)

    def _scores(self, mentions: Array) -> tuple[Array, Array]:
        """``[B, M]``: what marking each mention adds to log P, and whether that is possible."""
        first, last = mentions[..., :1], mentions[..., 1:]
        places = jnp.arange(self.where.shape[-1])[None, None]
        here = (first <= places) & (places <= last)  # [B, M, T]
        possible = jnp.any(here, axis=-1) & ~jnp.any(here & ~self.where[:, None], axis=-1)
        possible &= (mentions[..., 0] >= 0) & (mentions[..., 1] < places.shape[-1])

        def gain(tag: int) -> Array:
            more = self.tags[..., tag] - self.tags[..., OUTSIDE]
            return jnp.where(self.where, more, 0.0)[:, None]

        # With IO tags, a span also begins with INSIDE, which is then the last tag.
        gains = jnp.where(places == first, gain(-1), gain(INSIDE))
        return jnp.sum(jnp.where(here, gains, 0.0), axis=-1), possible

    def _clashes(self, mentions: Array) -> Array:
        """``[B, M, M]`` float32, 1 where no tagging marks both of two different mentions."""
        first, last = mentions[..., 0], mentions[..., 1].astype(jnp.int32)
        # With IO tags, a span that begins right after another one continues it.
        if self.tags.shape[-1] == 2:
            last += 1
        clash = (first[:, :, None] <= last[:, None]) & (first[:, None] <= last[:, :, None])
        return (clash & ~jnp.eye(clash.shape[-1], dtype=bool)[None]).astype(jnp.float32)


def marked_spans(tags: np.ndarray) -> list[tuple[int, int]]:
    """First and last token, both inclusive, of each span of one tagging.

    Args:
        tags: ``[T]`` int. An INSIDE that follows no token of a span begins one.

    Example:
        >>> marked_spans(np.array([BEGIN, INSIDE, BEGIN, OUTSIDE, INSIDE]))
        [(0, 1), (2, 2), (4, 4)]
    """
    spans: list[tuple[int, int]] = []
    for place, tag in enumerate(tags.tolist()):
        if tag == INSIDE and spans and spans[-1][1] == place - 1:
            spans[-1] = spans[-1][0], place
        elif tag != OUTSIDE:
            spans.append((place, place))
    return spans


# Number of tags -> state, state before it: whether they may follow one another. A state is a tag
# once the first span has begun; the last state says that none has begun yet.
_FOLLOWS = {
    2: np.array([[1, 1, 0], [1, 1, 1], [0, 0, 1]], bool),
    3: np.array([[1, 1, 1, 0], [0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 1]], bool),
}
