"""The training step that `experiments.benchmark.tpu` compiles for a slice that need not exist."""

from __future__ import annotations

import math
import os
import time
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.experimental import topologies
from jax.sharding import Mesh

from experiments.benchmark.compiled import describe
from experiments.benchmark.ours import OPTIMIZER_CONFIG, bert_config
from experiments.benchmark.setting import NUM_STEPS, Setting, sizes_of
from experiments.benchmark.tasks import STEPS
from experiments.benchmark.tpu import CHIPS
from hardem_jax.errors import InputError
from hardem_jax.models.config import Remat
from hardem_jax.models.encoders.bert import Bert
from hardem_jax.models.ops.attention import Implementation
from hardem_jax.objectives import HardEM
from hardem_jax.training.devices.fsdp import all_gather_params
from hardem_jax.training.devices.mesh import mesh_over, row_sharding, state_shardings
from hardem_jax.training.optimizer import learning_rate_schedule, make_optimizer
from hardem_jax.training.state import TrainState
from hardem_jax.training.step import compile_train_step, make_train_step

if TYPE_CHECKING:
    from experiments.benchmark.tpu import Tpu


def compiled_step(
    command: Tpu, task: str, mesh: Mesh, attention: Implementation, remat: Remat
) -> dict[str, Any]:
    """What the compiler says about a step: parameters, seconds, and what a chip does."""
    setting = Setting(
        *(
            sizes_of(command.preset, command.layers),
            command.rows,
            command.tokens,
            command.solutions,
        ),
        attention_dropout=command.attention_dropout,
        dtype=command.dtype,
        task=task,
    )
    step, state, batch = abstract_step(
        setting, mesh, command.accumulate, attention=attention, remat=remat
    )
    began = time.perf_counter()
    compiled = step.lower(state, batch).compile()
    seconds = time.perf_counter() - began
    parameters = sum(math.prod(x.shape) for x in jax.tree.leaves(state.params))
    return {"parameters": parameters, "compile_s": seconds} | describe(compiled)


def slice_mesh(name: str, fsdp: int) -> Mesh:
    """A mesh as training has it over a slice that need not exist.

    Args:
        name: such as ``v5e:2x2``.
        fsdp: see `Tpu`.

    Raises:
        InputError: libtpu is not installed or knows no such slice, or `fsdp` does not divide it.
    """
    generation = name.partition(":")[0]
    if generation not in CHIPS:
        raise InputError(f"--topologies: expected one of {', '.join(CHIPS)}:AxB, found {name!r}")
    # Compiling needs no machine of the cloud, whose metadata libtpu would otherwise look for, and
    # holds no device that another process could want.
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    try:
        topology = topologies.get_topology_desc(platform="tpu", topology_name=name)
    except (RuntimeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"{name}: cannot be compiled for (pip install 'jax[tpu]'): {reason}"
        ) from error
    return mesh_over(topology.devices, fsdp=fsdp)


def abstract_step(
    setting: Setting, mesh: Mesh, accumulate: int, **options: Any
) -> tuple[Any, TrainState, Any]:
    """The training step of hard EM, and shapes of its state and batch; nothing is computed.

    Args:
        setting: ``rows`` are those of one chip.
        mesh: see `slice_mesh`.
        accumulate: see `Tpu`.
        **options: of `Bert`.
    """
    task = STEPS[setting.task]
    config = bert_config(setting.sizes, setting.positions, **setting.dropout_rates)

    def make_model() -> nnx.Module:
        dtype = jnp.dtype(setting.dtype)
        return task.model(Bert(config, rngs=nnx.Rngs(0), dtype=dtype, **options))

    graphdef, params = nnx.split(nnx.eval_shape(make_model), nnx.Param)
    optimizer = make_optimizer(OPTIMIZER_CONFIG, params, NUM_STEPS)
    schedule = learning_rate_schedule(OPTIMIZER_CONFIG, NUM_STEPS)
    loss_fn = all_gather_params(task.make_loss(graphdef, HardEM()), mesh)
    step = make_train_step(loss_fn, optimizer, schedule, accumulate=accumulate)

    def init(params: Any) -> TrainState:
        step = jnp.zeros((), jnp.int32)
        return TrainState(step, params, optimizer.init(params), jax.random.key(setting.seed))

    state = jax.eval_shape(init, params)
    shardings = state_shardings(state, mesh)
    placed = jax.tree.map(lambda x, where: x.update(sharding=where), state, shardings)
    parts = () if accumulate == 1 else (accumulate,)
    split = row_sharding(mesh, len(parts))
    batch = {
        name: jax.ShapeDtypeStruct(
            (*parts, mesh.size * len(x), *x.shape[1:]), x.dtype, sharding=split
        )
        for name, x in task.batch(setting).items()
    }
    return compile_train_step(step, mesh, shardings), placed, batch
