"""Sets of candidate solutions: merged without duplicates, remembered, and recognised later.

A candidate is a row of W integers. Absent ones are rows of -1, so that sets have static shapes.
"""

from typing import Protocol

import jax
import jax.numpy as jnp

Array = jax.Array


class Space(Protocol):
    """The distribution over the solutions of a batch of questions, and their rewards.

    Z is neither known nor needed: a reward only compares the result of a solution with the answer.
    """

    def beam(self, count: int) -> Array:
        """The most likely solutions of all, ``[B, count, W]`` int32, best first."""
        ...

    def sample(self, key: Array, count: int) -> Array:
        """``[B, count, W]`` int32, independent of each other; repeated ones included."""
        ...

    def log_prob(self, solutions: Array) -> Array:
        """``[B, N, W]`` -> ``[B, N]`` log P(z | x) float32, with a gradient."""
        ...

    def log_mass(self) -> Array:
        """``[B]``, log of the total probability of what `sample` draws from, with a gradient."""
        ...

    def reward(self, solutions: Array, where: Array) -> Array:
        """``[B, N, W]``, ``[B, N]`` bool -> ``[B, N]`` float32: 1 for a correct one, else 0."""
        ...


def exist(solutions: Array) -> Array:
    """``[B, N, W]`` -> ``[B, N]`` bool: which candidates are not padding."""
    return solutions[..., 0] >= 0


def distinct(solutions: Array, where: Array) -> Array:
    """The first of equal candidates in ``where``, ``[B, N]`` bool; False at padding.

    >>> solutions = jnp.array([[[3, 1], [3, 2], [3, 1], [-1, -1]]])
    >>> print(distinct(solutions, jnp.ones((1, 4), bool)))
    [[ True  True False False]]
    """
    where = where & exist(solutions)
    equal = _equal(solutions, solutions) & where[:, None, :]
    return where & (jnp.argmax(equal, axis=-1) == jnp.arange(where.shape[-1])[None])


def contains(known: Array, solutions: Array) -> Array:
    """``[B, M, W]``, ``[B, N, W]`` -> ``[B, N]`` bool: which candidates are known."""
    return jnp.any(_equal(solutions, known) & exist(known)[:, None, :], axis=-1)


def best(solutions: Array, log_probs: Array, where: Array, count: int) -> Array:
    """The ``count`` most likely of the candidates in ``where``, best first, then padding.

    ``[B, N, W]``, ``[B, N]``, ``[B, N]`` bool without duplicates -> ``[B, count, W]``.

    >>> solutions, yes = jnp.array([[[3, 1], [3, 2], [3, 4]]]), jnp.array([[True, False, True]])
    >>> best(solutions, jnp.log(jnp.array([[0.1, 0.5, 0.2]])), yes, 3).tolist()
    [[[3, 4], [3, 1], [-1, -1]]]
    """
    # Below every possible log-probability, but above candidates that are not asked for.
    ranked = jnp.where(where, jnp.maximum(log_probs, -1e30), -jnp.inf)
    _, places = jax.lax.top_k(ranked, min(count, solutions.shape[1]))
    return _taken(solutions, where, places, count)


def first(solutions: Array, where: Array, count: int) -> Array:
    """The first ``count`` of the candidates in ``where``, in their order, then padding."""
    return _taken(solutions, where, jnp.argsort(~where, axis=-1, stable=True)[:, :count], count)


def _taken(solutions: Array, where: Array, places: Array, count: int) -> Array:
    """The candidates in ``where`` among those at ``[B, n]`` places, and padding up to ``count``."""
    taken = jnp.take_along_axis(solutions, places[..., None], axis=1)
    taken = jnp.where(jnp.take_along_axis(where, places, axis=1)[..., None], taken, -1)
    return jnp.pad(taken, ((0, 0), (0, count - places.shape[1]), (0, 0)), constant_values=-1)


def fingerprints(solutions: Array) -> Array:
    """``[B, N, W]`` -> ``[B, N]`` uint32 above 0, 0 for padding: equal for equal candidates, and
    for two others with probability 2**-32 (FNV-1a over their integers)."""
    hashed = jnp.full(solutions.shape[:2], 2166136261, jnp.uint32)
    for field in range(solutions.shape[-1]):
        hashed = (hashed ^ solutions[..., field].astype(jnp.uint32)) * jnp.uint32(16777619)
    # The last fields hardly reach the upper bits.
    hashed = (hashed ^ (hashed >> 15)) * jnp.uint32(2246822519)
    return jnp.where(exist(solutions), jnp.maximum(hashed ^ (hashed >> 13), 1), 0)


def is_seen(seen: Array, solutions: Array) -> Array:
    """``[B, S]`` fingerprints, ``[B, N, W]`` -> ``[B, N]`` bool."""
    return jnp.any(fingerprints(solutions)[..., None] == seen[:, None, :], axis=-1)


def see(seen: Array, solutions: Array, where: Array) -> Array:
    """Adds candidates to those seen; if there are more than S, the oldest are forgotten.

    >>> seen, yes = jnp.zeros((1, 2), jnp.uint32), jnp.ones((1, 1), bool)
    >>> for number in (5, 6, 7):
    ...     seen = see(seen, jnp.full((1, 1, 3), number), yes)
    >>> [bool(is_seen(seen, jnp.full((1, 1, 3), number))[0, 0]) for number in (5, 6, 7)]
    [False, True, True]
    """
    new = where & exist(solutions) & ~is_seen(seen, solutions)
    new = distinct(solutions, new)
    both = jnp.concatenate([jnp.where(new, fingerprints(solutions), 0), seen], axis=1)
    order = jnp.argsort(both == 0, axis=-1, stable=True)[:, : seen.shape[1]]
    return jnp.take_along_axis(both, order, axis=1)


def _equal(one: Array, two: Array) -> Array:
    """``[B, N, W]``, ``[B, M, W]`` -> ``[B, N, M]`` bool."""
    return jnp.all(one[:, :, None] == two[:, None], axis=-1)
