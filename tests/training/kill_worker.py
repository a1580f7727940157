"""Trains the toy problem in the folder given; meant to be killed at any moment and started again.

Prints a line before each step, and writes `final.npz` when it is done.
"""

import os
import sys
import warnings
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=1"
os.environ["JAX_PLATFORMS"] = "cpu"
warnings.simplefilter("error")

import jax  # noqa: E402
import numpy as np  # noqa: E402

from hardem_jax.training.loop import LoopConfig, train  # noqa: E402
from hardem_jax.training.optimizer import OptimizerConfig  # noqa: E402
from hardem_jax.training.state import named_leaves  # noqa: E402
from tests.training import toy_problem as toy  # noqa: E402


def main(folder: Path) -> None:
    result = train(
        loss_fn=toy.loss_fn,
        params=toy.init_params(),
        optimizer=OptimizerConfig(learning_rate=1e-2),
        batches=toy.observed(toy.batches(), lambda drawn: print(drawn, flush=True)),
        evaluate=toy.evaluate,
        config=LoopConfig(
            num_steps=360,
            monitor="score",
            eval_every=21,
            checkpoint_every=6,
            log_every=10,
            patience=None,
            progress=False,
        ),
        directory=folder,
    )
    state = result.state
    arrays = named_leaves((state.step, state.params, state.opt_state))
    arrays["key"] = jax.random.key_data(state.key)
    arrays["best"] = np.array([result.best_metric, result.best_step])
    arrays["history"] = np.array([list(entry.values()) for entry in result.history])
    np.savez(folder / "final.npz", **{name: np.asarray(a) for name, a in arrays.items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
