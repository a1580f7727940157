"""The most likely queries of `QueryDistribution`, exactly, on the device.

A query's log-probability is a sum over its head (selected column, aggregator) and its conditions,
one column at a time, so the k best queries consist of parts that are each among the k best.
"""

import jax
import jax.numpy as jnp

from hardem_jax.score_tables import top

Array = jax.Array
FIELDS = 4  # column, operator, first word, last word


def best_heads(
    select: Array, aggregator: Array, k: int, *, where: Array | None = None
) -> tuple[Array, Array]:
    """The best ``[B, k', 2]`` selected columns and aggregators, and their log-probabilities.

    Those outside ``where``, ``[B, C, A]`` bool, have -inf.
    """
    scores = select[..., None] + aggregator
    if where is not None:
        scores = jnp.where(where, scores, -jnp.inf)
    scores, flat = top(jax.lax.collapse(scores, 1), k)
    num_aggregators = aggregator.shape[-1]
    heads = jnp.stack([flat // num_aggregators, flat % num_aggregators], axis=-1)
    return heads.astype(jnp.int32), scores


def best_conditions(
    column: Array, operator: Array, first: Array, last: Array, k: int
) -> tuple[Array, Array]:
    """The best ``[B, C, k', 4]`` conditions on each column, and what they add to a score."""
    num_words = first.shape[-1]
    forward = jnp.arange(num_words)[:, None] <= jnp.arange(num_words)[None]
    spans = first[..., :, None] + last[..., None, :]
    spans = jnp.where(forward[None, None, None], spans, -jnp.inf)
    batch, num_columns, num_operators = operator.shape
    scores, flat = top(jax.lax.collapse(spans, 3), k)
    kept = scores.shape[-1]
    scores = jax.lax.collapse(operator[..., None] + scores, 2)
    scores, best = top(scores, k)
    flat = jnp.take_along_axis(jax.lax.collapse(flat, 2), best, axis=-1)
    has_one = column[..., 1] - column[..., 0]
    columns = jnp.broadcast_to(jnp.arange(num_columns)[None, :, None], flat.shape)
    parts = [columns, best // kept, flat // num_words, flat % num_words]
    return jnp.stack(parts, axis=-1).astype(jnp.int32), has_one[..., None] + scores


def best_clauses(
    conditions: Array, gains: Array, number: Array, k: int, *, limit: int
) -> tuple[Array, Array]:
    """The best ``[B, (limit + 1) k, 1 + 4 K]`` where-clauses of at most ``limit`` conditions.

    Also returns what they add to a score. A clause is its number of conditions, then the
    conditions. The search goes column by column: the k best clauses of each size are among those
    of the previous columns and those with one condition fewer, extended by one on this column.
    """
    batch, width = len(gains), number.shape[-1] - 1
    scores = jnp.full((batch, limit + 1, k), -jnp.inf).at[:, 0, 0].set(0.0)
    clauses = jnp.full((batch, limit + 1, k, width, FIELDS), -1, jnp.int32)

    def add_column(carry, column):
        scores, clauses = carry
        condition, gain = column  # [B, k', 4], [B, k']
        new_scores, new_clauses = [scores[:, 0]], [clauses[:, 0]]
        for size in range(1, limit + 1):
            longer = scores[:, size - 1, :, None] + gain[:, None, :]
            grown = jnp.broadcast_to(clauses[:, size - 1, :, None], (*longer.shape, width, FIELDS))
            grown = grown.at[:, :, :, size - 1].set(condition[:, None])
            both = jnp.concatenate([scores[:, size], jax.lax.collapse(longer, 1)], axis=1)
            rows = jnp.concatenate([clauses[:, size], jax.lax.collapse(grown, 1, 3)], axis=1)
            best, indices = top(both, k)
            new_scores.append(best)
            new_clauses.append(jnp.take_along_axis(rows, indices[..., None, None], axis=1))
        return (jnp.stack(new_scores, axis=1), jnp.stack(new_clauses, axis=1)), None

    by_column = jnp.moveaxis(conditions, 1, 0), jnp.moveaxis(gains, 1, 0)
    (scores, clauses), _ = jax.lax.scan(add_column, (scores, clauses), by_column)
    sizes = jnp.arange(limit + 1)[None, :, None, None]
    sizes = jnp.broadcast_to(sizes, (batch, limit + 1, k, 1))
    rows = jnp.concatenate([sizes, jax.lax.collapse(clauses, 3)], axis=-1)
    scores = scores + number[:, : limit + 1, None]
    return jax.lax.collapse(rows, 1, 3), jax.lax.collapse(scores, 1)
