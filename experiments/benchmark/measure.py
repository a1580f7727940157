"""What all benchmarks share: clocks, turns, medians, tables and the JSON file."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import track
from rich.table import Table

from hardem_jax.cli.command import flags
from hardem_jax.data.files import check_writable, write_json, write_text
from hardem_jax.errors import InputError

T = TypeVar("T")


def timed(work: Callable[[int], Any], repeat: int = 1) -> dict[str, float]:
    """Seconds per repetition: wall clock, and CPU time of all threads together."""
    wall, cpu = time.perf_counter(), time.process_time()
    work(repeat)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"wall_s": wall / repeat, "cpu_s": cpu / repeat}


def interleave(
    turns: Mapping[str, Callable[[int], T]], rounds: int, label: str = "measuring"
) -> dict[str, list[T]]:
    """What each turn returns in every round.

    Load from other programs then affects all of them alike.

    Args:
        turns: called with the number of the round, which begins with another turn each time.
        rounds: how many.
        label: of the progress bar.
    """
    names = list(turns)
    results: dict[str, list[T]] = {name: [] for name in names}
    for index in track(range(rounds), label, transient=True):
        first = index % len(names)
        for name in names[first:] + names[:first]:
            time.sleep(0.02)  # threads of the last library spin for a while before they sleep
            results[name].append(turns[name](index))
    return results


def by_measure(rounds: Sequence[Mapping[str, T]]) -> dict[str, list[T]]:
    """A list for each measure instead of a dict for each round.

    Example:
        >>> by_measure([{"wall_s": 1.0, "cpu_s": 3.0}, {"wall_s": 2.0, "cpu_s": 4.0}])
        {'wall_s': [1.0, 2.0], 'cpu_s': [3.0, 4.0]}
    """
    return {name: [values[name] for values in rounds] for name in rounds[0]}


def median_ratio(numerator: Sequence[float], denominator: Sequence[float]) -> dict[str, float]:
    """Median and quartiles of the ratios within rounds.

    Example:
        >>> median_ratio([2.0, 6.0, 8.0], [1.0, 2.0, 2.0])
        {'low': 2.5, 'median': 3.0, 'high': 3.5}
    """
    return quartiles([a / b for a, b in zip(numerator, denominator, strict=True)])


def quartiles(values: Sequence[float]) -> dict[str, float]:
    """Lower quartile, median and upper quartile; of one value, three times that value."""
    if len(values) == 1:
        return dict.fromkeys(("low", "median", "high"), values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"low": low, "median": median, "high": high}


def table(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str | tuple[str, float, int]],
    *,
    left: int = 1,
) -> Table:
    """A table of results.

    Args:
        title: above it.
        rows: results by key; a missing one leaves its cell empty.
        columns: name of the column -> key, or key, factor and digits; see `cell`.
        left: how many columns are aligned left.
    """
    drawn = Table(title=title)
    for index, name in enumerate(columns):
        drawn.add_column(name, justify="left" if index < left else "right")
    forms = [(key, 1, None) if isinstance(key, str) else key for key in columns.values()]
    for row in rows:
        drawn.add_row(*(cell(row[k], f, d) if k in row else "" for k, f, d in forms))
    return drawn


def markdown(drawn: Table) -> str:
    """The table as Markdown, to paste.

    Example:
        >>> print(markdown(table("", [{"a": 1.0}], {"wall\ns": ("a", 1000, 0)})), end="")
        | wall s |
        |---|
        | 1000 |
    """
    head = [str(column.header).replace("\n", " ") for column in drawn.columns]
    rows = zip(*(column.cells for column in drawn.columns), strict=True)
    lines = [head, *([str(cell).replace("|", "\\|") for cell in row] for row in rows)]
    text = [f"| {' | '.join(line)} |\n" for line in lines]
    return "".join([text[0], f"|{'---|' * len(head)}\n", *text[1:]])


def cell(value: Any, factor: float = 1, digits: int | None = None) -> str:
    """Text, a number, or median and quartiles; None is a dash.

    Example:
        >>> cell({"low": 0.1, "median": 0.2, "high": 0.5}, 10, 1)
        '2.0 (1.0 to 5.0)'
        >>> cell(0.25, 100, 1), cell(4096), cell(2.5), cell(None)
        ('25.0', '4096', '2.5', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        low, median, high = (cell(value[k], factor, digits) for k in ("low", "median", "high"))
        return f"{median} ({low} to {high})"
    if digits is None or isinstance(value, str):
        return f"{value:.10g}" if isinstance(value, float) else str(value)
    return f"{factor * value:.{digits}f}"


def machine() -> dict[str, Any]:
    """The machine that the benchmark runs on, and how busy it is."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "cpus": cpus,
        "python": platform.python_version(),
        "load_average": list(os.getloadavg()),
    }


class Report:
    """What a command measures, and on which machine.

    Made before the work, so that a file that cannot be written shows at once, and the load of the
    machine is that of before.

    Args:
        command: its flags.
        out: a JSON file, or None for none. The tables are written next to it, as Markdown.

    Raises:
        InputError: ``out`` cannot be written, or is the name of the Markdown file.
    """

    def __init__(self, command: Any, out: Path | None):
        self._command, self._out, self._machine = command, out, machine()
        if out is not None:
            if out.suffix == ".md":
                raise InputError(f"{out}: expected a name for the JSON file, tables go to .md")
            check_writable(out)

    def write(self, content: Mapping[str, Any], *shown: Any) -> None:
        """Writes the files, if any, and prints tables, lines and the machine.

        Args:
            content: entries of the JSON file, next to ``flags`` and ``machine``.
            shown: what is printed; tables are written, too.
        """
        about, out = self._machine, self._out
        about["load_average_after"] = list(os.getloadavg())
        if out is not None:
            write_json(out, {"flags": flags(self._command), "machine": about, **content})
            tables = [markdown(item) for item in shown if isinstance(item, Table)]
            write_text(out.with_suffix(".md"), "\n".join(tables))
        before, after = (
            " ".join(f"{x:.2f}" for x in about[name])
            for name in ("load_average", "load_average_after")
        )
        line = (
            f"{about['processor']}, {about['cpus']} CPUs; load average over 1, 5 and 15 minutes "
            f"{before} before and {after} after, the command itself included"
        )
        console = wide_console()
        for item in (*shown, line):
            console.print(item, highlight=False, markup=False)


def wide_console() -> Console:
    """The terminal, or 140 columns for a file."""
    return Console(width=None if Console().is_terminal else 140)
