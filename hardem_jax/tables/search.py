"""Semantic parsing without a given Z: objectives look for solutions, which an executor rewards.

The compiled step proposes queries or programs from P(z | x) and asks the host which of them lead to
the answer. Z of the data is not read: training questions are handed on without theirs.
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
from hardem_jax.search.candidates import Space
from hardem_jax.search.objectives import MERL, AnySearchObjective
from hardem_jax.tables import learned_rewards
from hardem_jax.tables.search_losses import make_search_loss
from hardem_jax.tables.table import Table
from hardem_jax.task.base import Questions, Task
from hardem_jax.training.grad_accumulation import LossFn

Array = jax.Array
#: Questions whose tests are kept; each holds tens of kilobytes and its table.
_QUESTIONS_IN_MEMORY = 2048


class WithoutSolutions(Sequence[Any]):
    """Questions as they are without their Z.

    Args:
        questions: with a Z, an array of one row for each solution.
        name: of that field; the size of Z is ``num_`` and this name.
    """

    def __init__(self, questions: Sequence[Any], name: str):
        self._questions, self._name = questions, name

    def __len__(self) -> int:
        return len(self._questions)

    def __getitem__(self, index):
        question, name = self._questions[index], self._name
        nothing = {name: getattr(question, name)[:0], f"num_{name}": 0}
        return dataclasses.replace(question, **nothing)


class Executor(abc.ABC):
    """Says which solutions lead to the answers of their questions; on the host.

    Calls may come from several threads, one for each device.

    Args:
        questions: their answers are what results are compared with; Z is not read.
        tables: of the questions, by id.
        rules: Z_tot; solutions outside of it have no reward, whatever their result.
    """

    def __init__(self, questions: Sequence[Any], tables: Mapping[str, Table], rules: Any):
        self.questions, self.tables, self.rules = questions, tables, rules
        self.test = functools.lru_cache(_QUESTIONS_IN_MEMORY)(self.make_test)
        self.lock = threading.Lock()  # caches of tables are not made for threads

    @abc.abstractmethod
    def make_test(self, index: int) -> Any:
        """Of a question, by index: a call of ``[N, W]`` solutions says which are right, ``[N]``."""

    def rewards(self, items: Any, solutions: Any, where: Any) -> np.ndarray:
        """The rewards of a batch.

        Args:
            items: ``[B]`` int, indices of questions.
            solutions: ``[B, N, W]`` int.
            where: ``[B, N]`` bool, those to execute.

        Returns:
            ``[B, N]`` float32: 1 for a solution of Z, else 0.
        """
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

    Attributes:
        found: P(z | x).
        items: ``[B]`` int32, index of each row's question; -1 for padding.
        executor: of the batch's data set.
        limits: which solutions are looked for, as arguments of ``found``'s methods.
    """

    found: Any
    items: Array
    executor: Executor
    limits: Mapping[str, Any]

    def beam(self, count: int) -> Array:
        return self._fixed.top(count, **self.limits)[0]

    def sample(self, key: Array, count: int) -> Array:
        return self._fixed.sample(key, count, **self.limits)[0]

    def log_prob(self, solutions: Array) -> Array:
        return self.found.log_prob(solutions)

    def log_mass(self) -> Array:
        return self.found.log_mass(**self.limits)

    def reward(self, solutions: Array, where: Array) -> Array:
        def ask(items: Array, solutions: Array, where: Array) -> Array:
            result = jax.ShapeDtypeStruct(where.shape, jnp.float32)
            return jax.pure_callback(self.executor.rewards, result, items, solutions, where)

        return on_own_rows(ask, self.items, solutions, where)

    @property
    def _fixed(self) -> Any:
        """Choosing candidates has no gradient."""
        return jax.lax.stop_gradient(self.found)


def on_own_rows(function: Any, *arrays: Array) -> Array:
    """Calls a function of arrays ``[B, ...]`` once per device, with the device's rows.

    A callback would otherwise gather all rows on one device, and with several processes on one of
    their hosts.
    """
    mesh = jax.typeof(arrays[0]).sharding.mesh
    axes = tuple(name for name in mesh.axis_names if name not in mesh.manual_axes)
    devices = int(np.prod([mesh.shape[name] for name in axes]))
    if devices == 1 or len(arrays[0]) % devices:
        return function(*arrays)
    spec = jax.sharding.PartitionSpec(axes)
    mapped = jax.shard_map(
        function, mesh=mesh, in_specs=spec, out_specs=spec, axis_names={*axes}, check_vma=False
    )
    return mapped(*arrays)


@dataclasses.dataclass(frozen=True)
class TableSearch(Task[Any, Any, Any]):
    """A task under an objective that searches: mixed into it, it changes its training only.

    Attributes:
        ROW_WIDTH: integers of a solution.
        NUM_FEATURES: of a solution, for objectives that learn a reward.
        objective: looks for solutions.
        executor: of the questions to train on.
    """

    ROW_WIDTH: ClassVar[int]
    NUM_FEATURES: ClassVar[int]

    objective: AnySearchObjective = dataclasses.field(kw_only=True)
    executor: Any = dataclasses.field(kw_only=True)

    @abc.abstractmethod
    def space(self, found: Any, batch: Mapping[str, Array]) -> Space:
        """What is searched, given P(z | x) of a batch."""

    @abc.abstractmethod
    def features(self, solutions: Array, cues: Array, batch: Mapping[str, Array]) -> Array:
        """What a learned reward reads, ``[B, N, F]``; see `tasks.tables.reward_features`."""

    def trained(self, model: Any) -> Any:
        if isinstance(self.objective, MERL):
            return learned_rewards.with_reward(model, self.NUM_FEATURES)
        return model

    def plan(self, data: Any, inputs: Inputs, batches: BatchConfig, **options: Any) -> Plan:
        """All questions: none is known to have a solution, and none to have none."""
        del data
        if isinstance(self.objective, MERL):
            learned_rewards.check_batches(self.objective, batches)
        sizes = np.stack([inputs.sizes[:, 0], np.ones(len(inputs.sizes), np.int32)], axis=1)
        return TrainingPlan(sizes, batches, **options)

    def memory(self, num_inputs: int) -> dict[str, np.ndarray]:
        first = self.objective.remembers(self.ROW_WIDTH)
        memory = {name: np.repeat(row[None], num_inputs, axis=0) for name, row in first.items()}
        if isinstance(self.objective, MERL):
            memory |= learned_rewards.cue_memory(self.executor.questions)
        return memory

    def loss(self, graphdef: nnx.GraphDef, objective: Any, plan: Plan) -> LossFn:
        del objective, plan
        if isinstance(self.objective, MERL):
            return learned_rewards.make_learned_reward_loss(
                graphdef, self.objective, self.space, self.features
            )
        return make_search_loss(graphdef, self.objective, self.space)

    def describe(self, data: Any, inputs: Any) -> str:
        if isinstance(data.questions, WithoutSolutions):
            return f"{len(data.questions)} questions whose solutions are looked for"
        return super().describe(data, inputs)


def searching(
    kind: type[TableSearch],
    task: Any,
    objective: AnySearchObjective,
    data: Questions,
    executor: Callable[[Sequence[Any]], Executor],
    name: str,
) -> tuple[Any, Any]:
    """The task under an objective that searches, and the training questions without their Z.

    Args:
        kind: of the task that is returned, with the fields of ``task``.
        task: the task.
        objective: looks for solutions.
        data: the training questions.
        executor: makes that of these questions.
        name: of their field that holds Z.
    """
    asked = WithoutSolutions(data.questions, name)
    fields = {field.name: getattr(task, field.name) for field in dataclasses.fields(task)}
    search = kind(**fields, objective=objective, executor=executor(asked))
    return search, dataclasses.replace(data, questions=asked)
