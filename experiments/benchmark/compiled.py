"""The training step compiled for TPUs and GPUs that are not there: ``benchmark.compiled --help``.

libtpu compiles for any slice on a host without a TPU (``pip install 'jax[tpu]'``), and JAX's plugin
for CUDA for a GPU that is described to it (``pip install 'jax[cuda13]'``; ``JAX_PLATFORMS=cpu``).
Weights and batches are shapes only, so that a laptop compiles the step of a thousand chips.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from rich.progress import track

from experiments.benchmark.steps.setting import STEPS, Preset, Setting, Task
from experiments.report import print_whole, table
from hardem_jax.cli.command import run_command
from hardem_jax.data.files import check_writable, write_json
from hardem_jax.encoders.config import Implementation
from hardem_jax.errors import InputError, require
from hardem_jax.settings import to_json

if TYPE_CHECKING:
    from jax.sharding import Mesh

HEADS: tuple[Task, ...] = tuple(name for name, step in STEPS.items() if not step.variant)


class Chip(NamedTuple):
    """A generation of chips: GiB of HBM, 10^12 operations and 10^9 bytes of HBM a second, and 10^9
    bytes a second of links between chips, in one direction."""

    memory_gib: float
    bf16_tflops: float
    hbm_gbytes: float
    link_gbytes: float


# Google's pages of system architecture, docs.cloud.google.com/tpu/docs/v5e, .../v5p and .../v6e;
# NVIDIA's data sheets of the SXM boards.
CHIPS = {
    "v5e": Chip(16, 197, 819, 200),
    "v5p": Chip(95, 459, 2765, 600),
    "v6e": Chip(32, 918, 1638, 400),
    "h100": Chip(80, 989, 3350, 450),
    "h200": Chip(141, 989, 4800, 450),
}
GPUS = ("h100", "h200")
# What XLA asks about a GPU. Both have the same chip, beside different memories.
_HOPPER = Path(__file__).with_name("hopper.textproto").read_text("utf-8")


@dataclasses.dataclass(frozen=True)
class Compiled:
    """Compile the training step of every task for TPUs or GPUs, and say what a chip does.

    Attributes:
        topologies: generation and chips along each axis of TPUs, or "h100" or "h200" for one GPU.
        tasks: whose steps, by the names of the benchmark ("naqanet" has the sizes that
            were published, whatever the preset).
        preset: size of the encoder; "tiny" only to see that everything runs.
        layers: of the encoder; None for the preset's number.
        rows: of the batch on each chip.
        tokens: T.
        shortest: length of the shortest text as a share of T.
        packed_tokens: length of the rows into which texts are packed; None pads them.
        solutions: Z.
        attention: what computes it, see `hardem_jax.encoders.ops.attention`.
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
    shortest: float = 1.0
    packed_tokens: int | None = None
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
        shared += ("scan_layers", "shortest", "packed_tokens")
        values = {name: getattr(self, name) for name in shared}
        return Setting(task=task, dtype="bfloat16", **values)

    def run(self) -> None:
        if self.out is not None:
            check_writable(self.out)
        meshes = {name: slice_mesh(name, self.fsdp) for name in self.topologies}
        programs = list(itertools.product(self.tasks, meshes, self.attention))
        results = []
        for task, name, attention in track(programs, "compiling", transient=True):
            began = time.perf_counter()
            step = compiled_step(self._setting(task), meshes[name], self.accumulate, attention)
            program = {"task": task, "topology": name, "attention": attention}
            found = describe(*step, gpu=CHIPS[name] if name in GPUS else None)
            results.append({**program, "compile_s": time.perf_counter() - began, **found})
            if self.out is not None:  # after each: a program takes minutes
                write_json(self.out, {"flags": to_json(self), "results": results})
        print_whole(table("One chip's training step", [*map(row, results)], COLUMNS, left=3))


def slice_mesh(name: str, fsdp: int) -> Mesh:
    """A mesh as training has it over chips that need not exist, such as ``v5e:2x2`` or ``h200``."""
    generation, _, shape = name.partition(":")
    if generation not in CHIPS or (generation in GPUS) == bool(shape):
        tpus = ", ".join(f"{tpu}:AxB" for tpu in CHIPS if tpu not in GPUS)
        raise InputError(f"--topologies: expected one of {tpus}, {', '.join(GPUS)}, found {name!r}")
    from jax.experimental import topologies

    from hardem_jax.training.mesh import mesh_over

    # Compiling needs no machine of the cloud, whose metadata libtpu would otherwise look for, and
    # holds no device that another process could want.
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
    asked: dict[str, Any] = {"platform": "tpu", "topology_name": name}
    if generation in GPUS:
        chip = CHIPS[generation]
        target = _HOPPER.format(
            name=generation.upper(),
            memory_bandwidth=int(chip.hbm_gbytes * 1e9),
            device_memory_size=int(chip.memory_gib * 2**30),
        )
        asked = {"platform": "cuda", "topology": "1x1x1", "target_config": target}
    try:
        topology = topologies.get_topology_desc(**asked)
    except (RuntimeError, ValueError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        package = f"jax[{'cuda13' if generation in GPUS else 'tpu'}]"
        raise InputError(
            f"{name}: cannot be compiled for (pip install '{package}'): {reason}"
        ) from error
    return mesh_over(topology.devices, fsdp=fsdp)


def compiled_step(
    setting: Setting, mesh: Mesh, accumulate: int, attention: Implementation
) -> tuple[Any, int]:
    """The compiled step of hard EM, and its number of parameters; nothing is computed.

    Rows of the setting are those of one chip.
    """
    import jax
    import jax.numpy as jnp
    from flax import nnx

    from experiments.benchmark.steps.jax_steps import make_encoder, step_batch, uncompiled
    from hardem_jax.objectives import HardEM
    from hardem_jax.training.fsdp import all_gather_params
    from hardem_jax.training.mesh import is_gpu, row_sharding, state_shardings
    from hardem_jax.training.state import TrainState
    from hardem_jax.training.step import compile_train_step

    task, dtype = STEPS[setting.task], jnp.dtype(setting.dtype)
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
        for name, x in step_batch(setting).items()
    }
    # For packed rows JAX asks the GPU at hand whether it is new enough, and none need be at hand.
    asks = "jax._src.cudnn.fused_attention_stablehlo.check_compute_capability"
    asked = is_gpu(mesh) and setting.packed_tokens is not None
    hopper = mock.patch(asks, lambda _: True) if asked else contextlib.nullcontext()
    # Kernels are written for the kind of device that this mesh has.
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh), hopper:
        lowered = compile_train_step(step, mesh, shardings).lower(placed, batch)
        # Choosing the fastest of several kernels would need the GPU.
        options = {"xla_gpu_autotune_level": 0} if is_gpu(mesh) else None
        compiled = lowered.compile(compiler_options=options)
    return compiled, sum(math.prod(x.shape) for x in jax.tree.leaves(params))


def describe(compiled: Any, parameters: int, *, gpu: Chip | None) -> dict[str, Any]:
    """Memory (the most at a time), operations, bytes and collectives of one chip's program.

    On TPUs ``flops`` and ``num_bytes`` are what XLA counts (the body of a loop once, which leaves
    out most of an LSTM, and nothing of a kernel); on GPUs bytes are those of ``by_kind``, see
    `kernels_by_kind`, and ``flops`` is None.
    """
    from hardem_jax.encoders.ops.attention import kernels

    memory = compiled.memory_analysis()
    held = memory.argument_size_in_bytes + memory.output_size_in_bytes
    held += memory.temp_size_in_bytes - memory.alias_size_in_bytes
    held += memory.generated_code_size_in_bytes
    text, cost = compiled.as_text(), compiled.cost_analysis()
    by_kind = kernels_by_kind(text, gpu) if gpu else {}
    return {
        "parameters": parameters,
        "memory_gib": held / 2**30,
        "flops": None if gpu else cost["flops"],
        "num_bytes": total(by_kind).num_bytes if by_kind else cost["bytes accessed"],
        "by_kind": by_kind,
        "collectives": collectives(text),
        "kernels": kernels(text),
    }


COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?([\w.-]+) = (\(.*?\)|\S+) ([\w-]+)\((.*)$")
SHAPE = re.compile(r"\b(pred|[a-z]+\d+)\[([\d,]*)\]")
_BITS = re.compile(r"\d+")
_OPERAND = re.compile(r"%([\w.-]+)")
_CALLED = re.compile(r"\b(?:calls|to_apply|body|condition)=%?([\w.-]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_TARGET = re.compile(r'custom_call_target="([^"]+)"')
_EPILOGUE = re.compile(r'"epilogue":"(\w+)"')  # what a product of cuBLAS computes at its end
_SUMMED = re.compile(r'"lhs_contracting_dimensions":\["(\d+)"')
_OWN = re.compile(r'op_name="[^"]*?(\w+)\)*/pallas_call"')
#: They move nothing: views of other arrays, and the second half of what runs beside other kernels.
_FREE = {"parameter", "get-tuple-element", "tuple", "bitcast", "constant", "after-all"}
_FREE |= {"fusion-done", "copy-done", "async-done", "partition-id"}
_CALLS = {"while", "call", "conditional"}
_SLICING = {"slice", "dynamic-slice", "gather", "dynamic-update-slice"}

_COLLECTIVES = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
# `%x = SHAPE all-reduce(...)`; of an asynchronous pair only the start is counted.
_COLLECTIVE = re.compile(rf"= (\(.*?\)|\S+) ({_COLLECTIVES})(-start)?\(")
# TPUs write one asynchronous collective into up to three fusions: begun, waited for, and beside
# what is computed meanwhile.
_ASYNCHRONOUS = re.compile(r"channel_id=(\d+).*chain_id=\"(\d+)\"")
_LOOP_BODY = re.compile(r"\bbody=%?([\w.-]+)")


def collectives(hlo: str) -> dict[str, dict[str, float]]:
    """Kind of collective and dtype -> how many arrays there are in a program, and their MiB.

    Those in the body of a loop are counted once, under a name of their own.
    """
    found: dict[str, dict[str, float]] = {}
    seen, bodies = set(), set(_LOOP_BODY.findall(hlo))
    of_lines = ((name, line) for name, own in _computations(hlo)[1].items() for line in own)
    for computation, line in of_lines:
        if not (collective := _COLLECTIVE.search(line)):
            continue
        shapes, kind, begun = collective.groups()
        if pair := _ASYNCHRONOUS.search(line):
            if (kind, *pair.groups()) in seen:
                continue
            seen.add((kind, *pair.groups()))
        if computation.startswith("all-reduce-scatter"):  # how TPUs write it: a sum, then a slice
            kind = "reduce-scatter"
        arrays = SHAPE.findall(shapes)
        if begun and kind != "all-reduce":  # a tuple of operands, results and scalars of the device
            arrays = [(dtype, dims) for dtype, dims in arrays if dims]
            arrays = arrays[len(arrays) // 2 :]
        for dtype, dims in arrays:
            name = f"{kind} {dtype}" + (" in a loop" if computation in bodies else "")
            entry = found.setdefault(name, {"arrays": 0, "mib": 0.0})
            entry["arrays"] += 1
            entry["mib"] += array_bytes(f"{dtype}[{dims}]") / 2**20
    return found


class Kernels(NamedTuple):
    """How many kernels, the bytes that they read and write together, and a model of their time.

    A kernel takes 2 microseconds and the longer of its bytes and its operations, at the rates that
    kernels reach on the one card that was profiled (`_REACHED`): a guide, no measurement.
    """

    count: float = 0
    num_bytes: float = 0
    seconds: float = 0

    def __add__(self, other: Kernels) -> Kernels:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Kernels(*map(sum, zip(self, other, strict=True)))


def array_bytes(shapes: str) -> int:
    """Bytes of all arrays of an HLO shape, such as ``(f32[4,2]{1,0}, bf16[8], pred[])``."""
    found = 0
    for dtype, dims in SHAPE.findall(shapes):
        bits = _BITS.search(dtype)
        width = int(bits[0]) / 8 if bits else 1
        found += math.ceil(width * math.prod(int(d) for d in dims.split(",") if d))
    return found


# Shares of the data sheet's rates of memory, of products and, by cuDNN's attention, of products.
_REACHED = {"memory": 0.83, "products": 0.63, "attention": 0.35}
_LAUNCH_S = 2e-6


def _operations_s(kind: str, line: str, operands: list[str], result: str, chip: Chip) -> float:
    """Seconds of the products of cuBLAS and of cuDNN's attention; 0 of all else."""
    if "matmul" not in kind and "fmha" not in kind:
        return 0.0
    dims, (dtype, left) = SHAPE.findall(result)[0][1], SHAPE.findall(operands[0])[0]
    size = math.prod(map(int, dims.split(",")))
    if "fmha" in kind:  # of [T, T], two forward and five backward
        rate, products, summed = "attention", 5 if "Backward" in kind else 2, dims.split(",")[2]
    else:
        axis = int(_SUMMED.findall(line)[0])
        rate, products, summed = "products", 1, left.split(",")[axis]
    # Products of float32 are computed in TF32, half as fast.
    share = _REACHED[rate] / (2 if dtype == "f32" else 1)
    return 2 * products * size * int(summed) / (share * chip.bf16_tflops * 1e12)


def kernels_by_kind(hlo: str, chip: Chip) -> dict[str, Kernels]:
    """Kind of kernel -> how many run in a GPU's program, and the bytes that they read and write.

    Kinds are opcodes; of a fusion the name of what it computes, without numbers; of a call of a
    library its target; of a kernel of one's own its name. The body of a loop counts as often as it
    runs. Of an array that a kernel slices, or writes a slice into, the slice counts.
    """
    found: dict[str, Kernels] = {}
    entry, computations = _computations(hlo)
    _count(entry, 1, computations, chip, found)
    return found


def _computations(hlo: str) -> tuple[str, dict[str, list[str]]]:
    """The name of the computation that a program begins with, and the lines of each."""
    computations: dict[str, list[str]] = {}
    entry, lines = "", []
    for line in hlo.splitlines():
        if header := COMPUTATION.match(line):
            lines = computations[header[1]] = []
            entry = header[1] if line.startswith("ENTRY") else entry
        else:
            lines.append(line)
    return entry, computations


def _count(
    name: str,
    times: int,
    computations: Mapping[str, list[str]],
    chip: Chip,
    found: dict[str, Kernels],
) -> None:
    shapes: dict[str, str] = {}
    for line in computations[name]:
        if not (match := _INSTRUCTION.match(line)):
            continue
        result, shape, opcode, rest = match.groups()
        shapes[result] = shape
        called = _CALLED.findall(line)
        if opcode in _CALLS:
            trips = _TRIPS.search(line) if opcode == "while" else None
            for inner in called:
                _count(inner, times * (int(trips[1]) if trips else 1), computations, chip, found)
        elif opcode not in _FREE:
            target = _TARGET.search(line)
            kind = called[0] if opcode.startswith("fusion") else target[1] if target else opcode
            kind = "product (Triton)" if "gemm_fusion" in kind else re.sub(r"[\d._]+$", "", kind)
            if own := _OWN.search(line):
                kind = own[1]
            if epilogue := _EPILOGUE.search(line):
                kind += f" {epilogue[1]}"
            operands = [shapes.get(x, "") for x in _OPERAND.findall(rest.split("), ")[0])]
            if opcode.endswith("-start"):  # a tuple of operands, result and scalars of the device
                shape = shape.removeprefix("((").partition("), ")[2] or shape
            shape = shape.partition(", s8[")[0]  # room that cuBLAS may work in
            read, kept = _read(computations.get(called[0], ()) if called else ())
            moved = array_bytes(shape) - kept
            for number, whole in enumerate(map(array_bytes, operands)):
                moved += min(whole, read.get(number, whole))
            seconds = _operations_s(kind, line, operands, shape, chip)
            seconds = max(seconds, moved / (_REACHED["memory"] * chip.hbm_gbytes * 1e9))
            kernel = Kernels(times, times * moved, times * (seconds + _LAUNCH_S))
            found[kind] = found.get(kind, Kernels()) + kernel


def _read(lines: Iterable[str]) -> tuple[Mapping[Any, int], int]:
    """Bytes that a fusion reads of each operand, by number, counted anew for each use; and bytes of
    its results that stay what they were, but for a slice."""
    numbers, sizes, read, kept = {}, {}, Counter(), 0
    for match in filter(None, map(_INSTRUCTION.match, lines)):
        result, shape, opcode, rest = match.groups()
        size = sizes[result] = array_bytes(shape)
        operands = _OPERAND.findall(rest.split("), ")[0])
        if opcode == "parameter":
            numbers[result] = int(rest.partition(")")[0])
        elif opcode == "bitcast" and operands[0] in numbers:
            numbers[result] = numbers[operands[0]]
        else:
            read.update({numbers.get(x): sizes.get(x, 0) for x in operands[opcode in _SLICING :]})
            if opcode == "dynamic-update-slice" and operands[0] in numbers:
                read[numbers[operands[0]]] += 0
                kept += size - sizes[operands[1]]
            elif opcode in _SLICING:
                read[numbers.get(operands[0])] += size
    return read, kept


def total(kinds: Mapping[str, Kernels]) -> Kernels:
    """All kinds together."""
    return sum(kinds.values(), start=Kernels())


def row(result: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of one task on one slice, for the table."""
    generation, _, shape = result["topology"].partition(":")
    chip, chips = CHIPS[generation], math.prod(map(int, shape.split("x"))) if shape else 1
    entries = sorted(result["collectives"].items())
    # All bytes but the chip's own share go once around the ring, for a sum on all chips twice.
    sent = sum(
        e["mib"] * 2**20 * (2 if kind.startswith("all-reduce") else 1) for kind, e in entries
    )
    moved = (f"{entry['arrays']} {kind} ({entry['mib']:.1f})" for kind, entry in entries)
    kernels = total(result["by_kind"])
    return {
        **result,
        "count": kernels.count or None,
        "model_ms": kernels.seconds or None,
        "memory_ms": result["num_bytes"] / chip.hbm_gbytes / 1e6,
        "chips": chips,
        "memory": f"{result['memory_gib']:.2f} of {chip.memory_gib:g}",
        "called": ", ".join(f"{n} {name}" for name, n in result["kernels"].items()) or "none",
        "moved": ", ".join(moved) or "none",
        "peak_ms": result["flops"] and result["flops"] / chip.bf16_tflops / 1e9,
        "links_s": (chips - 1) / chips * sent / (chip.link_gbytes * 1e9),
    }


COLUMNS = {
    "task": "task",
    "slice": "topology",
    "attention": "attention",
    "chips": "chips",
    "GiB of HBM": "memory",
    "TFLOP": ("flops", 1e-12, 2),
    "GB": ("num_bytes", 1e-9, 1),
    "kernels": ("count", 1, 0),
    "ms by the model": ("model_ms", 1000, 1),
    "of attention": "called",
    "collectives: arrays (MiB)": "moved",
    "ms at peak": ("peak_ms", 1, 1),
    "ms of HBM": ("memory_ms", 1, 1),
    "ms of links": ("links_s", 1000, 1),
}


if __name__ == "__main__":
    run_command(Compiled, prog="python -m experiments.benchmark.compiled")
