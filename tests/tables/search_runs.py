"""Training runs that search, of questions of which each has parameters of its own."""

import grain
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.cli.command import parse
from hardem_jax.data.batching.padding import Batch
from hardem_jax.training.loop import LoopConfig, train
from hardem_jax.training.mesh import data_mesh
from hardem_jax.training.optimizer import OptimizerConfig
from hardem_jax.training.run_progress import read_metrics
from hardem_jax.training.state import named_leaves, recall
from tests.training import toy_problem as toy


class OneByOne(nnx.Module):
    """Logits of each question, so that all can be learned: ``first`` of one of ``questions``.

    ``distribution`` makes P(z | x) from logits by name, with a leading axis, and a batch.
    """

    def __init__(self, first, questions, distribution):
        tables = {n: jnp.repeat(jnp.asarray(x)[None], questions, 0) for n, x in first.items()}
        self.logits = nnx.Dict({name: nnx.Param(x) for name, x in tables.items()})
        self.distribution = distribution

    def __call__(self, batch, *, rngs=None):
        logits = {n: param[...][batch["item"]] for n, param in self.logits.items()}
        return self.distribution(logits, batch)


def run_in(folder, training, model, inputs, steps=60, killed_after=None):
    """Trains a `OneByOne` on two questions a step, up to one that fails.

    ``inputs`` are what a batch holds of all questions, ``[N, ...]`` by name. Returns the result and
    the metrics of the steps.
    """
    graphdef, params = nnx.split(model, nnx.Param)

    def batch(step):
        if killed_after is not None and step >= killed_after:
            raise toy.Killed
        item = np.array([[0, 1], [2, 3]][step % 2], np.int32)
        arrays = {"item": item, "row_where": item >= 0}
        return Batch(["a", "b"], arrays | {name: x[item] for name, x in inputs.items()})

    options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=1)
    batches = grain.MapDataset.range(steps).map(batch).to_iter_dataset(options)
    result = train(
        loss_fn=training.loss(graphdef, None),
        params=params,
        memory=training.memory(4),
        optimizer=OptimizerConfig(learning_rate=0.3, weight_decay=0.0),
        batches=iter(batches),
        evaluate=lambda params: {"accuracy": 0.0},
        config=LoopConfig(
            steps,
            monitor="accuracy",
            eval_every=20,
            checkpoint_every=10,
            log_every=1,
            progress=False,
            patience=None,
        ),  # fmt: skip
        directory=folder,
        mesh=data_mesh(1),
    )
    return result, [line for line in read_metrics(folder) if line["kind"] == "train"]


def learns_and_resumes(folder, *run):
    """Rewards rise until all questions are solved, and a killed run ends alike, bit for bit."""
    whole, steps = run_in(folder / "whole", *run)
    early, late = (np.mean([s["reward"] for s in part]) for part in (steps[:6], steps[-6:]))
    assert late > early + 0.2 and steps[-1]["found"] == steps[-2]["found"] == 1
    with pytest.raises(toy.Killed):
        run_in(folder / "killed", *run, killed_after=27)
    resumed, again = run_in(folder / "killed", *run)
    for name in ("params", "memory"):
        states = (getattr(x.state, name) for x in (whole, resumed))
        jax.tree.map(np.testing.assert_array_equal, *states)
    assert [s["loss"] for s in again] == [s["loss"] for s in steps]


def assert_learns_a_reward(module, flags, *, num_features):
    """A run of ``objective:merl``, whose step is only traced: a fraction of compiling it."""
    command = parse(module.COMMANDS, prog="test", argv=[*flags, "objective:merl"])
    run = command.start(command.mesh())
    batch = recall(jax.tree.map(jnp.asarray, run.memory), next(iter(run.batches)).arrays)
    step = jax.value_and_grad(run.loss_fn, has_aux=True)
    keys = {"key": jax.random.key(0), "dropout_key": jax.random.key(1)}
    (_, metrics), grads = jax.eval_shape(step, run.params, batch, step=jnp.int32(0), **keys)
    assert named_leaves(grads)["learned_reward.weights"].shape == (num_features,)
    assert {"held_out", "agreement", "found", "reward", "remembered"} <= {*metrics}
    return run
