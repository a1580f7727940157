r"""Losses over K solutions drawn from the model itself, for a Z too large to enumerate.

`hardem_jax.losses` treats a Z found by sampling like any other: pass ``where`` to mark the draws
that execute to the answer, use `distinct` to drop repeated draws, and pass ``log_weights``
for an importance-weighted bound. What those losses cannot say is that a draw should become *less*
likely. The losses here can: each is

.. math:: -\sum_k A_k \log P(z_k \mid x)

with advantages :math:`A_k` of either sign, which get no gradient. They differ in what the gradient
is an estimate of:

=====================  ===========================================================================
`reinforce_loss`       :math:`\nabla P(y \mid x)`, the expected reward, without bias
`trice_loss`           :math:`\nabla \log P(y \mid x)`, without bias if the memory is a draw from
                       the posterior
=====================  ===========================================================================

The *value* of such a loss means nothing; only its gradient matters. Draws must be those of the
model at this step, repeated ones included. Rows are ``[..., K]``; ``where`` and ``reduce_fn`` are
those of `losses.hard_em_loss`.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from hardem_jax.losses import ReduceFn, reduce_rows
from hardem_jax.masked import Rows, as_mask, replicate_last_axis

Array = jax.Array


def advantage_loss(
    log_probs: ArrayLike,
    advantages: ArrayLike,
    *,
    where: ArrayLike | None = None,
    reduce_fn: ReduceFn | None = jnp.mean,
) -> Array:
    r""":math:`-\sum_k A_k \log P(z_k \mid x)`, the surrogate of every score-function estimator.

    Args:
        log_probs: ``[..., K]`` log-probabilities of K draws; impossible ones (-inf) cost nothing.
        advantages: of the same shape; no gradient reaches them.
        where: mask of the same shape; False (or 0) marks padding.
        reduce_fn: as in `losses.hard_em_loss`.

    Returns:
        float32 scalar, or the batch shape with ``reduce_fn=None``.

    Raises:
        ValueError: shapes do not agree.

    Example:
        >>> log_probs = jnp.log(jnp.array([0.5, 0.2]))
        >>> print(jax.grad(advantage_loss)(log_probs, jnp.array([1.0, -0.5])))
        [-1.   0.5]
    """
    z = Rows.of(log_probs, where=where)
    weights = jax.lax.stop_gradient(z.aligned("advantages", advantages))
    possible = z.where & z.possible
    values = -z.sum(jnp.where(possible, weights * jnp.where(possible, z.scores, 0.0), 0.0))
    return reduce_rows(z, values, reduce_fn)


def reinforce_loss(
    log_probs: ArrayLike,
    rewards: ArrayLike,
    *,
    where: ArrayLike | None = None,
    reduce_fn: ReduceFn | None = jnp.mean,
) -> Array:
    r"""REINFORCE (Williams, 1992), each draw compared with the others of its row.

    :math:`A_k = \frac1K (r_k - \frac1{K - 1} \sum_{j \ne k} r_j)`, the leave-one-out baseline (Kool
    et al., 2019; in LaTRO, Chen et al., 2024); for a single draw, :math:`A_1 = r_1`.

    Args:
        log_probs, where, reduce_fn: as in `advantage_loss`.
        rewards: of the same shape, such as 1 for a draw that executes to the answer, else 0.

    Example:
        >>> log_probs = jnp.log(jnp.array([0.5, 0.2, 0.1]))
        >>> print(-jax.grad(reinforce_loss)(log_probs, jnp.array([3.0, 0.0, 0.0])))
        [ 1.  -0.5 -0.5]
    """
    z = Rows.of(log_probs, where=where)
    rewards = z.aligned("rewards", rewards)
    advantages = (rewards - _mean_of_others(z, rewards)) / _count(z)
    return advantage_loss(log_probs, advantages, where=where, reduce_fn=reduce_fn)


def trice_loss(
    log_probs: ArrayLike,
    right: ArrayLike,
    *,
    memory_log_probs: ArrayLike,
    has_memory: ArrayLike,
    control_variate: bool = True,
    where: ArrayLike | None = None,
    reduce_fn: ReduceFn | None = jnp.mean,
) -> Array:
    r"""TRICE (Phan et al., 2023): a Markov chain over right solutions, with its control variate.

    The chain of a row starts at its memory, a right solution from earlier, and moves to each draw
    that is right: an independence sampler of :math:`P(z \mid x, y)`. With :math:`\tilde z_k` its
    state after the k-th draw, the gradient is that of

    .. math:: -\frac1K \sum_k \log P(\tilde z_k \mid x) - \beta_k \log P(z_k \mid x).

    The second term is 0 on average for any :math:`\beta_k` that does not depend on
    :math:`z_k`; here it is the share of the row's other draws that are right. As that share goes to
    1, the two terms cancel and the variance goes to 0.

    Args:
        log_probs, where, reduce_fn: as in `advantage_loss`. A row without memory starts at its
            first right draw and, if it has none, contributes nothing.
        right: mask of the same shape: which draws execute to the answer.
        memory_log_probs: ``[...]``, log P of each row's memory; an impossible one costs nothing.
        has_memory: ``[...]`` mask of the rows that have one. After the step, the memory of a row
            becomes its last right draw, if there is one.
        control_variate: without it, :math:`\beta_k` = 0.

    Raises:
        ValueError: a shape differs.

    Example:
        >>> log_probs, right = jnp.log(jnp.array([0.5, 0.2, 0.1])), jnp.array([0, 1, 0])
        >>> memory = {"memory_log_probs": jnp.log(0.3), "has_memory": jnp.array(True)}
        >>> print(-jax.grad(trice_loss)(log_probs, right, control_variate=False, **memory).round(4))
        [0.     0.6667 0.    ]
    """
    z = Rows.of(log_probs, where=where)
    right = z.aligned("right", as_mask(right)) > 0
    for name, x in ("memory_log_probs", memory_log_probs), ("has_memory", has_memory):
        if (shape := jnp.shape(x)) != z.scores.shape[:-1]:
            raise ValueError(f"{name} must have shape {z.scores.shape[:-1]}, got {shape}")
    known = as_mask(has_memory)
    memory = jnp.asarray(memory_log_probs, jnp.float32)
    memory = jnp.where(known & (memory != -jnp.inf), memory, 0.0)
    # The state after draw k is the last right draw among the first k; -1 stands for the memory.
    place = jnp.broadcast_to(jnp.arange(z.scores.shape[-1]), z.scores.shape)
    state = jax.lax.cummax(jnp.where(right, place, -1), axis=right.ndim - 1)
    visited = z.where & (known[..., None] | (state >= 0))
    length = jnp.maximum(z.sum(visited.astype(jnp.float32)), 1.0)
    stays = (state[..., :, None] == place[..., None, :]) & visited[..., :, None]
    advantages = stays.sum(-2).astype(jnp.float32)
    if control_variate:
        advantages -= jnp.where(visited, _mean_of_others(z, right.astype(jnp.float32)), 0.0)
    advantages /= length[..., None]
    at_memory = z.sum((visited & (state < 0)).astype(jnp.float32)) / length
    values = advantage_loss(log_probs, advantages, where=where, reduce_fn=None) - at_memory * memory
    return reduce_rows(z, values, reduce_fn)


def distinct(
    ids: ArrayLike,
    *,
    where: ArrayLike | None = None,
    segment_ids: ArrayLike | None = None,
    num_segments: int | None = None,
) -> Array:
    """Returns a mask that keeps the first solution with each id in a row.

    Pass it as ``where`` if Z was sampled: Z is a set, and a solution that was drawn twice is not
    twice as probable.

    Args:
        ids: ``[..., Z]`` or, ragged, ``[N]`` int: equal for equal solutions.
        others: as in `losses.hard_em_loss`; masked solutions are not kept.

    Returns:
        bool, the shape of ``ids``.

    Raises:
        TypeError: the ids are not integers.

    Example:
        >>> print(distinct(jnp.array([[7, 3, 7, 3, 5]])))
        [[ True  True False False  True]]
    """
    whole: Any = ids if hasattr(ids, "dtype") else jnp.asarray(ids)
    if not jnp.issubdtype(whole.dtype, jnp.integer):
        raise TypeError(f"ids must be integers, got {whole.dtype}")
    halves = [whole]
    if whole.dtype in ("int64", "uint64"):  # which JAX may cut to 32 bits
        halves = [(whole >> 32).astype("int32"), (whole & 0xFFFFFFFF).astype("uint32")]
    halves = [replicate_last_axis(jnp.asarray(half)) for half in halves]
    rows = {"where": where, "segment_ids": segment_ids, "num_segments": num_segments}
    z = Rows.of(jnp.zeros_like(halves[0], jnp.float32), **rows)
    zeros = jnp.zeros_like(z.scores, jnp.int32)  # in the sharding of both the ids and the mask
    halves = [half + zeros.astype(half.dtype) for half in halves]
    row = zeros if z.segment_ids is None else z.segment_ids
    place = jnp.cumsum(zeros + 1, axis=-1)
    # By row, padding last, then by id, then by place. `jnp.lexsort` knows no Explicit sharding;
    # with scores of 0, `possible` is `where` in the sharding of the ids.
    keys = ~z.possible, row, *halves, place
    _, *named, place = jax.lax.sort(keys, num_keys=len(keys))
    same = functools.reduce(jnp.logical_and, [x[..., 1:] == x[..., :-1] for x in named])
    is_first = jnp.concatenate([jnp.ones_like(place[..., :1], bool), ~same], axis=-1)
    return jax.lax.sort((place, is_first), num_keys=1)[1] & z.where


def _count(z: Rows) -> Array:
    """``[..., 1]`` float32: number of draws in each row, at least 1."""
    return jnp.maximum(z.spread(z.sum(z.where.astype(jnp.float32))), 1.0)


def _mean_of_others(z: Rows, x: Array) -> Array:
    """``[..., K]``: for each draw the mean of the others of its row; 0 if there are none."""
    mean = (z.spread(z.sum(x)) - x) / jnp.maximum(_count(z) - 1.0, 1.0)
    return jnp.where(_count(z) > 1, mean, 0.0)
