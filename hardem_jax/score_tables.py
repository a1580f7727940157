"""Reading tables of log-probabilities: entries, rows, the best entries, and random ones."""

import jax
import jax.numpy as jnp

Array = jax.Array


def gather(table: Array, indices: Array, *, fill: float | bool = -jnp.inf) -> Array:
    """Entries ``[B, ...]`` of each row's flat table; ``fill`` outside of it.

    Example:
        >>> gather(jnp.array([[[1.0, 2.0], [3.0, 4.0]]]), jnp.array([[2, 9, -1]])).tolist()
        [[3.0, -inf, -inf]]
    """
    flat, places = (jax.lax.collapse(x, 1) for x in (table, indices.astype(jnp.int32)))
    if flat.shape[1] == 0:  # where take_along_axis fills with 0
        return jnp.full(indices.shape, fill, table.dtype)
    inside = (places >= 0) & (places < flat.shape[1])
    found = jnp.take_along_axis(flat, jnp.where(inside, places, 0), axis=1)
    return jnp.where(inside, found, fill).reshape(indices.shape)


def rows(table: Array, places: Array) -> Array:
    """``[B, N, X]``, ``[B, M]`` -> ``[B, M, X]``."""
    return jnp.take_along_axis(table, places[..., None], axis=1)


def top(scores: Array, k: int) -> tuple[Array, Array]:
    """`jax.lax.top_k`, padded with -inf at index 0 if there are fewer than ``k`` scores."""
    num_found = min(k, scores.shape[-1])
    values, indices = jax.lax.top_k(scores, num_found)
    missing = [(0, 0)] * (scores.ndim - 1) + [(0, k - num_found)]
    return jnp.pad(values, missing, constant_values=-jnp.inf), jnp.pad(indices, missing)


def draw(key: Array, logits: Array) -> Array:
    """``[..., N]`` -> ``[...]`` int32, one index per row of logits. The index is arbitrary if no
    entry of the row is possible, and 0 if it has none."""
    if not logits.shape[-1]:
        return jnp.zeros(logits.shape[:-1], jnp.int32)
    return jax.random.categorical(key, logits, axis=-1).astype(jnp.int32)


def argmax(scores: Array) -> Array:
    """``[..., N]`` -> ``[...]`` int32, the first index of the maximum; 0 without entries."""
    if not scores.shape[-1]:
        return jnp.zeros(scores.shape[:-1], jnp.int32)
    return jnp.argmax(scores, axis=-1)


def repeated(table: Array, count: int) -> Array:
    """``[B, N]`` -> ``[B, count, N]``."""
    return jnp.broadcast_to(table[:, None], (len(table), count, table.shape[-1]))
