"""Our training step against PyTorch's: ``python -m experiments.benchmark --help``.

One step is forward, loss over Z and selector loss, backward, clipping by the global norm and
AdamW, with dropout: `hardem_jax.training` on a `SpanReader`, and the same written for
`transformers` BertModel with SDPA, eager, through `torch.compile`, or compiled for CUDA graphs
("pytorch-graphs", the fastest on a GPU). Weights (random), batch, rates and hyperparameters are the
same, and losses and gradient norms of two steps without dropout must agree.

The variants take turns, each in a process of its own. Reported are medians over rounds and, round
by round, the speed relative to the faster PyTorch variant. CPU time, of all threads together, is
steadier on a shared machine. The first step includes compilation; peak memory is of the device on a
GPU, else of the whole process. `step_flops` says what is counted as a share of the data sheet.

Steps of all tasks have names of their own (the `benchmark` module of a task): what heads, losses
and Z cost. With ``--minutes``, those that are not among the variants are measured as well, one
after the other; building a variant, which includes compiling, is given up once `BUILDING` of the
minutes are over, and everything after `LATEST` of them.
"""

import contextlib
import dataclasses
import functools
import itertools
import math
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from rich.progress import track

from experiments.benchmark.steps import workers
from experiments.benchmark.steps.setting import STEPS, Setting, StepFlags, step_flops, step_tokens
from experiments.benchmark.steps.workers import PYTORCH, Worker, WorkerError
from experiments.report import Report, table
from hardem_jax.errors import InputError, require

T = TypeVar("T")
#: "ours" is that of spans. Each is measured on its own with `TrainStep.minutes`.
HEADS = tuple(name for name, step in STEPS.items() if name != "spans" and not step.variant)
# Flags offer the names that there are.
if TYPE_CHECKING:
    Variant = str
else:
    Variant = Literal[("ours", *PYTORCH, *HEADS)]
VARIANTS: tuple[Variant, ...] = ("ours", "pytorch", "pytorch-compile")
COLUMNS = {
    "tokens": "tokens",
    "variant": "variant",
    "examples\na second": ("examples_per_s", 1, 1),
    "tokens\na second": ("tokens_per_s", 1, 0),
    "milliseconds\na step": ("wall_s", 1000, 0),
    "speed, faster\nPyTorch = 1": ("speed_wall_s", 1, 2),
    "CPU milliseconds\na step": ("cpu_s", 1000, 0),
    "speed by\nCPU time": ("speed_cpu_s", 1, 2),
    "% of the\ndata sheet": ("mfu", 100, 1),
    "seconds of\nthe first step": ("first_step_s", 1, 1),
    "peak memory,\nMiB": ("peak_mib", 1, 0),
}
#: Shares of ``--minutes``.
BUILDING, LATEST = 0.7, 1.2
# Largest difference between our and PyTorch's loss or gradient norm, relative where above 1.
TOLERANCE = {"float32": 1e-4, "bfloat16": 5e-2}


@dataclasses.dataclass(frozen=True)
class TrainStep(StepFlags):
    """Measure complete training steps, ours and PyTorch's, in turns.

    Attributes:
        tokens: T, one or several.
        solutions: Z of the rows that have mentions.
        variants: what to measure in turns.
        rounds: turns of every variant, at most.
        steps: training steps in a turn.
        minutes: measure `variants`, then every other head on its own, each until its share of the
            minutes is over; what cannot be begun in time is left out. None: `variants` only.
    """

    tokens: tuple[int, ...] = (128, 300)
    solutions: int = 32
    variants: tuple[Variant, ...] = VARIANTS
    rounds: int = 10
    steps: int = 3
    minutes: float | None = None

    def __post_init__(self) -> None:
        require(self, "rounds", "steps", at_least=1)
        require(self, "minutes", at_least=0)
        if not self.variants or len(set(self.variants)) != len(self.variants):
            raise InputError(f"variants: expected distinct variants, found {self.variants}")
        if not self.tokens:
            raise InputError("tokens: expected at least one number, found none")
        self._settings(self.device)

    def _settings(self, device: str) -> list[Setting]:
        shared = {"solutions": self.solutions, "device": device}
        return [self.setting(tokens=tokens, **shared) for tokens in self.tokens]

    def run(self) -> None:
        report = Report(self, self.out)
        results, found = self._measured(report)
        rows = []
        for result in sorted(results, key=lambda result: result["tokens"]):
            for variant, figures in result["variants"].items():
                # What would help, if it says so.
                help = re.search(r"pip install '.*?'|time was over", figures.get("error", ""))
                row = {"variant": variant, "tokens": result["tokens"]}
                rows.append({**row, "examples_per_s": help[0] if help else "failed", **figures})
        given = {name for row in rows for name, value in row.items() if value is not None}
        columns = {
            name: form
            for name, form in COLUMNS.items()
            if (form if isinstance(form, str) else form[0]) in given
        }
        title = "One complete training step, medians over rounds (quartiles)"
        drawn = table(title, rows, columns, left=2)
        report.write({"device": found, "results": results}, drawn, *self._notes(found, results))

    def groups(self) -> list[tuple[Variant, ...]]:
        """Variants that take turns, one group after the other."""
        alone: list[tuple[Variant, ...]] = [(h,) for h in HEADS if h not in self.variants]
        return [self.variants, *([] if self.minutes is None else alone)]

    def _measured(self, report: Report) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The figures of all groups, which are saved one by one, and the device."""
        began, longest = time.monotonic(), 0.0
        from experiments.benchmark.steps.jax_steps import write_weights  # imports jax

        ends = began + (math.inf if self.minutes is None else 60 * self.minutes)
        with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
            # In a process of its own: one that has seen a device holds it.
            with Worker(Path(folder)) as worker:
                try:
                    found = worker(workers.find_device, self.device)
                except WorkerError as error:
                    raise InputError(error.args[0].removeprefix("InputError: ")) from None
            results: list[dict[str, Any]] = []
            pending = list(itertools.product(self.groups(), self._settings(found["device"])))
            left_out = []
            for index, (group, setting) in enumerate(pending):
                begins = time.monotonic()
                if longest and begins + longest > ends:
                    left_out.append(f"{', '.join(group)} ({setting.tokens} tokens)")
                    continue
                until = begins + (ends - begins) / (len(pending) - index)
                own = Path(folder) / str(index)
                own.mkdir()
                write_weights(setting, own)
                peak = found["peak_flops_per_s"]
                results.append(self._measure(group, setting, own, peak, until, ends - begins))
                report.save({"device": found, "results": results})
                longest = max(longest, results[-1]["least_s"])
        if left_out:
            print(f"left out, the minutes are over: {'; '.join(left_out)}")
        tried = [entry for result in results for entry in result["variants"].items()]
        errors = [f"{name}: {figures['error']}" for name, figures in tried if "error" in figures]
        if len(errors) == len(tried):
            raise InputError(f"nothing could be measured: {'; '.join(errors)}")
        return results, found

    def _measure(
        self,
        group: Sequence[Variant],
        setting: Setting,
        folder: Path,
        peak: float | None,
        until: float,
        left: float,
    ) -> dict[str, Any]:
        """A group at one length until this moment; one round at least if the time left suffices."""
        begins = time.monotonic()
        variants: dict[str, dict[str, Any]] = {}
        turns: dict[str, Worker] = {}
        libraries: dict[str, Any] = {}
        with contextlib.ExitStack() as stack:
            for variant in group:
                worker = stack.enter_context(Worker(folder, begins + BUILDING * left))
                variants[variant] = worker.attempt(workers.build, variant, setting, folder)
                if "error" not in variants[variant]:
                    libraries |= worker(workers.libraries)
                    turns[variant] = worker
                    worker.until = begins + LATEST * left
            result = {"tokens": setting.tokens, "libraries": libraries, "variants": variants}
            if not turns:
                return result | {"least_s": time.monotonic() - begins}
            check_agreement({name: variants[name]["without_dropout"] for name in turns}, setting)
            runs = {
                name: functools.partial(
                    worker.attempt, workers.run, name, self.steps, setting.device
                )
                for name, worker in turns.items()
            }
            built = time.monotonic()
            times = interleave(runs, self.rounds, f"{setting.tokens} tokens", until=until)
            round_s = (time.monotonic() - built) / len(next(iter(times.values())))
        for name, rounds in list(times.items()):
            if lost := [one for one in rounds if "error" in one]:
                variants[name] |= lost[0]
                del times[name]
        measured = {
            name: {measure: [one[measure] for one in rounds] for measure in rounds[0]}
            for name, rounds in times.items()
        }
        for variant in measured:
            variants[variant] |= summarize(variant, measured, setting, peak)
        return result | {"least_s": built - begins + round_s}  # with one round

    def _notes(self, found: Mapping[str, Any], results: Sequence[dict[str, Any]]) -> list[str]:
        """What must be known to read the table."""
        libraries = {k: v for result in results for k, v in result["libraries"].items()}
        lines = [
            f"{self.preset}, {self.dtype}, {self.rows} rows, |Z| = {self.solutions}, dropout "
            f"{self.dropout}; " + ", ".join(f"{name} {v}" for name, v in libraries.items()),
            f"device: {found['device']} ({found['kind']})",
        ]
        for result in results:
            for variant, found in result["variants"].items():
                compared = found.get("without_dropout", {}).get("loss")
                said = found.get("error") or f"losses of two steps without dropout {compared}"
                lines.append(f"{result['tokens']} tokens, {variant}: {said}")
        return lines


def summarize(
    variant: str,
    measured: Mapping[str, Mapping[str, list[Any]]],
    setting: Setting,
    peak: float | None = None,
) -> dict[str, Any]:
    """The figures of one variant, from ``wall_s``, ``cpu_s`` and ``peak_mib`` of all variants.

    Quartiles of seconds per step; examples per second; real tokens per second and MFU of one device
    (None for a model with an encoder of its own, MFU also in float32 or without ``peak``, the
    maker's operations per second for bf16); and the speed relative to the fastest PyTorch variant
    within rounds, None without one.
    """
    own = measured[variant]
    seconds = statistics.median(own["wall_s"])
    tokens = mfu = None
    step = STEPS["spans" if variant == "ours" or variant in PYTORCH else variant]
    if not step.own_encoder:
        read = dataclasses.replace(setting, shortest=1.0) if step.fills_rows else setting
        tokens = step_tokens(read) / seconds
        if peak and setting.dtype == "bfloat16":
            mfu = step_flops(setting) / seconds / peak
    result: dict[str, Any] = {
        "rounds": own,
        "peak_mib": own["peak_mib"][-1],
        "examples_per_s": setting.rows / seconds,
        "tokens_per_s": tokens,
        "mfu": mfu,
    }
    for measure in ("wall_s", "cpu_s"):
        theirs = [t[measure] for name, t in measured.items() if name in PYTORCH]
        fastest = min(theirs, key=statistics.median, default=None)
        result[measure] = quartiles(own[measure])
        result[f"speed_{measure}"] = fastest and quartiles(
            [theirs / ours for theirs, ours in zip(fastest, own[measure], strict=True)]
        )
    return result


def check_agreement(checks: Mapping[str, Mapping[str, list[float]]], setting: Setting) -> None:
    """Raises `RuntimeError` if a loss or norm of PyTorch's first steps differs from ours: then
    comparing their speed means nothing."""
    tolerance = TOLERANCE[setting.dtype]
    for variant in checks.keys() & PYTORCH.keys():
        for measure, values in checks.get("ours", {}).items():
            for mine, other in zip(values, checks[variant][measure], strict=True):
                if not abs(mine - other) <= tolerance * max(1.0, abs(mine)):
                    raise RuntimeError(
                        f"{setting.tokens} tokens: {measure} of ours is {mine}, of {variant} "
                        f"{other}; "
                        f"expected a difference of at most {tolerance}"
                    )


def interleave(
    turns: Mapping[str, Callable[[], T]],
    rounds: int,
    label: str = "measuring",
    *,
    until: float = math.inf,
) -> dict[str, list[T]]:
    """What each turn returns in every round, by the name of the turn.

    A round begins with another turn each time, so that load from other programs affects all alike.
    None but the first is begun that would end after `until`, on `time.monotonic`, if it took as
    long as the last.
    """
    names = list(turns)
    results: dict[str, list[T]] = {name: [] for name in names}
    for index in track(range(rounds), label, transient=True):
        begins = time.monotonic()
        first = index % len(names)
        for name in names[first:] + names[:first]:
            time.sleep(0.02)  # threads of the last library spin for a while before they sleep
            results[name].append(turns[name]())
        if 2 * time.monotonic() - begins > until:
            break
    return results


def quartiles(values: Sequence[float]) -> dict[str, float]:
    """Lower quartile, median and upper quartile; of one value, three times that value."""
    found = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return dict(zip(("low", "median", "high"), found, strict=True))
