"""What a training step says about the most likely z of Z, measured and never trained on.

Whether it is another one than when the question was last seen, and how likely the true z is where
it is known.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hardem_jax.training.grad_accumulation import MEMORY, Mean

Array = jax.Array
#: What is remembered of an input: the index in its Z of the most likely z when it was last seen.
BEST_Z = "best_z"
#: It was not seen yet.
NOT_SEEN = -1
#: The most likely z was in another window of its group.
ELSEWHERE = -2


def first_memory(num_inputs: int) -> dict[str, np.ndarray]:
    """What `visit_metrics` remembers of each input before the first step.

    Example:
        >>> first_memory(3)
        {'best_z': array([-1, -1, -1], dtype=int32)}
    """
    return {BEST_Z: np.full(num_inputs, NOT_SEEN, np.int32)}


def visit_metrics(
    log_probs: Array,
    where: Array,
    *,
    true_solution: Array | None = None,
    memory: Mapping[str, Array] | None = None,
) -> dict[str, Any]:
    """Whether the best z changed, and the rank of the true one; no gradient flows through either.

    A row of Z has the solutions of G windows, one after the other; G is 1 but where windows share a
    latent variable.

    Args:
        log_probs: ``[B, G * Z]``, log P of the solutions.
        where: ``[B, G * Z]`` bool, real solutions.
        true_solution: ``[B * G]`` int32, index of the true z among the Z of its window; -1 if it is
            not known or not among them. None reports no rank.
        memory: has ``best_z``, ``[B * G]`` int32, from `first_memory` or the last visit. None, or
            one without it, reports no changes.

    Returns:
        ``z_true_rank``, 1 for the most likely z, the mean over rows whose true z is known; of
        several (windows overlap) the most likely counts. ``z_changed``, the share of rows with
        several solutions, seen before, whose most likely z is not that of the last visit; in a
        group, of the last visit of the window that it is in. Each is a `Mean`, with a count of 0
        where there is no such row, and then missing from the log. ``memory``, the ``best_z`` to
        remember.

    Example:
        >>> log_probs = jnp.log(jnp.array([[0.2, 0.5], [0.6, 0.3]]))
        >>> found = visit_metrics(
        ...     log_probs, jnp.ones((2, 2), bool), true_solution=jnp.array([0, -1]),
        ...     memory={"best_z": jnp.array([0, -1])})
        >>> float(found["z_true_rank"]), float(found["z_changed"])
        (2.0, 1.0)
        >>> found["memory"]["best_z"].tolist()
        [1, 0]
    """
    log_probs = jax.lax.stop_gradient(log_probs)
    found: dict[str, Any] = {}
    if true_solution is not None:
        found["z_true_rank"] = _true_rank(log_probs, where, true_solution)
    if memory is not None and BEST_Z in memory:
        best = jnp.argmax(jnp.where(where, log_probs, -jnp.inf), axis=-1)
        before = memory[BEST_Z].reshape(len(log_probs), -1)
        window, number = jnp.divmod(best, where.shape[-1] // before.shape[-1])
        last = jnp.take_along_axis(before, window[:, None], axis=-1)[:, 0]
        seen = (jnp.sum(where, axis=-1) > 1) & (last != NOT_SEEN)
        found["z_changed"] = Mean(jnp.sum(seen & (last != number)), jnp.sum(seen))
        is_best = jnp.arange(before.shape[-1])[None] == window[:, None]
        now = jnp.where(is_best, number[:, None], ELSEWHERE)
        now = jnp.where(jnp.any(where, axis=-1, keepdims=True), now, NOT_SEEN)
        found[MEMORY] = {BEST_Z: now.reshape(-1).astype(jnp.int32)}
    return found


def _true_rank(log_probs: Array, where: Array, true_solution: Array) -> Mean:
    windows = true_solution.size // len(log_probs)
    is_true = jax.nn.one_hot(true_solution, where.shape[-1] // windows, dtype=bool)
    is_true = is_true.reshape(where.shape) & where
    best_true = jnp.max(log_probs, axis=-1, where=is_true, initial=-jnp.inf, keepdims=True)
    ranks = 1 + jnp.sum((log_probs > best_true) & where & ~is_true, axis=-1)
    known = jnp.any(is_true, axis=-1)
    return Mean(jnp.sum(ranks, where=known), jnp.sum(known))
