"""One of several processes that train the toy problem together, in the folder given.

Joins the others by the environment, prints a line before each step, and writes `final.npz`.
"""

import dataclasses
import os
import sys
import time
from pathlib import Path

import jax
import numpy as np

from hardem_jax.errors import Stopped
from hardem_jax.task.trained import fetch
from hardem_jax.training import mesh as mesh_module
from hardem_jax.training.config import HEARTBEAT_SECONDS
from hardem_jax.training.distributed import initialize_distributed, is_primary
from hardem_jax.training.loop import train
from hardem_jax.training.mesh import data_mesh, place_global_batch
from hardem_jax.training.optimizer import OptimizerConfig
from hardem_jax.training.state import named_leaves
from tests.training import toy_problem as toy

FSDP = 4
CONFIG = dataclasses.replace(toy.CONFIG, num_steps=12, checkpoint_every=3, log_every=3)


def run(folder, mesh, batches):
    predict = jax.jit(toy.predict)

    def evaluate(params):
        held_out = toy.collate(toy.examples(32)).arrays
        x = place_global_batch({"x": held_out["x"]}, mesh)["x"]
        return {"score": -float(np.mean((fetch(predict(params, x)) - held_out["y"]) ** 2))}

    return train(
        loss_fn=toy.loss_fn,
        params=toy.init_params(),
        optimizer=OptimizerConfig(learning_rate=1e-2, ema_decay=0.9),
        batches=batches,
        evaluate=evaluate,
        config=CONFIG,
        directory=folder,
        mesh=mesh,
    )


def main(folder: Path) -> None:
    heartbeat = int(os.environ.get("HEARTBEAT_SECONDS", HEARTBEAT_SECONDS))
    initialize_distributed(heartbeat_seconds=heartbeat)
    mesh_module.MIN_SPLIT_SIZE = toy.WIDTH  # parameters of the toy problem are split too
    shard = (jax.process_index(), jax.process_count())
    slow = float(os.environ.get("SECONDS_PER_STEP", "0"))

    def before_next(drawn):
        print(f"step {drawn}", flush=True)
        time.sleep(slow)

    batches = toy.observed(toy.batches(shard=shard), before_next)
    try:
        state = run(folder, data_mesh(fsdp=FSDP), batches).state
    except Stopped as stop:
        print(stop, file=sys.stderr)
        sys.exit(128 + stop.signum)
    arrays = fetch(named_leaves((state.step, state.params, state.opt_state)))
    if is_primary():
        np.savez(folder / "final.npz", **{name: np.asarray(a) for name, a in arrays.items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
