"""The training step compiled for slices of TPUs that are not there: ``... benchmark.tpu --help``.

libtpu compiles for any topology on a host without a TPU (``pip install 'jax[tpu]'``). What the
program of one chip needs and does is then known before a slice is paid for: memory, operations, and
every collective with its bytes. Weights and batches are shapes only, so that a laptop compiles the
step of a thousand chips.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from rich.progress import track
from rich.table import Table

from experiments.benchmark.measure import wide_console
from hardem_jax.cli.command import flags, run_command
from hardem_jax.data.files import write_json
from hardem_jax.errors import require
from hardem_jax.models.config import Implementation, Remat

Task = Literal["spans", "equations", "queries", "naqanet"]


@dataclasses.dataclass(frozen=True)
class Chip:
    """A generation of TPUs.

    Attributes:
        memory_gib: HBM of a chip.
        bf16_tflops: peak of its matrix units, 10^12 operations a second.
        ici_gbytes: bandwidth of its links to other chips, all together, 10^9 bytes a second.
    """

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
        tasks: "spans" of a reader, "equations" of a tagger, "queries" of SQLova, "naqanet" (which
            has the sizes that were published, whatever the preset).
        preset: size of the encoder; "tiny" only to see that everything runs.
        layers: of the encoder; None for the preset's number.
        rows: of the batch on each chip.
        tokens: T.
        solutions: Z.
        dtype: of the computation in the encoder.
        attention: what computes it, see `hardem_jax.models.ops.attention`.
        attention_dropout: on attention probabilities; kernels need 0.
        remat: what the backward pass computes again, see `Bert`.
        accumulate: k, micro-batches of a step, each with this many rows.
        fsdp: chips that parameters and optimiser state are split over; 1 for copies on all.
        out: write the figures here, as JSON.
    """

    topologies: tuple[str, ...] = ("v5e:2x2", "v5e:16x16", "v5p:2x2x1", "v5p:4x8x8")
    tasks: tuple[Task, ...] = ("spans", "equations", "queries", "naqanet")
    preset: Literal["tiny", "minilm", "bert-base", "bert-large"] = "bert-base"
    layers: int | None = None
    rows: int = 32
    tokens: int = 300
    solutions: int = 32
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    attention: tuple[Implementation, ...] = ("auto",)
    attention_dropout: float = 0.1
    remat: tuple[Remat, ...] = ("none",)
    accumulate: int = 1
    fsdp: int = 1
    out: Path | None = None

    def __post_init__(self) -> None:
        require(self, "rows", "tokens", "solutions", at_least=2)
        require(self, "layers", "accumulate", "fsdp", at_least=1)
        require(self, "attention_dropout", at_least=0, below=1)

    def run(self) -> None:
        from experiments.benchmark.steps.tpu import compiled_step, slice_mesh  # imports jax

        meshes = {name: slice_mesh(name, self.fsdp) for name in self.topologies}
        programs = list(itertools.product(self.tasks, meshes, self.attention, self.remat))
        results = []
        for task, name, attention, remat in track(programs, "compiling", transient=True):
            program = {"task": task, "topology": name, "attention": attention, "remat": remat}
            figures = compiled_step(self, task, meshes[name], attention, remat)
            results.append(program | figures)
            if self.out is not None:  # after each: a program takes minutes
                write_json(self.out, {"flags": flags(self), "results": results})
        wide_console().print(table(results))


def table(results: Sequence[dict[str, Any]]) -> Table:
    """A row for each task and slice."""
    drawn = Table(title="One chip's training step")
    for name in ("task", "slice", "attention", "remat"):
        drawn.add_column(name)
    for name in (
        "chips",
        "GiB of HBM",
        "TFLOP",
        "kernels",
        "collectives: arrays (MiB)",
        "ms at peak",
        "ms of links",
    ):
        drawn.add_column(name, justify="right")
    for result in results:
        generation, _, shape = result["topology"].partition(":")
        chip, chips = CHIPS[generation], math.prod(map(int, shape.split("x")))
        moved = ", ".join(
            f"{entry['arrays']} {kind} ({entry['mib']:.1f})"
            for kind, entry in sorted(result["collectives"].items())
        )
        called = ", ".join(f"{count} {name}" for name, count in result["kernels"].items())
        # All bytes but the chip's own share go once around the ring, for a sum on all chips twice.
        sent = sum(
            entry["mib"] * 2**20 * (2 if kind.startswith("all-reduce") else 1)
            for kind, entry in result["collectives"].items()
        )
        links = (chips - 1) / chips * sent / (chip.ici_gbytes * 1e9)
        drawn.add_row(
            result["task"],
            result["topology"],
            result["attention"],
            result["remat"],
            str(chips),
            f"{result['memory_gib']:.2f} of {chip.memory_gib:g}",
            f"{result['flops'] / 1e12:.2f}",
            called or "none",
            moved or "none",
            f"{result['flops'] / chip.bf16_tflops / 1e9:.1f}",
            f"{1000 * links:.1f}",
        )
    return drawn


def main(argv: Sequence[str] | None = None) -> None:
    run_command(Tpu, prog="python -m experiments.benchmark.tpu", argv=argv)


if __name__ == "__main__":
    main()
