"""Parameters of a whole reader in parts: what devices send each other in its training step."""

import math
import re

import jax
import pytest
from flax import nnx

from experiments.benchmark.compiled import collectives
from experiments.benchmark.ours import bert_config
from experiments.benchmark.setting import PRESETS, Setting
from experiments.benchmark.tasks import TASKS
from hardem_jax import HardEM
from hardem_jax.models.encoders.bert import Bert
from hardem_jax.training.devices import mesh as mesh_module
from hardem_jax.training.devices.fsdp import gathering
from hardem_jax.training.devices.mesh import data_mesh, place_batch, state_shardings
from hardem_jax.training.optimizer import OptimizerConfig, make_optimizer
from hardem_jax.training.state import init_state, shardings_of
from hardem_jax.training.step import compile_train_step, make_train_step

SETTING = Setting(PRESETS["tiny"], rows=24, tokens=40, solutions=3)


@pytest.fixture
def compiled_step(monkeypatch):
    monkeypatch.setattr(mesh_module, "MIN_SPLIT_SIZE", 1000)  # all kernels of the tiny encoder
    task, mesh = TASKS["spans"], data_mesh(8, fsdp=4)
    config = bert_config(SETTING.sizes, SETTING.tokens)
    graphdef, params = nnx.split(task.model(Bert(config, rngs=nnx.Rngs(0))), nnx.Param)
    optimizer = make_optimizer(OptimizerConfig(), params, 10)
    state = init_state(params, optimizer, seed=0, mesh=mesh)
    step = make_train_step(gathering(task.make_loss(graphdef, HardEM()), mesh), optimizer)
    compiled = compile_train_step(step, mesh, shardings_of(state))
    batch = place_batch(task.batch(SETTING), mesh)
    return state_shardings(params, mesh), params, compiled.lower(state, batch).compile()


def test_parameters_are_gathered_once_and_no_activation_is_sent(compiled_step):
    shardings, params, compiled = compiled_step
    leaves = zip(jax.tree.leaves(params), jax.tree.leaves(shardings), strict=True)
    split = [x.shape for x, sharding in leaves if not sharding.is_fully_replicated]
    assert len(split) == 2 + 2 * 6  # words and positions; six kernels a layer
    found = collectives(compiled.as_text())
    gathered = found.pop("all-gather f32")
    elements = sum(math.prod(shape) for shape in split)
    assert gathered == {"arrays": len(split), "mib": pytest.approx(elements * 4 / 2**20)}
    # The rest adds up; nothing in it has the tokens of a device as an axis.
    assert {kind.partition(" ")[0] for kind in found} <= {"all-reduce", "reduce-scatter"}
    tokens = SETTING.rows // 8 * SETTING.tokens
    lines = [line for line in compiled.as_text().splitlines() if " all-reduce(" in line]
    assert lines and not any(re.search(rf"\b{tokens}\b,", line.split(" all-")[0]) for line in lines)
