"""Training that looks for queries and programs: the step proposes, an executor on the host rewards.

Z of the data is not read.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from hardem_jax.data.batching.padding import BatchConfig, Inputs
from hardem_jax.data.batching.plans import Plan, TrainingPlan
from hardem_jax.encoders.base import token_metrics
from hardem_jax.placement import on_own_rows
from hardem_jax.search.candidates import Space
from hardem_jax.search.protocol import Memory, Metrics, SearchObjective
from hardem_jax.tables.table import Table
from hardem_jax.task.start import Training
from hardem_jax.training.run_progress import Mean
from hardem_jax.training.state import ITEM, MEMORY
from hardem_jax.training.step import ITEMS, LossFn

Array = jax.Array
#: Questions whose tests are kept; each holds tens of kilobytes and its table.
_QUESTIONS_IN_MEMORY = 2048


class Executor(abc.ABC):
    """What is looked for in training on some questions, and which solutions have their answers.
    Solutions outside the rules' Z_tot have no reward. Threads, one a device, may call `rewards`."""

    ROW_WIDTH: ClassVar[int]
    NUM_FEATURES: ClassVar[int]

    def __init__(self, questions: Sequence[Any], tables: Mapping[str, Table], rules: Any):
        self.questions, self.tables, self.rules = questions, tables, rules
        self.test = functools.lru_cache(_QUESTIONS_IN_MEMORY)(self.make_test)
        self.lock = threading.Lock()  # caches of tables are not made for threads

    @abc.abstractmethod
    def make_test(self, index: int) -> Any:
        """Of a question, by index: a call of ``[N, W]`` solutions says which are right, ``[N]``."""

    @abc.abstractmethod
    def space(self, distribution: Any, batch: Mapping[str, Array]) -> TableSpace:
        """What is searched, given P(z | x) of a batch; traced."""

    @staticmethod
    @abc.abstractmethod
    def features(solutions: Array, cues: Array, batch: Mapping[str, Array], /) -> Array:
        """What a learned reward reads, ``[B, N, F]``; see `tables.learned_rewards`."""

    def rewards(self, items: Any, solutions: Any, where: Any) -> np.ndarray:
        """``[B, N]`` float32: 1 for a solution of Z, else 0. ``items`` ``[B]`` are questions;
        ``solutions`` ``[B, N, W]`` are executed ``where``."""
        # First converted as a whole: reading a device's array in parts is slow.
        items, solutions, where = map(np.asarray, (items, solutions, where))
        rewards = np.zeros(where.shape, np.float32)
        with self.lock:
            for row in np.flatnonzero(where.any(axis=1)).tolist():
                tried = where[row]
                rewards[row, tried] = self.test(int(items[row]))(solutions[row, tried])
        return rewards


@dataclasses.dataclass(frozen=True)
class TableSpace:
    """The solutions of a batch with their rewards, see `hardem_jax.search.candidates.Space`.
    ``items`` ``[B]`` are its questions, -1 for padding. ``limits``, arguments of the methods of
    ``distribution``, say which solutions are looked for."""

    distribution: Any
    items: Array
    executor: Executor
    limits: Mapping[str, Any]

    def beam(self, count: int) -> Array:
        return self._fixed.top(count, **self.limits)[0]

    def sample(self, key: Array, count: int) -> Array:
        return self._fixed.sample(key, count, **self.limits)[0]

    def log_prob(self, solutions: Array) -> Array:
        return self.distribution.log_prob(solutions)

    def log_mass(self) -> Array:
        return self.distribution.log_mass(**self.limits)

    def reward(self, solutions: Array, where: Array) -> Array:
        def ask(items: Array, solutions: Array, where: Array) -> Array:
            result = jax.ShapeDtypeStruct(where.shape, jnp.float32)
            return jax.pure_callback(self.executor.rewards, result, items, solutions, where)

        # A callback would otherwise gather all rows on one device.
        return on_own_rows(ask, self.items, solutions, where)

    @property
    def _fixed(self) -> Any:
        """Choosing candidates has no gradient."""
        return jax.lax.stop_gradient(self.distribution)


def make_search_loss(
    graphdef: nnx.GraphDef,
    objective: SearchObjective,
    space: Callable[[Any, Mapping[str, Array]], Space],
) -> LossFn:
    """The loss of a batch under an objective that searches what ``space`` makes of P(z | x). A
    batch also has ``item`` and ``row_where``, and ``memory`` if the objective has one."""

    def loss(params: Any, batch: Mapping[str, Any], *, step: Array, key: Array, dropout_key: Array):
        del key  # the same in all parts of a batch, whose samples have to be independent
        dropout_key, key = jax.random.split(dropout_key)
        distribution = nnx.merge(graphdef, params)(batch, rngs=nnx.Rngs(dropout=dropout_key))
        rows = batch["row_where"] & (batch[ITEM] >= 0)
        memory = batch.get(MEMORY, {})
        searched = space(distribution, batch)
        value, counts, memory = objective(searched, memory, step=step, key=key, rows=rows)
        return value, reported(counts, memory, batch)

    return loss


def reported(counts: Metrics, memory: Memory, batch: Mapping[str, Any]) -> dict[str, Any]:
    """What a loss returns beside its value: metrics of the objective and memory after the step."""
    averaged, _ = counts["averaged"]
    means = {name: Mean(*map(jnp.float32, x)) for name, x in counts.items() if name != "averaged"}
    metrics: dict[str, Any] = {**means, ITEMS: jnp.float32(averaged)}
    if memory:
        metrics[MEMORY] = jax.lax.stop_gradient(memory)
    if "where" in batch:  # the encoder reads tokens
        metrics |= token_metrics(batch)
    return metrics


class WithoutSolutions(Sequence[Any]):
    """Questions without their Z, an array under ``name`` whose size is ``num_`` and this name."""

    def __init__(self, questions: Sequence[Any], name: str):
        self._questions, self._name = questions, name

    def __len__(self) -> int:
        return len(self._questions)

    def __getitem__(self, index):
        question, name = self._questions[index], self._name
        nothing = {name: getattr(question, name)[:0], f"num_{name}": 0}
        return dataclasses.replace(question, **nothing)


@dataclasses.dataclass(frozen=True)
class SearchTraining(Training):
    """Training with an objective that searches, on questions without their Z."""

    executor: Executor

    def plan(self, inputs: Inputs, batches: BatchConfig, **options: Any) -> Plan:
        """All questions: none is known to have a solution, and none to have none."""
        sizes = np.stack([inputs.sizes[:, 0], np.ones(len(inputs.sizes), np.int32)], axis=1)
        return TrainingPlan(sizes, batches, **options)

    def memory(self, num_inputs: int) -> dict[str, np.ndarray]:
        first = self.objective.remembers(self.executor.ROW_WIDTH)
        return {name: np.repeat(row[None], num_inputs, axis=0) for name, row in first.items()}

    def loss(self, graphdef: nnx.GraphDef, plan: Plan) -> LossFn:
        del plan
        return make_search_loss(graphdef, self.objective, self.executor.space)

    def describe(self, inputs: Any) -> str:
        return f"{len(self.data.questions)} questions whose solutions are looked for"
