"""Training with a reward that is learned with the parser, see `hardem_jax.search.objectives.MERL`.

The reward's weights are a part of the trained module, so the same optimizer updates them and the
same checkpoints hold them. Reading questions needs none of them: a trained parser is without.

A reward is log-linear in a few hundred features, so that it cannot learn single questions by heart.
Most are *crossed* with the question: a decision of the solution, such as its aggregator, together
with each of `CUES`, groups of English words that ask for something. The others say how well a
solution fits its question, whatever either is about.

Cues are found in the text once, before training. The device computes all else from the batch.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from hardem_jax import losses
from hardem_jax.data.batching.padding import BatchConfig, Inputs
from hardem_jax.data.batching.plans import Plan
from hardem_jax.encoders.ops.attention import only_xla
from hardem_jax.errors import InputError
from hardem_jax.search.candidates import Space
from hardem_jax.search.learned_rewards import searched_reward_loss
from hardem_jax.search.objectives import MERL
from hardem_jax.search.protocol import LOSS_ONLY, SearchObjective
from hardem_jax.tables.search import Executor, SearchTraining, WithoutSolutions, reported
from hardem_jax.training.state import ITEM, MEMORY
from hardem_jax.training.step import LossFn

Array = jax.Array
#: The part of the module with the reward.
[LEARNED_REWARD] = LOSS_ONLY
#: Of the memory of a question: which of `CUES` it has.
CUES_ENTRY = "cues"
#: Solutions ``[B, N, W]``, cues ``[B, K]`` and a batch -> ``[B, N, F]`` float32.
Features = Callable[[Array, Array, Mapping[str, Array]], Array]
#: Groups of words, as regular expressions between word boundaries, in lower case.
CUES = {
    "how many": r"how many|number of|amount of",
    "how much": r"how (much|long|old|tall|far)",
    "total": r"total|sum|combined|altogether|in all",
    "average": r"average|mean",
    "difference": r"difference|than|between",
    "more": r"more|over|greater|above|higher|larger|exceeds?|at least|after|later",
    "less": r"less|under|fewer|below|lower|smaller|at most|before|earlier",
    "most": r"most|highest|largest|maximum|max|biggest|greatest|best|longest|latest|last|top",
    "least": r"least|lowest|smallest|minimum|min|fewest|worst|shortest|earliest|first",
    "next": r"next|previous|following|right (after|before)",
    "same": r"same|other|also|besides|share[ds]?",
    "not": r"not|no|never|without|except|\w+n't",
    "or": r"or|either",
    "when": r"when|what (year|date|day|month)|which (year|date|day|month)",
    "who": r"who|whose|whom|name",
}
_PATTERNS = [re.compile(rf"(?<!\w)(?:{words})(?!\w)") for words in CUES.values()]


def cues_of(questions: Iterable[str]) -> np.ndarray:
    """Which of `CUES` each question has, ``[N, K]`` bool."""
    rows = [[bool(p.search(text.lower())) for p in _PATTERNS] for text in questions]
    return np.array(rows, bool).reshape(-1, len(CUES))


def crossed(decisions: Array, cues: Array) -> Array:
    """Decisions ``[B, N, D]`` by themselves and with each of the cues: ``[B, N, D (1 + K)]``.

    Example:
        >>> crossed(jnp.array([[[0, 1], [2, 0]]]), jnp.array([[True, False]])).tolist()
        [[[0.0, 0.0, 0.0, 1.0, 1.0, 0.0], [2.0, 2.0, 0.0, 0.0, 0.0, 0.0]]]
    """
    always = jnp.concatenate([jnp.ones((len(cues), 1)), cues.astype(jnp.float32)], axis=1)
    products = decisions.astype(jnp.float32)[..., None] * always[:, None, None]
    return products.reshape(*decisions.shape[:2], -1)


def look_up(values: Array, places: Array) -> Array:
    """``[B, M, ...]``, ``[B, *S]`` int -> ``[B, *S, ...]``; any value where a place is below 0."""
    return jax.vmap(lambda row, place: row[jnp.maximum(place, 0)])(values, places)


def crossed_names(decisions: Iterable[str]) -> list[str]:
    return [name for one in decisions for name in (one, *(f"{one}, {cue}" for cue in CUES))]


class LearnedReward(nnx.Module):
    """A log-linear reward, 0 at first."""

    def __init__(self, num_features: int):
        self.weights = nnx.Param(jnp.zeros(num_features, jnp.float32))


def with_reward(model: Any, num_features: int) -> Any:
    """A `Model` whose module also has a `LearnedReward`; `InputError` for an attention kernel."""
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


def check_batches(objective: MERL, batches: BatchConfig, num_devices: int = 1) -> None:
    """Raises `InputError` if one of so many rows of a batch cannot be held out."""
    if batches.packed_tokens:
        raise InputError(
            "--batches.packed-tokens: expected none for MERL, which holds out whole rows, found "
            f"{batches.packed_tokens}"
        )
    multiple = objective.held_out
    if batches.batch_size // batches.accumulate % num_devices and num_devices % multiple:
        multiple = math.lcm(multiple, num_devices)  # a batch that is filled up could not be split
    multiple *= batches.accumulate
    if batches.batch_size % multiple:
        raise InputError(
            f"--batches.batch-size: expected a multiple of {multiple} for MERL, which holds out "
            f"one of {objective.held_out} questions in each of {batches.accumulate} parts, found "
            f"{batches.batch_size}"
        )


def hold_out(batch: Any, every: int, step: Array | int) -> tuple[Any, Any]:
    """A batch ``[R, ...]`` without its held-out rows, and these: each ``every``-th, in turns.
    Neighbouring rows stay neighbours, so that devices need not exchange rows."""

    def grouped(x: Array) -> Array:
        return jnp.roll(jnp.reshape(x, (-1, every, *x.shape[1:])), -(step % every), axis=1)

    def kept(x: Array) -> Array:
        return jnp.reshape(grouped(x)[:, 1:], (-1, *x.shape[1:]))

    return jax.tree.map(kept, batch), jax.tree.map(lambda x: grouped(x)[:, 0], batch)


def put_back(kept: Any, held_out: Any, every: int, step: Array | int) -> Any:
    """The rows of a batch in its order; the inverse of `hold_out`."""

    def joined(kept: Array, held_out: Array) -> Array:
        shape = kept.shape[1:]
        groups = [held_out[:, None], jnp.reshape(kept, (-1, every - 1, *shape))]
        rows = jnp.roll(jnp.concatenate(groups, axis=1), step % every, axis=1)
        return jnp.reshape(rows, (-1, *shape))

    return jax.tree.map(joined, kept, held_out)


def make_learned_reward_loss(
    graphdef: nnx.GraphDef,
    objective: MERL,
    space: Callable[[Any, Mapping[str, Array]], Space],
    features: Features,
) -> LossFn:
    """The loss of a training batch under `MERL`, see `make_search_loss`. Each micro-batch takes a
    step of its own to see what its reward does. All passes have the same key of dropout, and
    attention is computed by XLA. The memory in a batch also has `CUES_ENTRY`."""
    every = objective.held_out

    def loss(params: Any, batch: Mapping[str, Any], *, step: Array, key: Array, dropout_key: Array):
        del key  # the same in all parts of a batch, whose samples have to be independent
        dropout_key, *keys = jax.random.split(dropout_key, 3)
        phi, theta = nnx.split_state(params, nnx.PathContains(LEARNED_REWARD), ...)
        fixed = jax.lax.stop_gradient(phi)
        kept, other = hold_out(dict(batch), every, step)

        def search(theta: Any, rows: Mapping[str, Any], key: Array):
            with only_xla():
                model = nnx.merge(graphdef, theta, fixed)
                distribution = model(rows, rngs=nnx.Rngs(dropout=dropout_key))
            real = rows["row_where"] & (rows[ITEM] >= 0)
            return objective.search(space(distribution, rows), rows[MEMORY], key=key, rows=real)

        def log_prob(theta: Any):
            found = search(theta, kept, keys[0])
            read = features(found.solutions, kept[MEMORY][CUES_ENTRY], kept)
            scale = jnp.where(step < objective.warmup, 0.0, objective.meta_rate)
            return found.log_probs, found.where, (read * scale, found.metrics, found.memory)

        def held_out(theta: Any):
            found = search(theta, other, keys[1])
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
        return value, reported(added, put_back(memory, other_memory, every, step), batch)

    return loss


@dataclasses.dataclass(frozen=True)
class LearnedRewardTraining(SearchTraining):
    """Training under `MERL`."""

    def model(self, model: Any) -> Any:
        return with_reward(model, self.executor.NUM_FEATURES)

    def plan(self, inputs: Inputs, batches: BatchConfig, **options: Any) -> Plan:
        check_batches(self.objective, batches, options.get("num_devices", 1))
        return super().plan(inputs, batches, **options)

    def memory(self, num_inputs: int) -> dict[str, np.ndarray]:
        """Also the cues of each question, which training does not change."""
        cues = cues_of(question.question for question in self.data.questions)
        return super().memory(num_inputs) | {CUES_ENTRY: cues}

    def loss(self, graphdef: nnx.GraphDef, plan: Plan) -> LossFn:
        del plan
        executor = self.executor
        return make_learned_reward_loss(graphdef, self.objective, executor.space, executor.features)


def search_training(
    task: Any, objective: SearchObjective, data: Any, make: type[Executor]
) -> SearchTraining:
    """Training that looks for the solutions of questions, with a learned reward if need be."""
    asked = WithoutSolutions(data.questions, data.solutions())
    executor = make(data.questions, data.tables, task.rules)
    kind = LearnedRewardTraining if objective.learns_reward else SearchTraining
    return kind(task, objective, dataclasses.replace(data, questions=asked), executor)
