"""A batch in parts is the batch: loss, gradient, draws, and the memory it takes."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hardem_jax.errors import InputError
from hardem_jax.training.mesh import data_mesh, place_batch
from hardem_jax.training.optimizer import OptimizerConfig, make_optimizer
from hardem_jax.training.state import current_shardings, init_state
from hardem_jax.training.step import accumulated_value_and_grad, compile_train_step, make_train_step
from tests.marks import slow
from tests.training import toy_problem as toy

PARTS, ROWS = 3, 8
# Rows of padding are left out: the parts have 7, 4 and 2 items, on two devices alike or not.
WHERE = np.arange(ROWS)[None] < np.array([[7], [4], [2]])


def loss_fn(params, batch, *, step, key, dropout_key):
    error = toy.predict(params, batch["x"]) - batch["y"]
    hard = jax.random.uniform(key) < 0.5
    costs = jnp.where(hard, jnp.abs(error), error**2)
    items = jnp.maximum(jnp.sum(batch["where"]), 1)
    metrics = {
        "hard": hard,
        "draw": jax.random.uniform(key),
        "dropout": jax.random.uniform(dropout_key),
        "largest": jnp.sum(batch["x"][:, 0], where=batch["where"]) / items,
        "items": items,
        "tokens": 5.0 * jnp.sum(batch["where"]),
    }
    return batch["scale"] * jnp.sum(costs, where=batch["where"]) / items, metrics


def make_batch(parts):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(PARTS, ROWS, 4)).astype(np.float32)
    arrays = {"x": x, "y": rng.normal(size=(PARTS, ROWS)).astype(np.float32), "where": WHERE}
    if parts == 1:
        arrays = {name: array.reshape(-1, *array.shape[2:]) for name, array in arrays.items()}
    return arrays | {"scale": np.float32(1.5)}


def run(parts, mesh, steps=3):
    params = toy.init_params()
    optimizer = make_optimizer(OptimizerConfig(learning_rate=1e-2), params, 10)
    state = init_state(params, optimizer, seed=0, mesh=mesh)
    step = make_train_step(loss_fn, optimizer, accumulate=parts)
    step = compile_train_step(step, mesh, current_shardings(state))
    history = []
    for _ in range(steps):
        state, metrics = step(state, place_batch(make_batch(parts), mesh, accumulate=parts))
        history.append({name: float(value) for name, value in metrics.items()})
    return state, history


@pytest.mark.parametrize("num_devices", [4, *slow(1)])
def test_parts_with_unequal_numbers_of_items_are_one_batch(num_devices):
    mesh = data_mesh(num_devices)
    one, expected = run(1, mesh)
    state, found = run(PARTS, mesh)
    for ours, whole in zip(found, expected, strict=True):
        assert ours.pop("dropout") != whole.pop("dropout")  # each part has a key of its own
        assert ours == pytest.approx(whole, rel=2e-6)
        assert ours["items"] == 13 and ours["hard"] in (0, 1)
    assert {entry["hard"] for entry in found} == {0, 1}
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-7), state.params, one.params)


def test_activations_of_one_part_at_a_time_are_in_memory():
    width = 256

    def deep(params, batch, *, step, key, dropout_key):
        hidden = batch
        for _ in range(4):
            hidden = jnp.tanh(hidden @ params)
        return jnp.mean(hidden**2), {"items": len(batch)}

    state = init_state(jnp.ones((width, width)), optax.sgd(0.1), seed=0, mesh=data_mesh(1))

    def temporary_bytes(parts):
        batch = jax.ShapeDtypeStruct((8192, width), jnp.float32)
        if parts > 1:
            batch = jax.ShapeDtypeStruct((parts, 8192 // parts, width), jnp.float32)
        step = make_train_step(deep, optax.sgd(0.1), accumulate=parts)
        compiled = jax.jit(step, donate_argnums=0).lower(state, batch).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    assert temporary_bytes(8) < temporary_bytes(1) / 4


def test_a_loss_that_does_not_count_its_items_is_refused():
    with pytest.raises(ValueError, match="expected the metric 'items', required with 4 micro-"):
        accumulated_value_and_grad(lambda params, batch, **_: (params, {}), 4)(
            1.0, jnp.ones(4), step=0, key=jax.random.key(0), dropout_key=jax.random.key(0)
        )


@pytest.mark.parametrize("shape", [(3, 8), (2,), (8, 2)])
def test_arrays_without_the_axis_of_parts_are_named(shape):
    with pytest.raises(InputError, match=r"entry x: expected shape \[2, rows, ...\].*found \["):
        place_batch({"x": np.zeros(shape)}, data_mesh(1), accumulate=2)
