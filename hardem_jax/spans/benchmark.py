"""The benchmark of the span reader."""

from __future__ import annotations

import numpy as np

from hardem_jax.task.benchmark import Batch, BatchSizes, Step, random_texts

#: The longest mention, in tokens (released code: 10).
MAX_MENTION = 10


def random_batch(sizes: BatchSizes) -> Batch:
    """Windows as in training: the first half has mentions, the other half none."""
    rng = np.random.default_rng(0)
    rows = sizes.rows
    texts = random_texts(sizes, rng)
    answerable = np.arange(rows)[:, None] < rows // 2
    end = texts["where"].sum(axis=1, keepdims=True) - 1  # the last real token is [SEP]
    first = rng.integers(sizes.context_begins, end, (rows, sizes.solutions))
    last = np.minimum(first + rng.integers(0, MAX_MENTION, first.shape), end - 1)
    position = np.arange(sizes.tokens)[None]
    return {
        **texts,
        "context": (texts["token_type_ids"] > 0) & (position < end),
        "solutions": (np.stack([first, last], axis=-1) * answerable[..., None]).astype(np.int32),
        "solutions_where": np.broadcast_to(answerable, first.shape).copy(),
        "row_where": np.ones(rows, bool),
    }


def _model(encoder):
    from flax import nnx

    from hardem_jax.spans.model import SpanReader

    return SpanReader(encoder, rngs=nnx.Rngs(0))


def _make_loss(graphdef, objective):
    from hardem_jax.spans.task import make_span_loss

    return make_span_loss(graphdef, objective)


STEPS = {"spans": Step(random_batch, _model, _make_loss)}
