"""Annealing: its probability, its one draw, and the objectives as values."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from numpy.testing import assert_allclose, assert_array_equal

from hardem_jax import MML, FirstOnly, HardEM, Scheduled, schedules
from hardem_jax.losses import (
    annealed_loss,
    annealing_probability,
    first_only_loss,
    hard_em_loss,
    mml_loss,
)

STEPS = np.array([0, 1, 50, 80, 99, 100, 101, 10**9])
# Hard EM costs log 4, MML log 2 and First-only log 8 in every row.
LOG_PROBS = np.log(np.tile(np.array([1 / 8, 1 / 4, 1 / 8], np.float32), (16, 1)))
HARD, SOFT, FIRST = np.log([4.0, 2.0, 8.0])
ROWS = {"reduce_fn": None}


@pytest.mark.parametrize(
    "tau, cap, expected",
    [
        (100, 1.0, [0.0, 0.01, 0.5, 0.8, 0.99, 1.0, 1.0, 1.0]),
        (100, 0.8, [0.0, 0.01, 0.5, 0.8, 0.8, 0.8, 0.8, 0.8]),
        (None, 1.0, [1.0] * 8),
        (0, 1.0, [1.0] * 8),
    ],
)
def test_annealing_probability(tau, cap, expected):
    got = jax.jit(lambda step: annealing_probability(step, tau=tau, cap=cap))(STEPS)
    assert_allclose(jnp.broadcast_to(got, 8), expected, rtol=1e-6)


def test_a_traced_tau_of_zero_is_plain_hard_em():
    got = jax.jit(lambda tau: annealing_probability(5, tau=tau))(0)
    assert got == 1.0


@jax.jit
def losses_and_draws(steps, keys):
    """``[S, 16]`` annealed losses with tau=100, cap=0.8, and what is_hard says, for many steps."""
    objective = HardEM(tau=100, cap=0.8)

    def one(step, key):
        loss = objective(LOG_PROBS, step=step, key=key, **ROWS)
        return loss, objective.is_hard(step=step, key=key)

    return jax.vmap(one)(steps, keys)


def test_one_draw_for_the_whole_batch_with_the_right_frequency_and_is_hard_knows_it():
    repeats = 2_000
    steps = np.repeat(STEPS[[0, 2, 6]], repeats)
    keys = jax.random.split(jax.random.key(1), steps.size)
    loss, is_hard = map(np.asarray, losses_and_draws(steps, keys))
    expected = np.where(is_hard, HARD, SOFT)[:, None]
    assert_allclose(loss, np.broadcast_to(expected, loss.shape), rtol=1e-6)
    frequency = is_hard.reshape(3, repeats).mean(-1)
    probability = np.array([0.0, 50 / 100, 0.8])
    four_deviations = 4 * np.sqrt(probability * (1 - probability) / repeats)
    assert (np.abs(frequency - probability) <= four_deviations).all(), frequency


def test_gradient_is_that_of_the_objective_drawn():
    gradient = jax.jit(jax.grad(lambda x, key: annealed_loss(x, step=1, key=key, tau=2)))
    seen = set()
    for seed in range(8):
        key = jax.random.key(seed)
        is_hard = bool(HardEM(tau=2).is_hard(step=1, key=key))
        drawn = hard_em_loss if is_hard else mml_loss
        assert_allclose(gradient(LOG_PROBS, key), jax.grad(drawn)(LOG_PROBS), rtol=1e-6)
        seen.add(is_hard)
    assert seen == {True, False}


def test_eight_devices_draw_as_one():
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    placed = jax.device_put(LOG_PROBS, NamedSharding(mesh, PartitionSpec("data")))
    rows = jax.jit(lambda x, key: annealed_loss(x, step=1, key=key, tau=2, reduce_fn=None))
    for seed in range(8):
        key = jax.random.key(seed)
        one, many = rows(LOG_PROBS, key), rows(placed, key)
        assert len(set(np.asarray(many).tolist())) == 1
        assert_allclose(many, one, rtol=1e-6)


def test_neither_step_nor_key_recompiles():
    @jax.jit
    def step_fn(log_probs, step, key):
        return HardEM(tau=4, cap=0.8)(log_probs, step=step, key=key)

    values = {float(step_fn(LOG_PROBS, step, jax.random.key(step))) for step in range(12)}
    assert step_fn._cache_size() == 1
    assert_allclose(sorted(values), [SOFT, HARD], rtol=1e-6)


@pytest.mark.parametrize(
    "objective, loss, hard",
    [
        (HardEM(), hard_em_loss, True),
        (HardEM(tau=0), hard_em_loss, True),
        (MML(), mml_loss, False),
        (FirstOnly(), first_only_loss, False),
        (Scheduled(schedules.switch_at(7)), hard_em_loss, True),
        (Scheduled(schedules.switch_at(8)), mml_loss, False),
        (Scheduled(schedules.as_printed(7)), mml_loss, False),
        (HardEM(tau=7), hard_em_loss, True),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_an_objective_is_its_loss_in_both_layouts(objective, loss, hard):
    at = {"step": 7, "key": jax.random.key(3)}
    where = jnp.ones(LOG_PROBS.shape, bool).at[:, 1].set(False)
    assert_array_equal(objective(LOG_PROBS, where=where, **at), loss(LOG_PROBS, where=where))
    ragged = {"segment_ids": jnp.array([0, 2, 0]), "num_segments": 3, **ROWS}
    assert_array_equal(objective(LOG_PROBS[0], **ragged, **at), loss(LOG_PROBS[0], **ragged))
    is_hard = objective.is_hard(**at)
    assert is_hard.dtype == bool and is_hard.shape == () and bool(is_hard) is hard


def test_objectives_are_immutable_values():
    assert HardEM(tau=8000) == HardEM(tau=8000) and hash(MML()) == hash(MML())
    assert HardEM() != HardEM(tau=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        HardEM().tau = 3.0  # type: ignore[misc]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"tau": -1}, "tau must be None, 0 or a number of steps, got -1"),
        ({"tau": float("nan")}, "tau must be None, 0 or a number of steps, got nan"),
        ({"tau": 10, "cap": 0.0}, r"cap must be in \(0, 1\], got 0.0"),
        ({"tau": 10, "cap": 1.5}, r"cap must be in \(0, 1\], got 1.5"),
        ({"cap": 0.8}, "cap=0.8 limits annealing and needs a tau"),
        ({"tau": 0, "cap": 0.8}, "cap=0.8 limits annealing and needs a tau"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=f"HardEM: {message}"):
        HardEM(**options)
