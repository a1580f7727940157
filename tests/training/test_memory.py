"""What a run remembers of each input: read and written by the right rows, saved and restored."""

import dataclasses

import grain
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hardem_jax.data.batching.padding import Batch
from hardem_jax.training.fsdp import all_gather_params
from hardem_jax.training.mesh import MIN_SPLIT_SIZE, data_mesh, place_batch
from hardem_jax.training.run_progress import Mean
from hardem_jax.training.state import current_shardings, init_state
from hardem_jax.training.step import compile_train_step, make_train_step
from tests.marks import slow
from tests.training import toy_problem as toy

# Large enough that `state_shardings` would split it.
NUM_ITEMS, ROWS, STEPS = MIN_SPLIT_SIZE, 16, 4


def first_memory(num_items=NUM_ITEMS):
    return {
        "visits": np.zeros(num_items, np.int32),
        "last": {"x": np.full((num_items, 2), -5.0, np.float32)},
        "unused": np.arange(num_items, dtype=np.int8),
    }


def loss_fn(params, batch, *, step, key, dropout_key):
    """A row weighs less the more often its input was seen, so that a run depends on its memory."""
    kept, where = batch["memory"], batch["item"] >= 0
    error = (toy.predict(params, batch["x"]) - batch["y"]) ** 2 / (1 + kept["visits"])
    items = jnp.maximum(jnp.sum(where), 1)
    # Rows of padding return values, too: writing them would show.
    rows = {"visits": kept["visits"] + 1, "last": {"x": kept["last"]["x"] + batch["x"][:, :2]}}
    known = where & (batch["x"][:, 0] > 0)
    metrics = {
        "items": items,
        "positive": Mean(jnp.sum(batch["x"][:, 0], where=known), jnp.sum(known)),
        "memory": rows,
    }
    return jnp.sum(error, where=where) / items, metrics


def steps(parts=1):
    """Batches in which inputs come back, with three rows of padding, the last input among them."""
    rng = np.random.default_rng(0)
    pool = np.array([*range(20), NUM_ITEMS - 2, NUM_ITEMS - 1])
    for _ in range(STEPS):
        item = rng.choice(pool, ROWS, replace=False).astype(np.int32)
        item[rng.choice(ROWS, 3, replace=False)] = -1
        arrays = {
            "x": rng.normal(size=(ROWS, 4)).astype(np.float32),
            "y": rng.normal(size=ROWS).astype(np.float32),
            "item": item,
        }
        if parts > 1:
            arrays = {n: a.reshape(parts, -1, *a.shape[1:]) for n, a in arrays.items()}
        yield arrays


def run(mesh, parts=1, loss=loss_fn):
    params, optimizer = toy.init_params(), optax.sgd(0.1)
    state = init_state(params, optimizer, seed=0, mesh=mesh, memory=first_memory())
    step = make_train_step(all_gather_params(loss, mesh), optimizer, accumulate=parts)
    step = compile_train_step(step, mesh, current_shardings(state))
    history = []
    for batch in steps(parts):
        state, metrics = step(state, place_batch(batch, mesh, accumulate=parts))
        history.append({name: float(value) for name, value in metrics.items()})
    return state, history


def replayed():
    memory = first_memory()
    for batch in steps():
        for row, item in enumerate(batch["item"]):
            if item >= 0:
                memory["visits"][item] += 1
                memory["last"]["x"][item] += batch["x"][row, :2]
    return memory


def assert_equal(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.fixture(scope="module")
def one_device():
    return run(data_mesh(1))


def test_memory_is_that_of_a_replay_and_padding_writes_nothing(one_device):
    state, history = one_device
    assert_equal(jax.device_get(state.memory), replayed())
    for batch, entry in zip(steps(), history, strict=True):
        x = batch["x"][batch["item"] >= 0, 0]
        np.testing.assert_allclose(entry["positive"], x[x > 0].mean(), rtol=1e-6)


@pytest.mark.parametrize(
    ("devices", "fsdp", "parts"), [(4, 1, 1), (4, 2, 1), (1, 1, 2), *slow((4, 1, 2))]
)
def test_devices_and_parts_of_a_batch_share_one_memory(one_device, devices, fsdp, parts):
    state, history = run(data_mesh(devices, fsdp=fsdp), parts)
    assert_equal(jax.device_get(state.memory), replayed())
    assert all(leaf.sharding.is_fully_replicated for leaf in jax.tree.leaves(state.memory))
    for leaf in jax.tree.leaves(state.memory):  # every copy, not only the first
        for shard in leaf.addressable_shards:
            np.testing.assert_array_equal(shard.data, leaf.addressable_shards[0].data)
    for ours, expected in zip(history, one_device[1], strict=True):
        assert ours == pytest.approx(expected, rel=1e-5)


def test_a_step_that_is_not_finite_remembers_nothing():
    def loss(params, batch, **step_args):
        value, metrics = loss_fn(params, batch, **step_args)
        return jnp.where(step_args["step"] == 0, jnp.nan, value), metrics

    state, history = run(data_mesh(1), loss=loss)
    expected = first_memory()["visits"]
    for batch in [*steps()][1:]:
        np.add.at(expected, batch["item"][batch["item"] >= 0], 1)
    assert [entry["finite"] for entry in history] == [0, 1, 1, 1]
    np.testing.assert_array_equal(state.memory["visits"], expected)


CONFIG = dataclasses.replace(toy.CONFIG, num_steps=20, eval_every=10)
EXAMPLES = [{**row, "item": np.int32(i)} for i, row in enumerate(toy.examples(24))]


def batches(killed_after=None):
    def collate(rows):
        names = ("x", "y", "item")
        return Batch([r["id"] for r in rows], {n: np.stack([r[n] for r in rows]) for n in names})

    data = grain.MapDataset.source(EXAMPLES).seed(3).shuffle().repeat().batch(8, batch_fn=collate)
    iterator = iter(data.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=2)))
    return iterator if killed_after is None else toy.killed_after(killed_after, iterator)


def train_in(folder, **changes):
    own = {"loss_fn": loss_fn, "memory": first_memory(len(EXAMPLES)), "batches": batches()}
    return toy.run(folder, CONFIG, **own | changes)


def test_a_resumed_run_remembers_bit_for_bit(tmp_path):
    expected = train_in(tmp_path / "whole")
    with pytest.raises(toy.Killed):
        train_in(tmp_path / "killed", batches=batches(killed_after=11))
    result = train_in(tmp_path / "killed")
    assert_equal(result.state.memory, expected.state.memory)
    assert_equal(result.state.params, expected.state.params)
    assert toy.logged(tmp_path / "killed") == toy.logged(tmp_path / "whole")
    assert np.asarray(result.state.memory["visits"]).sum() == 20 * 8  # an epoch is three steps
