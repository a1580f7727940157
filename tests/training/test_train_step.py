"""The step: arithmetic, compilations, devices, donation, a loss that is not finite."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hardem_jax.training.mesh import data_mesh, place_batch
from hardem_jax.training.optimizer import OptimizerConfig, learning_rate_schedule, make_optimizer
from hardem_jax.training.state import init_state
from hardem_jax.training.step import compile_train_step, make_train_step
from tests.marks import slow
from tests.training import toy_problem as toy

NUM_STEPS = 20


def setup(mesh, loss_fn=toy.loss_fn, params=None):
    config = OptimizerConfig(learning_rate=1e-2)
    params = toy.init_params() if params is None else params
    optimizer = make_optimizer(config, params, NUM_STEPS)
    step = make_train_step(loss_fn, optimizer, learning_rate_schedule(config, NUM_STEPS))
    return init_state(params, optimizer, seed=0, mesh=mesh), compile_train_step(step, mesh)


def test_one_step_of_sgd_by_the_formula():
    def loss_fn(params, batch, *, step, key, dropout_key):
        return jnp.mean((params["w"] * batch["x"]) ** 2), {"rows": jnp.sum(batch["x"] > 0)}

    optimizer = optax.sgd(0.1)
    state = init_state({"w": jnp.float32(3.0)}, optimizer, seed=0, mesh=data_mesh(1))
    state, metrics = make_train_step(loss_fn, optimizer)(state, {"x": jnp.array([1.0, 2.0])})
    gradient = 2 * 3.0 * np.mean([1.0**2, 2.0**2])
    np.testing.assert_allclose(state.params["w"], 3.0 - 0.1 * gradient, rtol=1e-6)
    np.testing.assert_allclose(metrics["grad_norm"], gradient, rtol=1e-6)
    np.testing.assert_allclose(metrics["loss"], 9.0 * np.mean([1.0**2, 2.0**2]), rtol=1e-6)
    assert (float(metrics["rows"]), float(metrics["finite"]), int(state.step)) == (2, 1, 1)
    assert "learning_rate" not in metrics


def test_loss_fn_sees_the_step_and_a_key_of_its_own():
    def loss_fn(params, batch, *, step, key, dropout_key):
        draws = {"draw": jax.random.uniform(key), "dropout": jax.random.uniform(dropout_key)}
        return params["w"] * 1.0, {"step": step, **draws}

    optimizer = optax.sgd(0.1)
    state = init_state({"w": jnp.float32(0)}, optimizer, seed=5, mesh=data_mesh(1))
    train_step = make_train_step(loss_fn, optimizer)
    for step in range(3):
        state, metrics = train_step(state, {})
        assert float(metrics["step"]) == step
        # In this order, so that runs of earlier versions resume with the draws they would have had.
        dropout, draw = jax.random.split(jax.random.fold_in(jax.random.key(5), step))
        assert float(metrics["draw"]) == float(jax.random.uniform(draw))
        assert float(metrics["dropout"]) == float(jax.random.uniform(dropout))


@pytest.mark.parametrize(("num_devices", "weak"), [(8, True), *slow((1, False))])
def test_steps_share_one_compilation(num_devices, weak, caplog):
    mesh = data_mesh(num_devices)
    params = toy.init_params()
    if weak:  # what a Python float leaves behind
        params["head"]["bias"] = jnp.asarray(0.0).reshape(1)
        assert params["head"]["bias"].weak_type
    state, train_step = setup(mesh, params=params)
    iterator = toy.batches()
    with jax.log_compiles():
        for step in range(4):
            batch = next(iterator).arrays
            batch["tau"] = np.float32(step)  # a scalar that changes, as in annealing
            state, _ = train_step(state, place_batch(batch, mesh))
    assert toy.count_compilations(caplog) == 1


def test_a_step_that_is_not_finite_changes_nothing_but_the_count():
    mesh = data_mesh(8)
    state, train_step = setup(mesh)
    batch = next(toy.batches()).arrays
    state, _ = train_step(state, place_batch(batch, mesh))
    before = jax.device_get((state.params, state.opt_state))
    for step, bad in ((2, np.nan), (3, np.inf)):
        y = np.where(np.arange(8) == 3, bad, batch["y"]).astype(np.float32)
        state, metrics = train_step(state, place_batch({**batch, "y": y}, mesh))
        assert float(metrics["finite"]) == 0 and int(state.step) == step
        jax.tree.map(np.testing.assert_array_equal, before, (state.params, state.opt_state))


def test_an_infinite_gradient_of_a_finite_loss_is_caught():
    def loss_fn(params, batch, *, step, key, dropout_key):
        return jnp.sqrt(jnp.abs(params["w"])), {}

    optimizer = optax.sgd(0.1)
    state = init_state({"w": jnp.float32(0.0)}, optimizer, seed=0, mesh=data_mesh(1))
    state, metrics = make_train_step(loss_fn, optimizer)(state, {})
    assert float(metrics["loss"]) == 0 and float(metrics["finite"]) == 0
    assert float(state.params["w"]) == 0


def test_the_state_is_donated_and_the_callers_params_are_not():
    mesh = data_mesh(1)
    params = toy.init_params()
    state, train_step = setup(mesh, params=params)
    train_step(state, place_batch(next(toy.batches()).arrays, mesh))
    assert state.params["body"]["kernel"].is_deleted()
    assert not params["body"]["kernel"].is_deleted()
