"""Parameters of a whole reader in parts: what devices send each other in its training step."""

import math

import jax
import pytest
from flax import nnx

from hardem_jax import HardEM
from hardem_jax.training.devices import mesh as mesh_module
from hardem_jax.training.devices.fsdp import all_gather_params
from hardem_jax.training.devices.mesh import data_mesh, place_batch, state_shardings
from hardem_jax.training.optimizer import OptimizerConfig, make_optimizer
from hardem_jax.training.state import current_shardings, init_state
from hardem_jax.training.step import compile_train_step, make_train_step
from tests.hlo import collectives
from tests.task.toy import TASKS, make_bert

ROWS, TOKENS = 24, 40


@pytest.fixture
def compiled_step(monkeypatch):
    monkeypatch.setattr(mesh_module, "MIN_SPLIT_SIZE", 1000)  # all kernels of the tiny encoder
    task, mesh = TASKS["spans"], data_mesh(8, fsdp=4)
    graphdef, params = nnx.split(task.model(make_bert()), nnx.Param)
    optimizer = make_optimizer(OptimizerConfig(), params, 10)
    state = init_state(params, optimizer, seed=0, mesh=mesh)
    step = make_train_step(all_gather_params(task.make_loss(graphdef, HardEM()), mesh), optimizer)
    compiled = compile_train_step(step, mesh, current_shardings(state))
    batch = place_batch(task.batch(ROWS, TOKENS), mesh)
    return state_shardings(params, mesh), params, compiled.lower(state, batch).compile()


@pytest.mark.slow
def test_parameters_are_gathered_once_and_no_activation_is_sent(compiled_step):
    shardings, params, compiled = compiled_step
    leaves = zip(jax.tree.leaves(params), jax.tree.leaves(shardings), strict=True)
    split = [x.shape for x, sharding in leaves if not sharding.is_fully_replicated]
    assert len(split) == 2 + 2 * 6  # words and positions; six kernels a layer
    found = collectives(compiled.as_text())
    gathered = [array for kind, arrays in found if kind == "all-gather" for array in arrays]
    assert {dtype for dtype, _ in gathered} == {"f32"} and len(gathered) == len(split)
    assert sum(math.prod(x) for _, x in gathered) == sum(map(math.prod, split))
    # The rest adds up; nothing in it has the tokens of a device as an axis.
    others = [(kind, arrays) for kind, arrays in found if kind != "all-gather"]
    assert {kind for kind, _ in others} <= {"all-reduce", "reduce-scatter"}
    shapes = [shape for _, arrays in others for _, shape in arrays]
    assert shapes and not any(ROWS // 8 * TOKENS in shape for shape in shapes)
