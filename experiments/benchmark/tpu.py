"""The training step compiled for slices of TPUs that are not there: ``... benchmark.tpu --help``.

libtpu compiles for any topology on a host without a TPU (``pip install 'jax[tpu]'``). What the
program of one chip needs and does is then known before a slice is paid for: memory, operations, and
every collective with its bytes. Weights and batches are shapes only, so that a laptop compiles the
step of a thousand chips.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.progress import track

from experiments.benchmark.steps.setting import Preset, Setting, Task
from experiments.report import table, wide_console
from hardem_jax.cli.command import run_command
from hardem_jax.data.files import write_json
from hardem_jax.errors import InputError, require
from hardem_jax.models.config import Implementation
from hardem_jax.settings import to_json

if TYPE_CHECKING:
    from jax.sharding import Mesh

HEADS: tuple[Task, ...] = ("spans", "equations", "queries", "programs", "taggings", "naqanet")


class Chip(NamedTuple):
    """A generation of TPUs: GiB of HBM, 10^12 operations a second, 10^9 bytes a second of links."""

    memory_gib: float
    bf16_tflops: float
    ici_gbytes: float


# Google's pages of system architecture, cloud.google.com/tpu/docs/v5e and .../v5p.
CHIPS = {"v5e": Chip(16, 197, 200), "v5p": Chip(95, 459, 600)}


@dataclasses.dataclass(frozen=True)
class Tpu:
    """Compile the training step of every task for slices of TPUs, and say what a chip does.

    Attributes:
        topologies: generation and chips along each axis of the slice.
        tasks: "spans" of a reader, "equations" of a tagger, "queries" of SQLova, "programs",
            "taggings" of a reader of several spans, "naqanet" (which has the sizes that were
            published, whatever the preset).
        preset: size of the encoder; "tiny" only to see that everything runs.
        layers: of the encoder; None for the preset's number.
        rows: of the batch on each chip.
        tokens: T.
        solutions: Z.
        attention: what computes it, see `hardem_jax.models.ops.attention`.
        attention_dropout: on attention probabilities; kernels need 0.
        scan_layers: compile one layer and loop over it.
        accumulate: k, micro-batches of a step, each with this many rows.
        fsdp: chips that parameters and optimiser state are split over; 1 for copies on all.
        out: write the figures here, as JSON.
    """

    topologies: tuple[str, ...] = ("v5e:2x2", "v5e:16x16", "v5p:2x2x1", "v5p:4x8x8")
    tasks: tuple[Task, ...] = HEADS
    preset: Preset = "bert-base"
    layers: int | None = None
    rows: int = 32
    tokens: int = 300
    solutions: int = 32
    attention: tuple[Implementation, ...] = ("auto",)
    attention_dropout: float = 0.1
    scan_layers: bool = False
    accumulate: int = 1
    fsdp: int = 1
    out: Path | None = None

    def __post_init__(self) -> None:
        require(self, "accumulate", "fsdp", at_least=1)
        self._setting("spans")

    def _setting(self, task: Task) -> Setting:
        shared = ("preset", "layers", "rows", "tokens", "solutions", "attention_dropout")
        shared += ("scan_layers",)
        values = {name: getattr(self, name) for name in shared}
        return Setting(task=task, dtype="bfloat16", **values)

    def run(self) -> None:
        meshes = {name: slice_mesh(name, self.fsdp) for name in self.topologies}
        programs = list(itertools.product(self.tasks, meshes, self.attention))
        results = []
        for task, name, attention in track(programs, "compiling", transient=True):
            began = time.perf_counter()
            compiled, parameters = compiled_step(
                self._setting(task), meshes[name], self.accumulate, attention
            )
            figures = {"parameters": parameters, "compile_s": time.perf_counter() - began}
            program = {"task": task, "topology": name, "attention": attention}
            results.append(program | figures | describe(compiled))
            if self.out is not None:  # after each: a program takes minutes
                write_json(self.out, {"flags": to_json(self), "results": results})
        wide_console().print(
            table("One chip's training step", [*map(row, results)], COLUMNS, left=3)
        )


def slice_mesh(name: str, fsdp: int) -> Mesh:
    """A mesh as training has it over a slice that need not exist.

    Args:
        name: such as ``v5e:2x2``.
        fsdp: see `Tpu`.

    Raises:
        InputError: libtpu is not installed or knows no such slice, or `fsdp` does not divide it.
    """
    if name.partition(":")[0] not in CHIPS:
        raise InputError(f"--topologies: expected one of {', '.join(CHIPS)}:AxB, found {name!r}")
    from jax.experimental import topologies

    from hardem_jax.training.devices.mesh import mesh_over

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


def compiled_step(
    setting: Setting, mesh: Mesh, accumulate: int, attention: Implementation
) -> tuple[Any, int]:
    """The compiled step of hard EM, and its number of parameters; nothing is computed.

    Args:
        setting: ``rows`` are those of one chip.
        mesh: see `slice_mesh`.
        accumulate, attention: see `Tpu`.
    """
    import jax
    import jax.numpy as jnp
    from flax import nnx

    from experiments.benchmark.steps.jax_steps import make_encoder, uncompiled
    from experiments.benchmark.steps.tasks import TASKS
    from hardem_jax.objectives import HardEM
    from hardem_jax.training.devices.fsdp import all_gather_params
    from hardem_jax.training.devices.mesh import row_sharding, state_shardings
    from hardem_jax.training.state import TrainState
    from hardem_jax.training.step import compile_train_step

    task, dtype = TASKS[setting.task], jnp.dtype(setting.dtype)
    model = nnx.eval_shape(
        lambda: task.model(make_encoder(setting, dtype=dtype, attention=attention))
    )
    graphdef, params = nnx.split(model, nnx.Param)
    loss_fn = all_gather_params(task.make_loss(graphdef, HardEM()), mesh)
    step, optimizer = uncompiled(loss_fn, params, accumulate)

    def init(params: Any) -> TrainState:
        step = jnp.zeros((), jnp.int32)
        return TrainState(step, params, optimizer.init(params), jax.random.key(0))

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
    # Kernels are written for the kind of device that this mesh has.
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
        compiled = compile_train_step(step, mesh, shardings).lower(placed, batch).compile()
    return compiled, sum(math.prod(x.shape) for x in jax.tree.leaves(params))


def describe(compiled: Any) -> dict[str, Any]:
    """Memory, operations and collectives of one chip's program.

    Returns:
        ``memory_gib`` (the most at a time), ``flops`` as XLA counts them (the body of a loop once,
        which leaves out most of an LSTM, and nothing of a kernel), ``collectives`` and ``kernels``,
        see the functions of these names.
    """
    from hardem_jax.models.ops.attention import kernels

    memory = compiled.memory_analysis()
    held = memory.argument_size_in_bytes + memory.output_size_in_bytes
    held += memory.temp_size_in_bytes - memory.alias_size_in_bytes
    held += memory.generated_code_size_in_bytes
    return {
        "memory_gib": held / 2**30,
        "flops": compiled.cost_analysis()["flops"],
        "collectives": collectives(compiled.as_text()),
        "kernels": kernels(compiled.as_text()),
    }


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


def row(result: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of one task on one slice, for the table."""
    generation, _, shape = result["topology"].partition(":")
    chip, chips = CHIPS[generation], math.prod(map(int, shape.split("x")))
    entries = sorted(result["collectives"].items())
    # All bytes but the chip's own share go once around the ring, for a sum on all chips twice.
    sent = sum(
        e["mib"] * 2**20 * (2 if kind.startswith("all-reduce") else 1) for kind, e in entries
    )
    moved = (f"{entry['arrays']} {kind} ({entry['mib']:.1f})" for kind, entry in entries)
    return {
        **result,
        "chips": chips,
        "memory": f"{result['memory_gib']:.2f} of {chip.memory_gib:g}",
        "called": ", ".join(f"{n} {name}" for name, n in result["kernels"].items()) or "none",
        "moved": ", ".join(moved) or "none",
        "peak_ms": result["flops"] / chip.bf16_tflops / 1e9,
        "links_s": (chips - 1) / chips * sent / (chip.ici_gbytes * 1e9),
    }


COLUMNS = {
    "task": "task",
    "slice": "topology",
    "attention": "attention",
    "chips": "chips",
    "GiB of HBM": "memory",
    "TFLOP": ("flops", 1e-12, 2),
    "kernels": "called",
    "collectives: arrays (MiB)": "moved",
    "ms at peak": ("peak_ms", 1, 1),
    "ms of links": ("links_s", 1000, 1),
}


def main(argv: Sequence[str] | None = None) -> None:
    run_command(Tpu, prog="python -m experiments.benchmark.tpu", argv=argv)


if __name__ == "__main__":
    main()
