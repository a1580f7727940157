"""The benchmark of SQLova."""

from __future__ import annotations

import dataclasses

import numpy as np

from hardem_jax.queries.solutions.types import MAX_CONDITIONS
from hardem_jax.tables.layout import COLUMN_PIECES, question_and_headers
from hardem_jax.task.benchmark import Batch, BatchSizes, Step, random_texts


def random_batch(sizes: BatchSizes) -> Batch:
    """A question of a third of the row, then columns of three wordpieces; random queries."""
    from hardem_jax.queries.model import NUM_AGGREGATORS, NUM_OPERATORS

    rng = np.random.default_rng(0)
    texts = random_texts(dataclasses.replace(sizes, shortest=1.0), rng)
    words, headers = question_and_headers(sizes.tokens)
    rows, columns = sizes.rows, len(headers)
    places = headers[:, None] + np.arange(COLUMN_PIECES)[None]
    shape = rows, sizes.solutions
    number = rng.integers(0, min(MAX_CONDITIONS, columns) + 1, shape)
    chosen = np.argsort(rng.random((*shape, columns)), axis=-1)[..., :MAX_CONDITIONS]
    used = np.arange(MAX_CONDITIONS) < number[..., None]
    clause = np.full((*shape, MAX_CONDITIONS, 4), -1)
    clause[..., : chosen.shape[-1], 0] = np.sort(chosen, axis=-1)
    clause[..., 1] = rng.integers(0, NUM_OPERATORS, used.shape)
    clause[..., 2] = rng.integers(0, words, used.shape)
    clause[..., 3] = rng.integers(clause[..., 2], words)
    head = [rng.integers(0, columns, shape), rng.integers(0, NUM_AGGREGATORS, shape), number]
    clause = np.where(used[..., None], clause, -1).reshape(*shape, -1)
    return {
        **texts,
        "question_tokens": np.tile(1 + np.arange(words, dtype=np.int32), (rows, 1)),
        "question_where": np.ones((rows, words), bool),
        "words_first": np.tile(np.arange(words, dtype=np.int32), (rows, 1)),
        "words_where": np.ones((rows, words), bool),
        "header_tokens": np.tile(places.astype(np.int32), (rows, 1, 1)),
        "header_where": np.ones((rows, columns, COLUMN_PIECES), bool),
        "columns_where": np.ones((rows, columns), bool),
        "solutions": np.concatenate([np.stack(head, axis=-1), clause], axis=-1).astype(np.int32),
        "solutions_where": np.ones(shape, bool),
        "row_where": np.ones(rows, bool),
    }


def _model(encoder):
    from flax import nnx

    from hardem_jax.queries.model import SQLova

    return SQLova(encoder, rngs=nnx.Rngs(0))


STEPS = {"queries": Step(random_batch, _model, fills_rows=True)}
