"""The training step that `experiments.benchmark.tpu` compiles for a slice that need not exist."""

from __future__ import annotations

import math
import os
import re
import time
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.experimental import topologies
from jax.sharding import Mesh

from experiments.benchmark.steps.ours import OPTIMIZER_CONFIG, bert_config
from experiments.benchmark.steps.setting import NUM_STEPS, Setting, sizes_of
from experiments.benchmark.steps.tasks import STEPS
from experiments.benchmark.tpu import CHIPS
from hardem_jax.errors import InputError
from hardem_jax.models.config import Remat
from hardem_jax.models.encoders.bert import Bert
from hardem_jax.models.ops.attention import Implementation, kernels
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


_COLLECTIVES = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
# `%x = SHAPE all-reduce(...)`; of an asynchronous pair only the start is counted.
_COLLECTIVE = re.compile(rf"= (\(.*?\)|\S+) ({_COLLECTIVES})(-start)?\(")
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$")
# TPUs write one asynchronous collective into up to three fusions: begun, waited for, and beside
# what is computed meanwhile.
_ASYNCHRONOUS = re.compile(r"channel_id=(\d+).*chain_id=\"(\d+)\"")
_LOOP_BODY = re.compile(r"\bbody=%?([\w.-]+)")
_SHAPE = re.compile(r"\b(pred|[a-z]+\d+)\[([\d,]*)\]")
_BITS = re.compile(r"\d+")


def describe(compiled: Any) -> dict[str, Any]:
    """Memory, operations and collectives of one chip's program.

    Returns:
        ``memory_gib`` (the most at a time), ``flops`` as XLA counts them (the body of a loop once,
        which leaves out most of an LSTM, and nothing of a kernel), ``collectives`` and ``kernels``,
        see the functions of these names.
    """
    memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
    held = memory.argument_size_in_bytes + memory.output_size_in_bytes
    held += memory.temp_size_in_bytes - memory.alias_size_in_bytes
    held += memory.generated_code_size_in_bytes
    return {
        "memory_gib": held / 2**30,
        "flops": cost["flops"],
        "collectives": collectives(compiled.as_text()),
        "kernels": kernels(compiled.as_text()),
    }


def collectives(hlo: str) -> dict[str, dict[str, float]]:
    """Kind of collective and dtype -> how many arrays there are in a program, and their MiB.

    Those in the body of a loop are counted once, under a name of their own.

    Example:
        >>> collectives("%r = (f32[256,1024]{1,0}, f32[4]{0}) all-reduce(%a, %b), to_apply=%add")
        {'all-reduce f32': {'arrays': 2, 'mib': 1.0000152587890625}}
    """
    found: dict[str, dict[str, float]] = {}
    seen, computation, bodies = set(), "", set(_LOOP_BODY.findall(hlo))
    for line in hlo.splitlines():
        if header := _COMPUTATION.match(line):
            computation = header[1]
        if not (collective := _COLLECTIVE.search(line)):
            continue
        shapes, kind, begun = collective.groups()
        if pair := _ASYNCHRONOUS.search(line):
            if (kind, *pair.groups()) in seen:
                continue
            seen.add((kind, *pair.groups()))
        if computation.startswith("all-reduce-scatter"):  # how TPUs write it: a sum, then a slice
            kind = "reduce-scatter"
        arrays = _SHAPE.findall(shapes)
        if begun and kind != "all-reduce":  # a tuple of operands, results and scalars of the device
            arrays = [(dtype, dims) for dtype, dims in arrays if dims]
            arrays = arrays[len(arrays) // 2 :]
        for dtype, dims in arrays:
            name = f"{kind} {dtype}" + (" in a loop" if computation in bodies else "")
            entry = found.setdefault(name, {"arrays": 0, "mib": 0.0})
            entry["arrays"] += 1
            entry["mib"] += _num_bytes(dtype, dims) / 2**20
    return found


def _num_bytes(dtype: str, dims: str) -> float:
    bits = _BITS.search(dtype)
    return math.prod(int(d) for d in dims.split(",") if d) * (int(bits[0]) / 8 if bits else 1)
