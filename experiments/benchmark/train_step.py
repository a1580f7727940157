"""Our training step against PyTorch's: ``python -m experiments.benchmark.train_step --help``.

One step is forward, loss over Z and selector loss, backward, clipping by the global norm and
AdamW, with dropout: `hardem_jax.training` on a `SpanReader`, and the same written for
`transformers` BertModel with SDPA, eager and through `torch.compile`. Weights (random), batch,
rates and hyperparameters are the same; before anything is measured, losses and gradient norms of
two steps without dropout must agree.

The variants take turns, each in a process of its own, for several rounds. Reported are medians
over rounds and, round by round, the speed relative to the faster PyTorch variant. Beside the wall
clock stands the CPU time of the process, all threads together: on a machine that others use too it
is the steadier figure, because waiting for a turn costs none. An example is a row of the batch. The
first step includes compilation; peak memory is of the device on a GPU, else of the whole process,
the libraries' own code included. Utilisation is the share of what a large matrix product reaches on
the same device, measured in the same rounds; `step_flops` says what is counted.

"pytorch-released" is the eager PyTorch step with the loss of the paper's release, a cross-entropy
of start and end for one candidate after another. "pytorch-unpadded", eager or compiled, computes
no padding: the texts of a batch lie in one row, with PyTorch's variable-length flash attention on
a GPU (which has no dropout) and SDPA text by text on a CPU; `--shortest` says how much that is.
"encoder" is our step without any head, "equations" and "queries" are those of the tagger and of
SQLova: what heads, losses and Z cost.
"""

import dataclasses
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from experiments.benchmark.measure import (
    Times,
    interleave,
    machine_line,
    measure_all,
    median_ratio,
    quartiles,
    wide_console,
    with_quartiles,
)
from experiments.benchmark.steps.setting import MATRIX_SIZE, BenchmarkFlags, Setting, step_flops
from experiments.benchmark.steps.worker import Worker, WorkerError, worker_pool
from hardem_jax.cli.command import run_command
from hardem_jax.errors import InputError, require

Variant = Literal[
    "ours",
    "pytorch",
    "pytorch-compile",
    "pytorch-released",
    "pytorch-unpadded",
    "pytorch-unpadded-compile",
    "encoder",
    "equations",
    "queries",
]
PRODUCT = "matrix product"
VARIANTS: tuple[Variant, ...] = ("ours", "pytorch", "pytorch-compile")
# Largest difference between our and PyTorch's loss or gradient norm, relative where above 1.
TOLERANCE = {"float32": 1e-4, "tf32": 1e-2, "bfloat16": 5e-2}


@dataclasses.dataclass(frozen=True)
class TrainStep(BenchmarkFlags):
    """Measure complete training steps, ours and PyTorch's, in turns.

    Attributes:
        solutions: Z of the rows that have mentions.
        variants: what to measure.
    """

    solutions: int = 32
    variants: tuple[Variant, ...] = VARIANTS

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "solutions", at_least=1)
        if not self.variants or len(set(self.variants)) != len(self.variants):
            raise InputError(f"variants: expected distinct variants, found {self.variants}")

    def run(self) -> None:
        settings = self.settings(self.solutions)
        content = measure_all(self, settings, self._measure)
        console = wide_console()
        console.print(table(content["results"]))
        for line in notes(content):
            console.print(line, highlight=False, markup=False)

    def _measure(self, setting: Setting, folder: Path) -> dict[str, Any]:
        """All variants at one length."""
        variants: dict[str, dict[str, Any]] = {}
        turns: dict[str, tuple[Worker, int]] = {}
        libraries: dict[str, Any] = {}
        with worker_pool(folder, device=self.device, threads=self.threads) as new_worker:
            for variant in self.variants:
                worker = new_worker()
                try:
                    check = worker.check(variant, setting)
                    first_step = worker.build(variant, variant, setting)
                    libraries |= worker.ask("describe")
                except WorkerError as error:
                    variants[variant] = {"error": str(error), "traceback": error.traceback}
                else:
                    variants[variant] = {"without_dropout": check, "first_step_s": first_step}
                    turns[variant] = worker, self.steps
            if not turns:
                said = "; ".join(f"{name}: {row['error']}" for name, row in variants.items())
                raise InputError(f"nothing could be measured: {said}")
            check_agreement({name: variants[name]["without_dropout"] for name in turns}, setting)
            # Beside our step; on a GPU on its own, for its matrices are not memory of the step.
            beside = "ours" in turns and self.device == "cpu"
            product = turns["ours"][0] if beside else new_worker()
            product.build(PRODUCT, PRODUCT, setting)
            turns[PRODUCT] = product, self.steps
            times = interleave(turns, rounds=self.rounds, label=f"T={setting.tokens}")
        peak = 2 * MATRIX_SIZE[setting.device] ** 3 / min(times.pop(PRODUCT).wall_s)
        for variant in times:
            variants[variant] |= summarize(variant, times, setting, peak)
        return {
            "tokens": setting.tokens,
            "libraries": libraries,
            "matrix_product_flops_per_s": peak,
            "variants": variants,
        }


def summarize(
    variant: str, times: dict[str, Times], setting: Setting, peak: float
) -> dict[str, Any]:
    """The figures of one variant.

    Args:
        variant: which.
        times: of all variants.
        setting: of the step.
        peak: operations per second of a large matrix product.

    Returns:
        Quartiles of seconds per step; examples and tokens per second and utilisation, from the
        median; and the speed relative to the fastest PyTorch variant, within rounds (None without
        one).
    """
    own = times[variant]
    result: dict[str, Any] = {"rounds": dataclasses.asdict(own), "peak_mib": own.peak_mib}
    seconds = statistics.median(own.wall_s)
    result["examples_per_s"] = setting.rows / seconds
    result["tokens_per_s"] = setting.rows * setting.tokens / seconds
    flops = step_flops(setting.sizes, setting.rows, setting.tokens)
    result["utilisation"] = flops / seconds / peak
    for measure in ("wall_s", "cpu_s"):
        theirs = [getattr(t, measure) for name, t in times.items() if name.startswith("pytorch")]
        fastest = min(theirs, key=statistics.median, default=None)
        mine = getattr(own, measure)
        result[measure] = quartiles(mine)
        result[f"speed_{measure}"] = None if fastest is None else median_ratio(fastest, mine)
    return result


def table(results: Sequence[dict[str, Any]]) -> Table:
    """Medians, with quartiles where there is room for them."""
    result = Table(title="One complete training step, medians over rounds (quartiles)")
    for name in ("T", "variant"):
        result.add_column(name)
    for name in (
        *("examples/s", "tokens/s", "utilisation,\n%"),
        *("ms per step", "speed relative to\nfaster PyTorch", "CPU ms\nper step"),
        *("the same,\nCPU time", "first\nstep, s", "peak\nMiB"),
    ):
        result.add_column(name, justify="right")
    for measured in results:
        for variant, row in measured["variants"].items():
            head = (str(measured["tokens"]), variant)
            if "error" in row:
                result.add_row(*head, "failed")
                continue
            result.add_row(
                *head,
                f"{row['examples_per_s']:.1f}",
                f"{row['tokens_per_s']:,.0f}",
                f"{100 * row['utilisation']:.0f}",
                with_quartiles(row["wall_s"], factor=1000, digits=0),
                with_quartiles(row["speed_wall_s"], factor=1, digits=2),
                f"{1000 * row['cpu_s']['median']:.0f}",
                with_quartiles(row["speed_cpu_s"], factor=1, digits=2),
                f"{row['first_step_s']:.1f}",
                "?" if row["peak_mib"] is None else f"{row['peak_mib']:.0f}",
            )
        result.add_section()
    return result


def notes(content: dict[str, Any]) -> list[str]:
    """What must be known to read the table."""
    flags_used = content["flags"]
    libraries = {k: v for result in content["results"] for k, v in result["libraries"].items()}
    lines = [
        machine_line(content["machine"]),
        f"{flags_used['preset']}, {flags_used['dtype']}, {flags_used['rows']} rows, "
        f"|Z| = {flags_used['solutions']}, dropout {flags_used['dropout']}; "
        + ", ".join(f"{name} {version}" for name, version in libraries.items()),
    ]
    for result in content["results"]:
        peak = result["matrix_product_flops_per_s"] / 1e12
        lines.append(f"T={result['tokens']}: a large matrix product reaches {peak:.3f} TFLOP/s")
        for variant, row in result["variants"].items():
            said = f"T={result['tokens']}, {variant}: "
            if "error" in row:
                lines.append(f"{said}failed, {row['error']}")
            else:
                losses = " ".join(f"{loss:.6f}" for loss in row["without_dropout"]["loss"])
                lines.append(f"{said}losses of the first steps without dropout {losses}")
    return lines


def check_agreement(checks: dict[str, dict[str, list[float]]], setting: Setting) -> None:
    """Both must compute the same thing, or comparing their speed means nothing.

    Args:
        checks: losses and gradient norms of the first steps, by variant.
        setting: of all of them.

    Raises:
        RuntimeError: if one of PyTorch's differs from ours by more than `TOLERANCE`.
    """
    kind = "tf32" if setting.tf32 and setting.dtype == "float32" else setting.dtype
    for variant, theirs in checks.items():
        if not variant.startswith("pytorch"):
            continue
        for measure, values in checks.get("ours", {}).items():
            for mine, other in zip(values, theirs[measure], strict=True):
                if not abs(mine - other) <= TOLERANCE[kind] * max(1.0, abs(mine)):
                    raise RuntimeError(
                        f"T={setting.tokens}: {measure} of ours is {mine}, of {variant} {other}; "
                        f"expected a difference of at most {TOLERANCE[kind]}"
                    )


def main(argv: Sequence[str] | None = None) -> None:
    run_command(TrainStep, prog="python -m experiments.benchmark.train_step", argv=argv)


if __name__ == "__main__":
    main()
