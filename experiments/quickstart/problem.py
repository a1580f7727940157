"""`Problem`: a synthetic corpus with a small model, and how to train it."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grain
from flax import nnx

from experiments.quickstart.settings import Settings
from hardem_jax.objectives import Objective
from hardem_jax.training.devices.mesh import data_mesh
from hardem_jax.training.loop import LoopConfig, train
from hardem_jax.training.step import LossFn

if TYPE_CHECKING:  # brings in matplotlib
    from hardem_jax.analysis.plots import History


@dataclasses.dataclass(frozen=True)
class Problem:
    """A synthetic corpus with a small model for it.

    Attributes:
        name: one word, for file names.
        title: title of the table of results.
        scores: metric -> its label.
        settings: training settings.
        note: a baseline for the scores, printed below the table.
        start: seed -> a module and its parameters.
        make_loss: builds the task's loss.
        batches: seed -> the training batches.
        evaluate: module -> parameters -> metrics on unseen questions.
    """

    name: str
    title: str
    scores: Mapping[str, str]
    settings: Settings
    note: str
    start: Callable[[int], tuple[nnx.GraphDef, Any]]
    make_loss: Callable[[nnx.GraphDef, Objective], LossFn]
    batches: Callable[[int], grain.DatasetIterator]
    evaluate: Callable[[nnx.GraphDef], Callable[[Any], Mapping[str, float]]]

    def train(self, objective: Objective, *, seed: int, run_dir: Path) -> "History":
        """Trains once and returns the evaluations."""
        settings = self.settings
        graphdef, params = self.start(seed)
        eval_every = max(1, settings.steps // 6)
        result = train(
            loss_fn=self.make_loss(graphdef, objective),
            params=params,
            optimizer=settings.optimizer,
            batches=self.batches(seed),
            evaluate=self.evaluate(graphdef),
            config=LoopConfig(
                num_steps=settings.steps,
                monitor="em",
                eval_every=eval_every,
                checkpoint_every=settings.steps,
                log_every=eval_every,
                patience=None,
                seed=seed,
            ),
            directory=run_dir,
            mesh=data_mesh(1),
        )
        return result.history
