"""The benchmark of the reader of several spans."""

from __future__ import annotations

import dataclasses

import numpy as np

from hardem_jax.task.benchmark import Batch, BatchSizes, Step, random_texts

#: Mentions of the texts of an answer, as many as a tagged reader looks at.
NUM_MENTIONS = 8
#: The longest mention, in words.
MAX_MENTION = 10


def random_batch(sizes: BatchSizes) -> Batch:
    """A question of an eighth of the row, words of one token; sets of mentions in every row."""
    rng = np.random.default_rng(0)
    texts = random_texts(dataclasses.replace(sizes, shortest=1.0), rng)
    rows = sizes.rows
    words = np.arange(sizes.context_begins, sizes.tokens, dtype=np.int32)
    # One mention in each of as many parts of the text, so that none overlap.
    parts = np.linspace(0, len(words), NUM_MENTIONS + 1).astype(int)
    first = rng.integers(parts[:-1], parts[1:], (rows, NUM_MENTIONS))
    last = np.minimum(first + rng.integers(0, MAX_MENTION, first.shape), parts[1:] - 1)
    solutions = rng.random((rows, sizes.solutions, NUM_MENTIONS)) < 0.5
    solutions[..., 0] |= ~solutions.any(axis=-1)
    return {
        **texts,
        "words": np.tile(words, (rows, 1)),
        "words_where": np.ones((rows, len(words)), bool),
        "mentions": np.stack([first, last], axis=-1).astype(np.int32),
        "solutions": solutions,
        "solutions_where": np.ones((rows, sizes.solutions), bool),
        "holds": np.ones(rows, bool),
        "row_where": np.ones(rows, bool),
    }


def _model(encoder):
    from flax import nnx

    from hardem_jax.span_sets.model import TaggedReader

    return TaggedReader(encoder, rngs=nnx.Rngs(0))


def _make_loss(graphdef, objective):
    from hardem_jax.span_sets.task import make_tagging_loss

    return make_tagging_loss(graphdef, objective)


STEPS = {"taggings": Step(random_batch, _model, _make_loss, fills_rows=True)}
