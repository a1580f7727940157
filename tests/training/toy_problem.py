"""A small regression run with everything that can break a resumption: dropout, a random draw that
depends on the step, shuffled data, string ids, an evaluation and bookkeeping."""

from __future__ import annotations

import functools

import grain
import jax
import jax.numpy as jnp
import numpy as np

from hardem_jax.data.batching.padding import Batch
from hardem_jax.training.loop import LoopConfig, train
from hardem_jax.training.mesh import data_mesh
from hardem_jax.training.optimizer import OptimizerConfig
from hardem_jax.training.run_progress import read_metrics

WIDTH = 16
CONFIG = LoopConfig(
    num_steps=30,
    monitor="score",
    eval_every=12,
    checkpoint_every=4,
    log_every=7,
    patience=None,
    progress=False,
)
OPTIMIZER = OptimizerConfig(learning_rate=1e-2)


def init_params(seed: int = 0) -> dict:
    rng = np.random.default_rng(seed)

    def dense(rows, columns):
        kernel = rng.normal(size=(rows, columns)) / np.sqrt(rows)
        return {"kernel": jnp.asarray(kernel, jnp.float32), "bias": jnp.zeros(columns)}

    return {"body": dense(4, WIDTH), "head": dense(WIDTH, 1)}


def predict(params, x, key=None):
    hidden = jnp.tanh(x @ params["body"]["kernel"] + params["body"]["bias"][None])
    if key is not None:
        hidden = jnp.where(jax.random.bernoulli(key, 0.8, hidden.shape), hidden / 0.8, 0.0)
    return (hidden @ params["head"]["kernel"])[:, 0] + params["head"]["bias"]


def loss_fn(params, batch, *, step, key, dropout_key):
    error = predict(params, batch["x"], dropout_key) - batch["y"]
    # Which loss is used depends on step and draw, like an annealed objective.
    hard = jax.random.uniform(key) < step / 100
    loss = jnp.mean(jnp.where(hard, jnp.abs(error), error**2))
    return loss, {"hard": hard, "z_size": jnp.mean(batch["x"][:, 0] ** 2)}


def examples(count: int = 96) -> list[dict]:
    x = np.random.default_rng(1).normal(size=(count, 4)).astype(np.float32)
    y = np.sin(x.sum(axis=1)).astype(np.float32)
    return [{"id": f"example-{i}", "x": x[i], "y": y[i]} for i in range(count)]


def collate(rows: list[dict], shard: tuple[int, int] = (0, 1)) -> Batch:
    index, count = shard
    rows = rows[index * len(rows) // count : (index + 1) * len(rows) // count]
    arrays = {name: np.stack([row[name] for row in rows]) for name in ("x", "y")}
    return Batch([row["id"] for row in rows], arrays)


def batches(rows: list[dict] | None = None, batch_size: int = 8, shard: tuple[int, int] = (0, 1)):
    source = examples() if rows is None else rows
    dataset = grain.MapDataset.source(source).seed(3).shuffle().repeat()
    dataset = dataset.batch(batch_size, batch_fn=functools.partial(collate, shard=shard))
    # Grain's own defaults start 16 threads for every run.
    return iter(dataset.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=2)))


def observed(iterator, before_next):
    """The same Grain iterator, calling `before_next(batches drawn so far)` before each batch."""

    class Observed(type(iterator)):
        def __next__(self):
            before_next(self.get_state()["next_index"])
            return super().__next__()

    iterator.__class__ = Observed
    return iterator


class Killed(Exception):
    """In place of the end of a process."""


def killed_after(steps, iterator=None):
    """Batches whose process dies while it waits for the one after `steps`."""

    def before_next(drawn):
        if drawn >= steps:
            raise Killed

    return observed(batches() if iterator is None else iterator, before_next)


def logged(folder, kind=None) -> list[dict]:
    """What a run wrote, without what a clock says."""
    timed = ("steps_per_second", "items_per_second", "tokens_per_second", "input_wait")
    return [
        {name: value for name, value in line.items() if name not in timed}
        for line in read_metrics(folder)
        if line["kind"] == kind or not kind and line["kind"] != "start"
    ]


def evaluate(params) -> dict[str, float]:
    held_out = collate(examples(32)).arrays
    error = predict(params, held_out["x"]) - held_out["y"]
    return {"score": float(-jnp.mean(error**2)), "largest": float(jnp.max(jnp.abs(error)))}


def run(folder, config=CONFIG, **changes):
    """Trains on one device, but for the changes."""
    arguments = {
        "loss_fn": loss_fn,
        "params": init_params(),
        "optimizer": OPTIMIZER,
        "batches": batches(),
        "evaluate": evaluate,
        "mesh": data_mesh(1),
    }
    return train(directory=folder, config=config, **arguments | changes)


def count_compilations(caplog) -> int:
    """Compilations of the training step in what was logged under `jax.log_compiles()`.

    Not `_cache_size()`: its entries also tell apart key arrays made by two
    internal paths of `jax.jit`, without any compilation.
    """
    wanted = "Finished XLA compilation of jit(train_step)"
    return sum(wanted in record.getMessage() for record in caplog.records)
