"""Turns, and what is made of the times."""

import dataclasses
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from experiments.benchmark.steps.setting import BenchmarkFlags, Setting
from experiments.benchmark.steps.worker import Worker
from hardem_jax.cli.command import flags
from hardem_jax.data.files import write_json


@dataclasses.dataclass
class Times:
    """Measurements of one step, an entry per round.

    Attributes:
        wall_s: seconds per step.
        cpu_s: CPU seconds per step, all threads of the process together.
        peak_mib: highest memory so far.
    """

    wall_s: list[float] = dataclasses.field(default_factory=list)
    cpu_s: list[float] = dataclasses.field(default_factory=list)
    peak_mib: float | None = None


def interleave(
    turns: Mapping[str, tuple[Worker, int]], *, rounds: int, label: str
) -> dict[str, Times]:
    """Run every step in every round, so that what else the machine does hits all alike.

    Args:
        turns: name of a built step -> (its worker, steps per round).
        rounds: each begins with another step.
        label: of the progress bar.
    """
    names = list(turns)
    times = {name: Times() for name in names}
    for index in track(range(rounds), label, transient=True):
        first = index % len(names)
        for name in names[first:] + names[:first]:
            worker, steps = turns[name]
            # Threads of the last library spin for a while before they sleep.
            time.sleep(0.02)
            answer = worker.ask("run", name=name, steps=steps)
            times[name].wall_s.append(answer["wall_s"])
            times[name].cpu_s.append(answer["cpu_s"])
            times[name].peak_mib = answer["peak_mib"]
    return times


def median_ratio(numerator: Sequence[float], denominator: Sequence[float]) -> dict[str, float]:
    """Median and quartiles of the ratios within rounds.

    Example:
        >>> median_ratio([2.0, 6.0, 8.0], [1.0, 2.0, 2.0])
        {'low': 2.5, 'median': 3.0, 'high': 3.5}
    """
    ratios = [a / b for a, b in zip(numerator, denominator, strict=True)]
    return quartiles(ratios)


def quartiles(values: Sequence[float]) -> dict[str, float]:
    """Lower quartile, median and upper quartile; of one value, three times that value."""
    if len(values) == 1:
        return dict.fromkeys(("low", "median", "high"), values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"low": low, "median": median, "high": high}


def measure_all(
    command: BenchmarkFlags,
    settings: Sequence[Setting],
    measure: Callable[[Setting, Path], dict[str, Any]],
) -> dict[str, Any]:
    """Measure one setting after the other and write the JSON file, if one is wanted.

    Args:
        command: the flags.
        settings: what to measure.
        measure: does it; gets a setting and a folder with random weights of its sizes.

    Returns:
        What the file holds: ``flags``, ``machine`` and ``results``, one per setting.
    """
    from experiments.benchmark.steps.ours import write_weights  # imports jax

    about, results = machine(), []
    for setting in settings:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
            write_weights(setting, Path(folder))
            results.append(measure(setting, Path(folder)))
    about["load_average_after"] = list(os.getloadavg())
    content = {"flags": flags(command), "machine": about, "results": results}
    if command.out is not None:
        write_json(command.out, content)
    return content


def machine() -> dict[str, Any]:
    """Where the benchmark runs, and how busy it is there."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": _processor(),
        "cpus": cpus,
        "python": platform.python_version(),
        "load_average": list(os.getloadavg()),
    }


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def machine_line(about: Mapping[str, Any]) -> str:
    """`machine`, and the load at the end, in a sentence."""
    before, after = (
        " ".join(f"{x:.2f}" for x in about[name]) for name in ("load_average", "load_average_after")
    )
    return (
        f"{about['processor']}, {about['cpus']} CPUs; load average over 1, 5 and 15 minutes "
        f"{before} before and {after} after, the benchmark itself included"
    )


def wide_console() -> Console:
    """The terminal, or 140 columns for a file."""
    return Console(width=None if Console().is_terminal else 140)


def with_quartiles(value: Mapping[str, float] | None, *, factor: float, digits: int) -> str:
    """Median and quartiles for a table.

    Example:
        >>> with_quartiles({"low": 0.1, "median": 0.2, "high": 0.5}, factor=10, digits=1)
        '2.0 (1.0 to 5.0)'
    """
    if value is None:
        return "-"
    low, median, high = (f"{factor * value[k]:.{digits}f}" for k in ("low", "median", "high"))
    return f"{median} ({low} to {high})"
