"""The likeliest queries of `QueryDistribution`: exhaustive search by the k best of each part.

A query's log-probability is a sum over its head (selected column, aggregator) and its conditions,
one column at a time, so the k best wholes are made of the k best parts.
"""

import jax
import jax.numpy as jnp

Array = jax.Array
FIELDS = 4  # column, operator, first word, last word


def top(scores: Array, k: int) -> tuple[Array, Array]:
    """`jax.lax.top_k`, with -inf at place 0 where there are fewer than ``k``."""
    found = min(k, scores.shape[-1])
    values, places = jax.lax.top_k(scores, found)
    missing = [(0, 0)] * (scores.ndim - 1) + [(0, k - found)]
    return jnp.pad(values, missing, constant_values=-jnp.inf), jnp.pad(places, missing)


def best_heads(select: Array, aggregator: Array, k: int) -> tuple[Array, Array]:
    """``[B, k', 2]`` selected column and aggregator, and their log-probabilities."""
    scores = select[..., None] + aggregator
    scores, flat = top(scores.reshape(len(scores), -1), k)
    num_aggregators = aggregator.shape[-1]
    heads = jnp.stack([flat // num_aggregators, flat % num_aggregators], axis=-1)
    return heads.astype(jnp.int32), scores


def best_conditions(
    column: Array, operator: Array, first: Array, last: Array, k: int
) -> tuple[Array, Array]:
    """``[B, C, k', 4]`` best conditions on each column, and what they add to a query."""
    num_words = first.shape[-1]
    forward = jnp.arange(num_words)[:, None] <= jnp.arange(num_words)[None]
    spans = first[..., :, None] + last[..., None, :]
    spans = jnp.where(forward[None, None, None], spans, -jnp.inf)
    batch, num_columns, num_operators = operator.shape
    scores, flat = top(spans.reshape(batch, num_columns, num_operators, -1), k)
    kept = scores.shape[-1]
    scores = (operator[..., None] + scores).reshape(batch, num_columns, -1)
    scores, place = top(scores, k)
    flat = jnp.take_along_axis(flat.reshape(batch, num_columns, -1), place, axis=-1)
    has_one = column[..., 1] - column[..., 0]
    columns = jnp.broadcast_to(jnp.arange(num_columns)[None, :, None], flat.shape)
    parts = [columns, place // kept, flat // num_words, flat % num_words]
    return jnp.stack(parts, axis=-1).astype(jnp.int32), has_one[..., None] + scores


def best_clauses(
    conditions: Array, gains: Array, number: Array, k: int, *, limit: int
) -> tuple[Array, Array]:
    """``[B, (limit + 1) k, 1 + 4 K]`` where-clauses of at most ``limit`` conditions, and what they
    add to a query: their number, then the conditions.

    Column by column: the k best clauses of each size are those of the columns before, or those
    of one condition less with one on this column.
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
            both = jnp.concatenate([scores[:, size], longer.reshape(batch, -1)], axis=1)
            rows = jnp.concatenate(
                [clauses[:, size], grown.reshape(batch, -1, width, FIELDS)], axis=1
            )
            best, place = top(both, k)
            new_scores.append(best)
            new_clauses.append(jnp.take_along_axis(rows, place[..., None, None], axis=1))
        return (jnp.stack(new_scores, axis=1), jnp.stack(new_clauses, axis=1)), None

    by_column = jnp.moveaxis(conditions, 1, 0), jnp.moveaxis(gains, 1, 0)
    (scores, clauses), _ = jax.lax.scan(add_column, (scores, clauses), by_column)
    sizes = jnp.arange(limit + 1)[None, :, None, None]
    sizes = jnp.broadcast_to(sizes, (batch, limit + 1, k, 1))
    rows = jnp.concatenate([sizes, clauses.reshape(batch, limit + 1, k, -1)], axis=-1)
    scores = scores + number[:, : limit + 1, None]
    return rows.reshape(batch, (limit + 1) * k, -1), scores.reshape(batch, -1)
