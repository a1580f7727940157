"""Parameters and optimiser state split over devices: the same run, with less on each of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax.errors import InputError
from hardem_jax.training import mesh as mesh_module
from hardem_jax.training.fsdp import all_gather_params
from hardem_jax.training.mesh import data_mesh, place_batch, state_shardings
from hardem_jax.training.optimizer import OptimizerConfig, make_optimizer
from hardem_jax.training.state import current_shardings, init_state, named_leaves
from hardem_jax.training.step import compile_train_step, make_train_step
from tests.hlo import collectives
from tests.training import toy_problem as toy

OPTIMIZER = OptimizerConfig(learning_rate=1e-2, ema_decay=0.9)


@pytest.fixture
def small_arrays_too(monkeypatch):
    """The toy problem's parameters are below the size from which arrays are split."""
    monkeypatch.setattr(mesh_module, "MIN_SPLIT_SIZE", toy.WIDTH)


@pytest.mark.parametrize(
    ("shape", "spec"),
    [
        ((768, 3072), (None, "fsdp")),
        ((3072, 768), ("fsdp",)),
        ((768, 768), (None, "fsdp")),
        ((30522, 768), (None, "fsdp")),  # the larger axis does not divide
        ((12, 768, 64), (None, "fsdp")),
        ((129, 129), ()),
        ((64, 64), ()),  # too small
        ((), ()),
    ],
)
def test_the_largest_axis_that_divides_is_split(shape, spec):
    shapes = {"x": jax.ShapeDtypeStruct(shape, jnp.float32)}
    assert tuple(state_shardings(shapes, data_mesh(8, fsdp=4))["x"].spec) == spec
    assert state_shardings(shapes, data_mesh(8))["x"].is_fully_replicated


@pytest.mark.parametrize("parts", [0, 3, 16])
def test_fsdp_must_divide_the_devices(parts):
    message = f"fsdp: expected a divisor of the 8 devices, found {parts}"
    with pytest.raises(InputError, match=message):
        data_mesh(8, fsdp=parts)


def start(mesh):
    params = toy.init_params()
    optimizer = make_optimizer(OPTIMIZER, params, 10)
    state = init_state(params, optimizer, seed=0, mesh=mesh)
    step = make_train_step(all_gather_params(toy.loss_fn, mesh), optimizer)
    return state, compile_train_step(step, mesh, current_shardings(state))


def run(mesh, steps=3):
    state, train_step = start(mesh)
    iterator, losses = toy.batches(batch_size=16), []
    for _ in range(steps):
        state, metrics = train_step(state, place_batch(next(iterator).arrays, mesh))
        losses.append((float(metrics["loss"]), float(metrics["grad_norm"])))
    return state, losses


@pytest.mark.slow
def test_eight_devices_with_parts_of_the_parameters_train_as_one(small_arrays_too):
    one, expected = run(data_mesh(1))
    state, losses = run(data_mesh(8, fsdp=4))
    np.testing.assert_allclose(losses, expected, rtol=2e-5)
    for name, leaf in named_leaves(state.params).items():
        np.testing.assert_allclose(leaf, named_leaves(one.params)[name], atol=2e-6)
        assert leaf.sharding.is_fully_replicated == (leaf.size < toy.WIDTH)


def compiled_collectives(mesh):
    """Those of the compiled step."""
    state, train_step = start(mesh)
    batch = place_batch(next(toy.batches(batch_size=24)).arrays, mesh)
    found = collectives(train_step.lower(state, batch).compile().as_text())
    assert found
    return found


def lengths(dims):
    """A shape up to transposition and axes of length 1, which compilers add and drop."""
    return tuple(sorted(length for length in dims if length > 1))


def shapes_of(found, *kinds):
    arrays = [array for kind, arrays in found if kind in kinds for array in arrays]
    return {lengths(shape) for dtype, shape in arrays if dtype == "f32"} - {()}


PARAMETERS = {lengths(leaf.shape) for leaf in jax.tree.leaves(toy.init_params())} - {()}


def test_data_parallelism_adds_up_gradients_and_gathers_nothing(small_arrays_too):
    found = compiled_collectives(data_mesh(8))
    assert {kind for kind, _ in found} == {"all-reduce"}
    assert shapes_of(found, "all-reduce") == PARAMETERS == {(4, 16), (16,)}


def test_fsdp_gathers_parameters_and_adds_up_gradients(small_arrays_too):
    found = compiled_collectives(data_mesh(8, fsdp=8))
    # Nothing with rows of the batch in it, 3 on a device: no activation is gathered.
    assert shapes_of(found, "all-gather") == PARAMETERS
    assert PARAMETERS <= shapes_of(found, "all-reduce", "reduce-scatter")


def bytes_on_a_device(tree):
    device = jax.devices()[0]
    return sum(
        shard.data.nbytes
        for leaf in jax.tree.leaves(tree)
        for shard in leaf.addressable_shards
        if shard.device == device
    )


def test_a_device_holds_its_part_of_parameters_moments_and_average():
    params = {"kernel": np.zeros((256, 512), np.float32), "bias": np.zeros(512, np.float32)}
    optimizer = make_optimizer(OPTIMIZER, params, 10)
    held = {}
    for fsdp in (1, 2, 8):
        state = init_state(params, optimizer, seed=0, mesh=data_mesh(8, fsdp=fsdp))
        held[fsdp] = bytes_on_a_device((state.params, state.opt_state))
    # Parameters, two moments and the average, plus the counts of three links of the chain.
    kernel, bias, counts = 4 * 256 * 512 * 4, 4 * 512 * 4, 3 * 4
    assert held == {fsdp: kernel / fsdp + bias + counts for fsdp in (1, 2, 8)}
