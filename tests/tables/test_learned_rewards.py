"""Training with a learned reward: its gradient, its features, and planted spurious queries."""

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from hardem_jax import losses
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.errors import InputError
from hardem_jax.queries.config import SQLovaConfig
from hardem_jax.queries.reward_features import QUERY_FEATURES, query_features
from hardem_jax.search import candidates
from hardem_jax.search.objectives import MERL, IterativeML
from hardem_jax.tables.learned_rewards import (
    CUES,
    check_batches,
    cues_of,
    hold_out,
    make_learned_reward_loss,
    put_back,
    with_reward,
)
from hardem_jax.tables.search import make_search_loss
from hardem_jax.training.mesh import data_mesh, place_batch
from hardem_jax.training.state import init_state
from hardem_jax.training.step import accumulated_value_and_grad, make_train_step
from tests.task.toy import VOCABULARY, query_batch

ROWS, TOKENS = 8, 16
OBJECTIVE = MERL(beam=1, memory=3, warmup=0, lookahead=0.5, meta_rate=1.0)
KEYS = dict(zip(("key", "dropout_key"), jax.random.split(jax.random.key(2)), strict=True))


@dataclasses.dataclass(frozen=True)
class Parts:
    """As much of a `Model` as a reward is added to."""

    graphdef: nnx.GraphDef
    params: nnx.State
    config: SQLovaConfig = SQLovaConfig()


class Tiny(nnx.Module):
    """A parser of one hidden layer: mean of the tokens -> column, aggregator, operator."""

    SIZES = 3, 6, 3

    def __init__(self):
        rngs = nnx.Rngs(0)
        self.words = nnx.Param(jax.random.normal(rngs.params(), (VOCABULARY, 6)))
        self.hidden = nnx.Linear(6, 8, rngs=rngs)
        self.out = nnx.Linear(8, sum(self.SIZES), rngs=rngs)

    def __call__(self, batch, *, rngs=None):
        del rngs
        read = self.words[...][batch["token_ids"]] * batch["where"][..., None].astype(jnp.float32)
        scores = self.out(jnp.tanh(self.hidden(jnp.sum(read, axis=1) / 4)))
        return [jax.nn.log_softmax(x) for x in jnp.split(scores, np.cumsum(self.SIZES)[:-1], -1)]


def log_prob(tables, solutions):
    places = solutions[..., 0], solutions[..., 1], solutions[..., 4]
    taken = [jnp.take_along_axis(x, place, axis=1) for x, place in zip(tables, places, strict=True)]
    return sum(taken)


def parser():
    """Its reward has weights other than 0."""
    model = with_reward(Parts(*nnx.split(Tiny(), nnx.Param)), len(QUERY_FEATURES))
    weights = np.random.default_rng(0).normal(size=len(QUERY_FEATURES))
    model.params["learned_reward"]["weights"][...] = jnp.asarray(weights, jnp.float32)
    return model


def batch_of(objective=OBJECTIVE) -> dict[str, Any]:
    """Every question remembers the solutions that have a reward, and finds nothing else."""
    batch: dict[str, Any] = query_batch(ROWS, TOKENS)
    cues = np.random.default_rng(1).random((ROWS, len(CUES))) < 0.3
    memory = {"solutions": batch["solutions"][:, : objective.memory], "cues": cues}
    return batch | {"item": np.arange(ROWS, dtype=np.int32), "memory": memory}


@dataclasses.dataclass(frozen=True)
class Space:
    """Some of what has a reward is in the beam, all of it may be remembered."""

    tables: list
    right: jax.Array

    def beam(self, count):
        return self.right[:, :count]

    def log_prob(self, solutions):
        return log_prob(self.tables, solutions)

    def reward(self, solutions, where):
        return (candidates.contains(self.right, solutions) & where).astype(jnp.float32)


def space(tables, batch) -> Any:
    return Space(tables, batch["solutions"])


def loss_of(model, objective=OBJECTIVE):
    return make_learned_reward_loss(model.graphdef, objective, space, query_features)


def close(one, other, **tolerance):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, **tolerance), one, other)


def test_the_rewards_gradient_is_what_a_step_of_training_does_to_the_held_out_loss():
    """By differences: an SGD step on the rows not held out, under rewards on both sides of it."""
    model, batch, step = parser(), batch_of(), 3
    loss = loss_of(model)
    _, other = hold_out(batch, OBJECTIVE.held_out, step)
    optimizer = optax.sgd(OBJECTIVE.lookahead)
    take = make_train_step(loss, optimizer)
    state = init_state(model.params, optimizer, 0, data_mesh(1), batch["memory"])
    state = dataclasses.replace(state, step=jnp.int32(step))

    def after(params):
        new, metrics = take(dataclasses.replace(state, params=params), batch)
        log_probs = log_prob(nnx.merge(model.graphdef, new.params)(other), other["solutions"])
        return losses.mml_loss(log_probs, where=other["solutions_where"]), metrics

    def moved(size):
        params = jax.tree.map(lambda x: x, model.params)
        params["learned_reward"]["weights"][...] += size * slope / length
        return after(params)[0]

    after = jax.jit(after)
    grads = jax.jit(jax.grad(loss, has_aux=True))(model.params, batch, step=step, **KEYS)[0]
    slope = grads["learned_reward"]["weights"][...]
    length = jnp.linalg.norm(slope)
    value, metrics = after(model.params)
    np.testing.assert_allclose(float(metrics["held_out"]), value, rtol=1e-5)
    np.testing.assert_allclose(length, (moved(0.025) - moved(-0.025)) / 0.05, rtol=0.005)
    assert length > 1e-3 and abs(float(metrics["agreement"])) > 1e-3


def test_without_a_reward_it_is_iterative_ml_on_the_rows_that_are_not_held_out():
    """In the warm-up, and where all weights are 0."""
    model, batch = parser(), batch_of()
    own, _ = hold_out(batch, 2, 5)
    plain = make_search_loss(model.graphdef, IterativeML(beam=1, memory=3), space)
    warming = loss_of(model, dataclasses.replace(OBJECTIVE, warmup=6))
    zeros = jax.tree.map(lambda x: x, model.params)
    zeros["learned_reward"]["weights"][...] = jnp.zeros(len(QUERY_FEATURES))

    @jax.jit
    def computed(params, zeros):
        call = {"step": jnp.int32(5), **KEYS}
        losses = ((plain, params, own), (warming, params, batch), (loss_of(model), zeros, batch))
        return [jax.value_and_grad(f, has_aux=True)(p, rows, **call) for f, p, rows in losses]

    results = computed(model.params, zeros)
    slopes = [grads.pop("learned_reward")["weights"][...] for (_, _), grads in results]
    values, grads = [x[0][0] for x in results], [x[1] for x in results]
    for other in (1, 2):
        close(values[0], values[other], rtol=1e-6)
        close(grads[0], grads[other], rtol=1e-4, atol=1e-6)
    assert not np.any(slopes[0]) and not np.any(slopes[1]) and np.any(slopes[2])


def computing(loss):
    call = {"step": jnp.int32(0), **KEYS}
    return jax.jit(lambda *of: jax.value_and_grad(loss, has_aux=True)(*of, **call))


def test_devices_share_a_batch_and_its_memory():
    model, batch = parser(), batch_of()
    run = computing(loss_of(model))
    one, many = run(model.params, batch), run(model.params, place_batch(batch, data_mesh(4)))
    close(one, many, rtol=1e-4, atol=1e-5)
    remembered = one[0][1]["memory"]["solutions"]
    for mine, given in zip(remembered.tolist(), batch["memory"]["solutions"].tolist(), strict=True):
        assert {*map(tuple, mine)} == {*map(tuple, given)}


@pytest.mark.slow
def test_each_part_of_a_batch_looks_ahead_by_itself():
    model, batch = parser(), batch_of()
    loss = loss_of(model)
    halves = jax.tree.map(lambda x: x.reshape(2, ROWS // 2, *x.shape[1:]), batch)
    grouped = accumulated_value_and_grad(loss, 2)
    (value, metrics), grads = jax.jit(lambda b: grouped(model.params, b, step=0, **KEYS))(halves)
    run = computing(loss)
    parts = [run(model.params, jax.tree.map(lambda x, i=i: x[i], halves)) for i in range(2)]
    close(value, np.mean([v for (v, _), _ in parts]), rtol=1e-5)
    close(grads, jax.tree.map(lambda a, b: (a + b) / 2, *(g for _, g in parts)), atol=1e-5)
    assert metrics["items"] == 4 and metrics["held_out"].count == 4


def test_rows_take_turns():
    rows = np.arange(12)
    held = [hold_out(rows, 3, step)[1].tolist() for step in range(3)]
    assert sorted(itertools.chain(*held)) == rows.tolist()
    for step in range(4):
        own, other = hold_out({"a": rows, "b": rows[:, None]}, 3, step)
        close(put_back(own, other, 3, step), {"a": rows, "b": rows[:, None]})


def test_what_cannot_be_trained_is_one_line():
    parts = Parts(*nnx.split(nnx.Linear(1, 1, rngs=nnx.Rngs(0)), nnx.Param))
    for kernel in ("splash", "cudnn"):
        kerneled = dataclasses.replace(parts, config=SQLovaConfig(attention=kernel))
        with pytest.raises(InputError, match="add --model.attention xla"):
            with_reward(kerneled, 1)
    with pytest.raises(InputError, match="--batches.batch-size: expected a multiple of 4"):
        check_batches(MERL(), BatchConfig(batch_size=10, accumulate=2))
    with pytest.raises(InputError, match="--batches.batch-size: expected a multiple of 40"):
        check_batches(MERL(held_out=5), BatchConfig(batch_size=10), num_devices=8)
    check_batches(MERL(), BatchConfig(batch_size=10), num_devices=8)
    with pytest.raises(InputError, match="--batches.packed-tokens: expected none"):
        check_batches(MERL(), BatchConfig(batch_size=10, packed_tokens=64))
    check_batches(MERL(held_out=5), BatchConfig(batch_size=10))


def test_cues_are_found_as_whole_words():
    asked = ["What is the SUM of goals?", "Which summer games were last?", "He didn't score"]
    found = [{name for name, x in zip(CUES, row, strict=True) if x} for row in cues_of(asked)]
    assert found == [{"total"}, {"most"}, {"not"}]
    assert len({*QUERY_FEATURES}) == len(QUERY_FEATURES)
