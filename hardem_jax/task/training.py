"""How a task is trained under an objective."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from flax import nnx

from hardem_jax.data.batching.padding import BatchConfig, Inputs
from hardem_jax.data.batching.plans import Plan
from hardem_jax.task.base import LossFn, Model, Task
from hardem_jax.task.z_visits import first_memory


@dataclasses.dataclass(frozen=True)
class Training:
    """Training on the given Z; objectives that search have a subclass.

    Attributes:
        task: the task.
        objective: decides which solutions are trusted, or looks for them.
        data: the `Questions` to train on.
    """

    task: Task
    objective: Any
    data: Any

    def model(self, model: Model) -> Model:
        """The model that is trained: unchanged, or with parameters that only the loss reads.

        Raises:
            InputError: it cannot be trained in this way.
        """
        return model

    def plan(self, inputs: Inputs, batches: BatchConfig, **options: Any) -> Plan:
        return self.task.plan(self.data, inputs, batches, **options)

    def memory(self, num_inputs: int) -> Mapping[str, Any]:
        """What the loss remembers of each input, ``[num_inputs, ...]`` by name, before the run."""
        return first_memory(num_inputs)

    def loss(self, graphdef: nnx.GraphDef, plan: Plan) -> LossFn:
        return self.task.loss(graphdef, self.objective, plan)

    def describe(self, inputs: Any) -> str:
        return self.task.describe(self.data, inputs)
