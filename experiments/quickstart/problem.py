"""`Problem`: a synthetic corpus with a small model, and how to train it."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from flax import nnx

from experiments.quickstart.settings import Settings
from hardem_jax.data.batching.padding import BatchConfig, Inputs, Pad
from hardem_jax.data.batching.plans import TrainingPlan, training_batches
from hardem_jax.objectives import Objective
from hardem_jax.task.trained import BatchReader
from hardem_jax.training.devices.mesh import data_mesh
from hardem_jax.training.loop import LoopConfig, train
from hardem_jax.training.step import LossFn

if TYPE_CHECKING:  # brings in matplotlib
    from hardem_jax.analysis.plots import History


@dataclasses.dataclass(frozen=True)
class Problem:
    """A synthetic corpus with a small model for it.

    ``scores`` are metrics with their labels, ``note`` a baseline of them, ``start`` makes a module
    and its parameters from a seed, ``sizes`` are of inputs whose solutions a batch has places for,
    and ``pad`` makes, of inputs and places, how to pad a batch.
    """

    name: str
    title: str
    scores: Mapping[str, str]
    settings: Settings
    note: str
    start: Callable[[int], tuple[nnx.GraphDef, Any]]
    make_loss: Callable[[nnx.GraphDef, Objective], LossFn]
    task: Any
    inputs: Inputs
    dev: Any
    dev_inputs: Inputs
    sizes: np.ndarray
    pad: Callable[[Any, int], Pad]

    def train(self, objective: Objective, *, seed: int, run_dir: Path) -> "History":
        """Trains once and returns the evaluations."""
        steps, inputs = self.settings.steps, self.inputs
        longest = max(part.sizes[:, 0].max() for part in (inputs, self.dev_inputs))
        shapes = BatchConfig(self.settings.batch_size, buckets=(int(longest),), negatives=0)
        plan = TrainingPlan(inputs.sizes, shapes, num_steps=steps, seed=seed)
        pad = self.pad(inputs, shapes.num_solutions(self.sizes))
        graphdef, params = self.start(seed)
        reader = BatchReader(self.task, graphdef, self.pad, batches=shapes)
        eval_every = max(1, steps // 6)
        result = train(
            loss_fn=self.make_loss(graphdef, objective),
            params=params,
            optimizer=self.settings.optimizer,
            batches=iter(training_batches(inputs, plan, pad=pad)),
            evaluate=lambda params: reader.evaluate(params, self.dev, self.dev_inputs)[0],
            config=LoopConfig(
                num_steps=steps,
                monitor="em",
                eval_every=eval_every,
                checkpoint_every=steps,
                log_every=eval_every,
                patience=None,
                seed=seed,
            ),
            directory=run_dir,
            mesh=data_mesh(1),
        )
        return result.history
