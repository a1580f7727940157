"""Training with a reward that is learned with the parser, see `hardem_jax.search.likelihoods.MERL`.

The reward's weights are a part of the trained module, so the same optimizer updates them and the
same checkpoints hold them. Reading questions needs none of them: a trained parser is without.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from hardem_jax import losses
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.encoders.ops.attention import only_xla
from hardem_jax.errors import InputError
from hardem_jax.search.candidates import Space
from hardem_jax.search.learned_rewards import searched_reward_loss
from hardem_jax.search.objectives import MERL
from hardem_jax.tables.reward_features import cues_of
from hardem_jax.tables.search_losses import reported
from hardem_jax.training.grad_accumulation import MEMORY, LossFn
from hardem_jax.training.state import ITEM

Array = jax.Array
#: Of the parser: the reward that only training reads.
LEARNED_REWARD = "learned_reward"
#: Of the memory of a question: which of `reward_features.CUES` it has. Training does not change it.
CUES_ENTRY = "cues"
#: Solutions ``[B, N, W]``, cues ``[B, K]`` and a batch -> ``[B, N, F]`` float32.
Features = Callable[[Array, Array, Mapping[str, Array]], Array]


class LearnedReward(nnx.Module):
    """A log-linear reward, 0 at first.

    Args:
        num_features: F.
    """

    def __init__(self, num_features: int):
        self.weights = nnx.Param(jnp.zeros(num_features, jnp.float32))


def with_reward(model: Any, num_features: int) -> Any:
    """A `hardem_jax.task.base.Model` whose module also has a `LearnedReward`.

    Raises:
        InputError: the model asks for an attention kernel.
    """
    kernel = getattr(getattr(model, "config", None), "attention", "auto")
    if kernel not in ("auto", "xla"):
        raise InputError(
            "--model.attention: expected xla for MERL, which differentiates the backward pass, "
            f"found {kernel}, a kernel without that derivative; add --model.attention xla"
        )
    module = nnx.merge(model.graphdef, model.params)
    setattr(module, LEARNED_REWARD, LearnedReward(num_features))
    graphdef, params = nnx.split(module, nnx.Param)
    return dataclasses.replace(model, graphdef=graphdef, params=params)


def cue_memory(questions: Sequence[Any]) -> dict[str, np.ndarray]:
    """The entry of the memory that says which cues each question has, ``[N, K]`` bool."""
    return {CUES_ENTRY: cues_of(question.question for question in questions)}


def check_batches(objective: MERL, batches: BatchConfig) -> None:
    """Raises `InputError` if one of so many rows of a batch cannot be held out."""
    if batches.packed_tokens:
        raise InputError(
            "--batches.packed-tokens: expected none for MERL, which holds out whole rows, found "
            f"{batches.packed_tokens}"
        )
    multiple = objective.held_out * batches.accumulate
    if batches.batch_size % multiple:
        raise InputError(
            f"--batches.batch-size: expected a multiple of {multiple} for MERL, which holds out "
            f"one of {objective.held_out} questions in each of {batches.accumulate} parts, found "
            f"{batches.batch_size}"
        )


def apart(batch: Any, every: int, step: Array | int) -> tuple[Any, Any]:
    """A batch without its held-out rows, and these: one of ``every``, another in the next step.

    The rows that stand together stay together, so that devices need not exchange rows.

    Args:
        batch: a tree of arrays ``[R, ...]``, R a multiple of ``every``.
        every: static.
        step: number of the step.

    Example:
        >>> for step in range(3):
        ...     own, other = apart(jnp.arange(6), 3, step)
        ...     print(own, other, together(own, other, 3, step))
        [1 2 4 5] [0 3] [0 1 2 3 4 5]
        [2 0 5 3] [1 4] [0 1 2 3 4 5]
        [0 1 3 4] [2 5] [0 1 2 3 4 5]
    """

    def grouped(x: Array) -> Array:
        return jnp.roll(jnp.reshape(x, (-1, every, *x.shape[1:])), -(step % every), axis=1)

    def own(x: Array) -> Array:
        return jnp.reshape(grouped(x)[:, 1:], (-1, *x.shape[1:]))

    return jax.tree.map(own, batch), jax.tree.map(lambda x: grouped(x)[:, 0], batch)


def together(own: Any, other: Any, every: int, step: Array | int) -> Any:
    """The rows of a batch in its order; the inverse of `apart`."""

    def joined(own: Array, other: Array) -> Array:
        groups = [other[:, None], jnp.reshape(own, (-1, every - 1, *own.shape[1:]))]
        return jnp.reshape(
            jnp.roll(jnp.concatenate(groups, axis=1), step % every, axis=1), (-1, *own.shape[1:])
        )

    return jax.tree.map(joined, own, other)


def make_learned_reward_loss(
    graphdef: nnx.GraphDef,
    objective: MERL,
    space: Callable[[Any, Mapping[str, Array]], Space],
    features: Features,
) -> LossFn:
    """The loss of a training batch under `MERL`.

    Each micro-batch takes a step of its own to see what its reward does. All passes have the same
    key of dropout, and attention is computed by XLA.

    Args:
        graphdef: of a model from `with_reward`.
        objective: looks for solutions.
        space: what is searched, given P(z | x) and the batch.
        features: what the reward reads of solutions.

    Returns:
        See `hardem_jax.tables.search_losses.make_search_loss`. In addition, the memory in a
        batch has `CUES_ENTRY`, and metrics are those of
        `search.learned_rewards.learned_reward_loss`.
    """
    every = objective.held_out

    def loss(params: Any, batch: Mapping[str, Any], *, step: Array, key: Array, dropout_key: Array):
        del key  # the same in all parts of a batch, whose samples have to be independent
        dropout_key, *keys = jax.random.split(dropout_key, 3)
        phi, theta = nnx.split_state(params, nnx.PathContains(LEARNED_REWARD), ...)
        fixed = jax.lax.stop_gradient(phi)
        own, other = apart(dict(batch), every, step)

        def look(theta: Any, rows: Mapping[str, Any], key: Array):
            with only_xla():
                model = nnx.merge(graphdef, theta, fixed)
                found = model(rows, rngs=nnx.Rngs(dropout=dropout_key))
            real = rows["row_where"] & (rows[ITEM] >= 0)
            return objective.look(space(found, rows), rows[MEMORY], key=key, rows=real)

        def log_prob(theta: Any):
            found = look(theta, own, keys[0])
            read = features(found.solutions, own[MEMORY][CUES_ENTRY], own)
            scale = jnp.where(step < objective.warmup, 0.0, objective.meta_rate)
            return found.log_probs, found.where, (read * scale, found.metrics, found.memory)

        def held_out(theta: Any):
            found = look(theta, other, keys[1])
            value = losses.mml_loss(found.log_probs, where=found.where)
            return value, (jnp.sum(jnp.any(found.where, -1)), found.metrics, found.memory)

        def reward(phi: Any, found: Any) -> Array:
            [weights] = jax.tree.leaves(phi)
            return found[0] @ weights

        value, told, found = searched_reward_loss(
            theta,
            phi,
            log_prob=log_prob,
            reward=reward,
            held_out=held_out,
            rate=objective.lookahead,
        )
        (_, counts, memory), (num_held_out, other_counts, other_memory) = found
        added = jax.tree.map(jnp.add, counts, other_counts)
        added["averaged"] = counts["averaged"]
        added["held_out"] = told["held_out"] * num_held_out.astype(jnp.float32), num_held_out
        added["agreement"] = told["agreement"], jnp.ones(())
        return value, reported(added, together(memory, other_memory, every, step), batch)

    return loss
