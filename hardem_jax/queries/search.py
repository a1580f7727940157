"""Queries without a given Z, see `hardem_jax.tables.search`.

Besides rewards, the host says which conditions and heads a question allows.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hardem_jax.errors import InputError
from hardem_jax.placement import on_own_rows
from hardem_jax.queries.distribution import QueryDistribution
from hardem_jax.queries.records import answer_match
from hardem_jax.queries.reward_features import QUERY_FEATURES, query_features
from hardem_jax.queries.sampling import Support
from hardem_jax.queries.solutions.enumeration import AnswerTest
from hardem_jax.queries.solutions.types import AGGREGATORS, ROW_WIDTH
from hardem_jax.queries.task import QueryQuestions, QueryTask
from hardem_jax.search.protocol import SearchObjective
from hardem_jax.tables import learned_rewards, search
from hardem_jax.training.state import ITEM

Array = jax.Array
#: Conditions that a question may have; of 1,500 WikiSQL questions, none has more than 41.
MAX_LINKS = 64


class QueryExecutor(search.Executor):
    """Candidates are queries that Z_tot allows. Their conditions hold for a row of the table, as in
    the entity linking of Liang et al. (2018), and their aggregators suit their columns."""

    ROW_WIDTH = ROW_WIDTH
    NUM_FEATURES = len(QUERY_FEATURES)
    features = staticmethod(query_features)

    def support(self, items: Any, num_columns: int) -> np.ndarray:
        """What Z_tot allows, which depends on question and table, not on the answer; see `Support`.
        ``[B, 4 MAX_LINKS + 6 C]`` int32: conditions, the first ones if there are more, then which
        heads are allowed. An item of -1 is padding."""
        items = np.asarray(items)
        links = np.full((len(items), MAX_LINKS, 4), -1, np.int32)
        heads = np.zeros((len(items), num_columns, len(AGGREGATORS)), np.int32)
        with self.lock:
            for row in np.flatnonzero(items >= 0).tolist():
                test = self.test(int(items[row]))
                conditions = test.conditions[:MAX_LINKS]
                links[row, : len(conditions)] = conditions
                allowed = test.heads[:num_columns]
                heads[row, : len(allowed)] = allowed
        return np.concatenate([x.reshape(len(items), -1) for x in (links, heads)], axis=1)

    def make_test(self, index: int) -> AnswerTest:
        question = self.questions[index]
        return AnswerTest(
            self.tables[question.table_id],
            question.question,
            question.answer,
            self.rules,
            words=question.words,
            match=answer_match(question),
        )

    def space(
        self, distribution: QueryDistribution, batch: Mapping[str, Array]
    ) -> search.TableSpace:
        """With the support that the host gives for each question."""
        items, num_columns = batch[ITEM], distribution.select.shape[1]
        width = 4 * MAX_LINKS + len(AGGREGATORS) * num_columns

        def ask(items: Array) -> Array:
            result = jax.ShapeDtypeStruct((len(items), width), jnp.int32)
            support = functools.partial(self.support, num_columns=num_columns)
            return jax.pure_callback(support, result, items)

        links, heads = jnp.split(on_own_rows(ask, items), [4 * MAX_LINKS], axis=1)
        links = links.reshape(len(items), MAX_LINKS, 4)
        heads = heads.reshape(len(items), num_columns, len(AGGREGATORS)) > 0
        limits = {"max_conditions": self.rules.max_conditions, "within": Support(links, heads)}
        return search.TableSpace(distribution, items, self, limits)


def search_training(
    task: QueryTask, objective: SearchObjective, data: QueryQuestions
) -> search.SearchTraining:
    """Training that looks for queries; `InputError` if log P(z) is not that of a probability."""
    if task.conditions != "sum":
        raise InputError(
            f"conditions: expected sum for {type(objective).__name__}, which needs probabilities, "
            f"found {task.conditions}"
        )
    return learned_rewards.search_training(task, objective, data, QueryExecutor)
