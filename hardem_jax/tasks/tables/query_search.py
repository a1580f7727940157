"""Semantic parsing without a given Z: objectives look for queries, which the executor rewards.

The compiled step proposes queries from P(z | x) and asks the host which of them lead to the answer.
Z of the data is not read: training questions are handed on without theirs.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from hardem_jax.data.batching.padding import BatchConfig, Inputs
from hardem_jax.data.batching.plans import Plan, TrainingPlan
from hardem_jax.data.examples import QueryQuestion
from hardem_jax.distributions.sql import QueryDistribution
from hardem_jax.distributions.sql_sampling import Support
from hardem_jax.errors import InputError
from hardem_jax.metrics.wikitablequestions import Denotation
from hardem_jax.models.encoders.packing import real_token_share
from hardem_jax.search.objectives import AnySearchObjective
from hardem_jax.solutions.sql.enumeration import (
    AGGREGATORS,
    ROW_WIDTH,
    AnswerTest,
    SqlRules,
    Table,
)
from hardem_jax.tasks.tables.queries import QueryInputs, QueryTask, TableQuestions
from hardem_jax.training.grad_accumulation import ITEMS, MEMORY, LossFn, Mean
from hardem_jax.training.state import ITEM

Array = jax.Array
#: Questions whose conditions and results are kept; each holds a few kilobytes and its table.
_QUESTIONS_IN_MEMORY = 2048
#: Conditions that a question may have; of 1,500 WikiSQL questions, none has more than 41.
MAX_LINKS = 64


class WithoutSolutions(Sequence[QueryQuestion]):
    """Questions as they are without their Z."""

    def __init__(self, questions: Sequence[QueryQuestion]):
        self._questions = questions

    def __len__(self) -> int:
        return len(self._questions)

    def __getitem__(self, index):
        question = self._questions[index]
        return dataclasses.replace(question, queries=question.queries[:0], num_queries=0)


class QueryExecutor:
    """Says which queries a question allows, and which of them lead to its answer; on the host.

    Calls may come from several threads, one for each device.

    Args:
        questions: their answers are what queries are compared with; Z is not read.
        tables: of the questions, by id.
        rules: Z_tot; queries outside of it have no reward, whatever their result.
    """

    def __init__(
        self, questions: Sequence[QueryQuestion], tables: Mapping[str, Table], rules: SqlRules
    ):
        self._questions, self._tables, self._rules = questions, tables, rules
        self._test = functools.lru_cache(_QUESTIONS_IN_MEMORY)(self._make_test)
        self._lock = threading.Lock()  # caches of tables are not made for threads

    def support(self, items: Any, num_columns: int) -> np.ndarray:
        """What Z_tot allows, which depends on question and table and not on the answer.

        Args:
            items: ``[B]`` int, indices of questions; -1 is none.
            num_columns: C.

        Returns:
            ``[B, 4 MAX_LINKS + 6 C]`` int32: conditions, the first of those if there are more, then
            which heads are allowed. See `Support`.
        """
        items = np.asarray(items)
        links = np.full((len(items), MAX_LINKS, 4), -1, np.int32)
        heads = np.zeros((len(items), num_columns, len(AGGREGATORS)), np.int32)
        with self._lock:
            for row in np.flatnonzero(items >= 0).tolist():
                test = self._test(int(items[row]))
                conditions = test.conditions[:MAX_LINKS]
                links[row, : len(conditions)] = conditions
                allowed = test.heads[:num_columns]
                heads[row, : len(allowed)] = allowed
        return np.concatenate([x.reshape(len(items), -1) for x in (links, heads)], axis=1)

    def rewards(self, items: Any, queries: Any, where: Any) -> np.ndarray:
        """The rewards of a batch.

        Args:
            items: ``[B]`` int, indices of questions.
            queries: ``[B, N, ROW_WIDTH]`` int.
            where: ``[B, N]`` bool, those to execute.

        Returns:
            ``[B, N]`` float32: 1 for a query of Z, else 0.
        """
        # First converted as a whole: reading a device's array in parts is slow.
        items, queries, where = map(np.asarray, (items, queries, where))
        rewards = np.zeros(where.shape, np.float32)
        with self._lock:
            for row in np.flatnonzero(where.any(axis=1)).tolist():
                tried = where[row]
                rewards[row, tried] = self._test(int(items[row]))(queries[row, tried])
        return rewards

    def _make_test(self, index: int) -> AnswerTest:
        question = self._questions[index]
        match = None
        if question.match == "denotation":
            texts = [cell for cell in question.answer if isinstance(cell, str)]
            match = Denotation(texts, question.values).matches
        return AnswerTest(
            self._tables[question.table_id],
            question.question,
            question.answer,
            self._rules,
            words=question.words,
            match=match,
        )


@dataclasses.dataclass(frozen=True)
class QuerySpace:
    """The queries of a batch with their rewards, see `hardem_jax.search.candidates.Space`.

    Candidates are queries that Z_tot allows: their conditions hold for a row of the table, as in
    the entity linking of Liang et al. (2018), and their aggregators suit their columns.

    Attributes:
        found: P(z | x).
        items: ``[B]`` int32, index of each row's question; -1 for padding.
        executor: of the batch's data set.
        max_conditions: of the queries that are looked for.
        within: which those are.
    """

    found: QueryDistribution
    items: Array
    executor: QueryExecutor
    max_conditions: int
    within: Support

    @classmethod
    def of(
        cls, found: QueryDistribution, items: Array, executor: QueryExecutor, max_conditions: int
    ) -> QuerySpace:
        """With the support that the host gives for each question."""
        num_columns = found.select.shape[1]
        width = 4 * MAX_LINKS + len(AGGREGATORS) * num_columns

        def ask(items: Array) -> Array:
            result = jax.ShapeDtypeStruct((len(items), width), jnp.int32)
            support = functools.partial(executor.support, num_columns=num_columns)
            return jax.pure_callback(support, result, items)

        links, heads = jnp.split(on_own_rows(ask, items), [4 * MAX_LINKS], axis=1)
        links = links.reshape(len(items), MAX_LINKS, 4)
        heads = heads.reshape(len(items), num_columns, len(AGGREGATORS)) > 0
        return cls(found, items, executor, max_conditions, Support(links, heads))

    def beam(self, count: int) -> Array:
        return self._fixed.top(count, **self._limits)[0]

    def sample(self, key: Array, count: int) -> Array:
        return self._fixed.sample(key, count, **self._limits)[0]

    def log_prob(self, solutions: Array) -> Array:
        return self.found.log_prob(solutions)

    def log_mass(self) -> Array:
        return self.found.log_mass(**self._limits)

    def reward(self, solutions: Array, where: Array) -> Array:
        def ask(items: Array, queries: Array, where: Array) -> Array:
            result = jax.ShapeDtypeStruct(where.shape, jnp.float32)
            return jax.pure_callback(self.executor.rewards, result, items, queries, where)

        return on_own_rows(ask, self.items, solutions, where)

    @property
    def _limits(self) -> dict[str, Any]:
        return {"max_conditions": self.max_conditions, "within": self.within}

    @property
    def _fixed(self) -> QueryDistribution:
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
class QuerySearch(QueryTask):
    """`QueryTask` for training with an objective that searches; otherwise the same task.

    Attributes:
        objective: looks for queries.
        executor: of the questions to train on.
    """

    objective: AnySearchObjective = dataclasses.field(kw_only=True)
    executor: QueryExecutor = dataclasses.field(kw_only=True)

    def plan(
        self, data: TableQuestions, inputs: Inputs, batches: BatchConfig, **options: Any
    ) -> Plan:
        """All questions: none is known to have a solution, and none to have none."""
        del data
        sizes = np.stack([inputs.sizes[:, 0], np.ones(len(inputs.sizes), np.int32)], axis=1)
        return TrainingPlan(sizes, batches, **options)

    def memory(self, num_inputs: int) -> dict[str, np.ndarray]:
        first = self.objective.remembers(ROW_WIDTH)
        return {name: np.repeat(row[None], num_inputs, axis=0) for name, row in first.items()}

    def loss(self, graphdef: nnx.GraphDef, objective: Any, plan: Plan) -> LossFn:
        del objective, plan
        return make_search_loss(
            graphdef, self.objective, self.executor, max_conditions=self.rules.max_conditions
        )

    def describe(self, data: TableQuestions, inputs: QueryInputs) -> str:
        if isinstance(data.questions, WithoutSolutions):
            return f"{len(data.questions)} questions whose queries are looked for"
        return super().describe(data, inputs)


def searching(
    task: QueryTask, objective: AnySearchObjective, data: TableQuestions
) -> tuple[QuerySearch, TableQuestions]:
    """The task under an objective that searches, and the training questions without their Z.

    Raises:
        InputError: log P(z) is not that of a probability.
    """
    if task.conditions != "sum":
        raise InputError(
            f"conditions: expected sum for {type(objective).__name__}, which needs probabilities, "
            f"found {task.conditions}"
        )
    asked = dataclasses.replace(data, questions=WithoutSolutions(data.questions))
    executor = QueryExecutor(asked.questions, asked.tables, task.rules)
    fields = {field.name: getattr(task, field.name) for field in dataclasses.fields(QueryTask)}
    return QuerySearch(**fields, objective=objective, executor=executor), asked


def make_search_loss(
    graphdef: nnx.GraphDef,
    objective: AnySearchObjective,
    executor: QueryExecutor,
    *,
    max_conditions: int,
) -> LossFn:
    """The loss of a training batch under an objective that searches.

    Args:
        graphdef: of a model whose call gives a `QueryDistribution`, from `nnx.split`.
        objective: looks for queries.
        executor: of the questions that the batch's ``item`` counts.
        max_conditions: of the queries that are looked for.

    Returns:
        A `LossFn`. In addition to the model's inputs, a batch has ``item`` and ``row_where``, and
        ``memory`` if the objective has one. ``solutions`` are not read. For the metrics see
        `hardem_jax.search.objectives.SearchObjective`.
    """

    def loss(params: Any, batch: Mapping[str, Any], *, step: Array, key: Array, dropout_key: Array):
        del key  # the same in all parts of a batch, whose samples have to be independent
        dropout_key, key = jax.random.split(dropout_key)
        model = nnx.merge(graphdef, params)
        found = model(batch, rngs=nnx.Rngs(dropout=dropout_key))
        space = QuerySpace.of(found, batch[ITEM], executor, max_conditions)
        rows = batch["row_where"] & (batch[ITEM] >= 0)
        memory = batch.get(MEMORY, {})
        value, counts, memory = objective(space, memory, step=step, key=key, rows=rows)
        averaged, _ = counts.pop("averaged")
        metrics: dict[str, Any] = {name: Mean(*map(_float, x)) for name, x in counts.items()}
        metrics[ITEMS] = jnp.maximum(_float(averaged), 1.0)
        if memory:
            metrics[MEMORY] = jax.lax.stop_gradient(memory)
        if "where" in batch:
            metrics["real_tokens"] = real_token_share(batch)
        return value, metrics

    return loss


def _float(x: Array) -> Array:
    return x.astype(jnp.float32)
