"""Training of a parser without a given Z: objectives look for solutions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from flax import nnx

from hardem_jax.data.batching.padding import BatchConfig, Inputs
from hardem_jax.data.batching.plans import Plan, TrainingPlan
from hardem_jax.search.protocol import SearchObjective
from hardem_jax.tables import learned_rewards
from hardem_jax.tables.reward_features import cues_of
from hardem_jax.tables.search import Executor, make_search_loss
from hardem_jax.task.base import Training
from hardem_jax.training.grad_accumulation import LossFn


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


@dataclasses.dataclass(frozen=True)
class LearnedRewardTraining(SearchTraining):
    """Training under `MERL`."""

    def model(self, model: Any) -> Any:
        return learned_rewards.with_reward(model, self.executor.NUM_FEATURES)

    def plan(self, inputs: Inputs, batches: BatchConfig, **options: Any) -> Plan:
        learned_rewards.check_batches(self.objective, batches)
        return super().plan(inputs, batches, **options)

    def memory(self, num_inputs: int) -> dict[str, np.ndarray]:
        """Also the cues of each question, which training does not change."""
        cues = cues_of(question.question for question in self.data.questions)
        return super().memory(num_inputs) | {learned_rewards.CUES_ENTRY: cues}

    def loss(self, graphdef: nnx.GraphDef, plan: Plan) -> LossFn:
        del plan
        executor = self.executor
        return learned_rewards.make_learned_reward_loss(
            graphdef, self.objective, executor.space, executor.features
        )


def search_training(
    task: Any, objective: SearchObjective, data: Any, make: type[Executor]
) -> SearchTraining:
    """Training that looks for the solutions of questions."""
    asked = WithoutSolutions(data.questions, data.solutions())
    data = dataclasses.replace(data, questions=asked)
    executor = make(data.questions, data.tables, task.rules)
    if objective.learns_reward:
        return LearnedRewardTraining(task, objective, data, executor)
    return SearchTraining(task, objective, data, executor)
