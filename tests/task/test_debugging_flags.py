"""The training step of every task, and of every objective, under JAX's debugging flags."""

import contextlib
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.experimental import checkify

from hardem_jax.objectives import EM, AnyObjective, HardEM
from hardem_jax.posteriors import Annealed, Sampled, TopK
from hardem_jax.search.objectives import MAPO, MERL, AnySearchObjective
from hardem_jax.spans.config import LatentConfig
from hardem_jax.spans.task import make_span_loss
from hardem_jax.tables.search import make_search_loss
from hardem_jax.task.base import first_memory, make_loss
from hardem_jax.training.mesh import data_mesh, place_batch
from hardem_jax.training.optimizer import OptimizerConfig, learning_rate_schedule, make_optimizer
from hardem_jax.training.state import current_shardings, init_state, recall
from hardem_jax.training.step import compile_train_step, make_train_step
from tests.marks import slow
from tests.queries.test_search import Tables, batch_of, executor
from tests.task.test_loss_in_parts import SOLUTIONS, SPACE, WHERE, Model
from tests.task.toy import TASKS, make_bert

ROWS, TOKENS = 8, 40
MODES = "flags", "in parts", "64 bits", "checkify"
#: All that can be on together.
FLAGS = {
    "jax_debug_nans": True,
    "jax_debug_key_reuse": True,
    "jax_numpy_dtype_promotion": "strict",
    "jax_numpy_rank_promotion": "raise",
    "jax_check_tracer_leaks": True,
    "jax_transfer_guard": "disallow",
}


@contextlib.contextmanager
def flags(values):
    before = {name: getattr(jax.config, name) for name in values}
    try:
        for name, value in values.items():
            jax.config.update(name, value)
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)


def train(loss_fn, params, batch, memory, *, accumulate=1):
    """Two steps; their losses."""
    mesh, config = data_mesh(1), OptimizerConfig(ema_decay=0.9)
    optimizer = make_optimizer(config, params, 10)
    state = init_state(params, optimizer, 0, mesh, memory)
    schedule = learning_rate_schedule(config, 10)
    step = make_train_step(loss_fn, optimizer, schedule, accumulate=accumulate)
    step = compile_train_step(step, mesh, current_shardings(state))
    if accumulate > 1:
        batch = {n: x.reshape(accumulate, -1, *x.shape[1:]) for n, x in batch.items()}
    losses = []
    for _ in range(2):
        state, metrics = step(state, place_batch(batch, mesh, accumulate=accumulate))
        losses.append(jax.device_get(metrics)["loss"])
    assert {x.dtype for x in losses} == {np.dtype("float32")} and np.isfinite(losses).all()


def check(loss_fn, params, batch, memory):
    """`checkify` of the loss. JAX cannot check the indices of the gradient of a gather along axes
    of a batch (`jnp.take_along_axis`)."""

    def loss(params, batch):
        keys = jax.random.split(jax.random.key(0))
        named = {"key": keys[0], "dropout_key": keys[1]}
        return loss_fn(params, recall(memory, batch), step=jnp.int32(1), **named)[0]

    memory, batch = jax.tree.map(jnp.asarray, (memory, batch))
    error, found = jax.jit(checkify.checkify(loss, errors=checkify.all_checks))(params, batch)
    error.throw()
    assert jnp.isfinite(found)


def run(mode, loss_fn, params, batch, memory):
    batch = {"item": np.array([*range(ROWS - 1), -1], np.int32)} | batch
    if mode == "checkify":
        return check(loss_fn, params, batch, memory)
    with flags({"jax_enable_x64": True} if mode == "64 bits" else FLAGS):
        train(loss_fn, params, batch, memory, accumulate=2 if mode == "in parts" else 1)


LATENT = {
    "windows of a question": LatentConfig(scope="question", group_size=3),
    "positions": LatentConfig(likelihood="position"),
}


OTHERS = [name for name in (*TASKS, *LATENT) if name != "spans"]


# "in parts" has the flags, too: only one task need have them on their own.
@pytest.mark.parametrize(
    ("task", "mode"),
    [
        ("spans", "flags"),
        *slow(*[("spans", mode) for mode in MODES[1:]]),
        *slow(*[(task, mode) for task in OTHERS for mode in MODES[1:]]),
    ],
)
def test_tasks(task, mode):
    toy = TASKS["spans" if task in LATENT else task]
    graphdef, params = nnx.split(toy.model(make_bert()), nnx.Param)
    if task in LATENT:
        loss_fn = make_span_loss(graphdef, HardEM(tau=4), LATENT[task], negatives=1)
    else:
        loss_fn = toy.make_loss(graphdef, HardEM(tau=4))
    run(mode, loss_fn, params, toy.batch(ROWS, TOKENS), first_memory(ROWS))


POSTERIORS = (Annealed(10), TopK(2), Sampled())
OBJECTIVES = [*(kind() for kind in get_args(AnyObjective)), *map(EM, POSTERIORS), HardEM(tau=4)]


@pytest.mark.parametrize("mode", ["flags", "checkify", *slow("in parts", "64 bits")])
@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_objectives(objective, mode):
    logits = np.random.default_rng(0).normal(size=(ROWS, SPACE)).astype(np.float32)
    graphdef, params = nnx.split(Model(jnp.asarray(logits)), nnx.Param)
    batch = {
        "row": np.arange(ROWS, dtype=np.int32),
        "solutions": np.tile(np.arange(SOLUTIONS, dtype=np.int32), (ROWS, 1)),
        "solutions_where": WHERE,
    }
    run(mode, make_loss(graphdef, objective), params, batch, first_memory(ROWS))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "mode"),
    [(kind, "flags") for kind in get_args(AnySearchObjective) if kind is not MERL]
    + [(MAPO, mode) for mode in ("in parts", "64 bits", "checkify")],
)
def test_objectives_that_search(kind, mode):
    objective = kind()
    graphdef, params = nnx.split(Tables(), nnx.Param)
    batch = batch_of(objective)
    memory = batch.pop("memory", {})
    run(mode, make_search_loss(graphdef, objective, executor().space), params, batch, memory)
