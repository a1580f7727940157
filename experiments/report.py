"""What commands measured: tables, lines and a JSON file that says on which machine it was."""

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from hardem_jax.data.files import check_writable, markdown_rows, write_json, write_text
from hardem_jax.errors import InputError
from hardem_jax.settings import to_json


class Report:
    """What a command with these flags measures, and on which machine. Make it before the work: then
    a file ``out`` that cannot be written shows at once, and the load is that before the work.
    Tables are written next to ``out``, as Markdown."""

    def __init__(self, command: Any, out: Path | None):
        self._command, self._out, self._machine = command, out, machine()
        if out is not None:
            if out.suffix == ".md":
                raise InputError(f"{out}: expected a name for the JSON file, tables go to .md")
            check_writable(out)

    def save(self, content: Mapping[str, Any]) -> None:
        """Writes the JSON file, if any: what was measured so far, should the command be killed."""
        self._machine["load_average_after"] = list(os.getloadavg())
        if self._out is not None:
            about = {"flags": to_json(self._command), "machine": self._machine}
            write_json(self._out, {**about, **content})

    def write(self, content: Mapping[str, Any], *shown: Any) -> None:
        """Writes the files, if any, and prints tables, lines and the machine. Tables go to the
        Markdown file, `content` to the JSON, beside ``flags`` and ``machine``."""
        self.save(content)
        about, out = self._machine, self._out
        if out is not None:
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
        print_whole(*shown, line)


def table(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str | tuple[str, float, int]],
    *,
    left: int = 1,
) -> Table:
    """A table of results by key; a missing one is an empty cell. ``left`` columns are aligned left.
    ``columns``: name -> key, or key, factor and digits, see `cell`."""
    drawn = Table(title=title)
    for index, name in enumerate(columns):
        drawn.add_column(name, justify="left" if index < left else "right")
    forms = [(key, 1, None) if isinstance(key, str) else key for key in columns.values()]
    for row in rows:
        drawn.add_row(*(cell(row[k], f, d) if k in row else "" for k, f, d in forms))
    return drawn


def markdown(drawn: Table) -> str:
    r"""The table as Markdown, to paste.

    Example:
        >>> print(markdown(table("", [{"a": 1.0}], {"wall\ns": ("a", 1000, 0)})), end="")
        | wall s |
        |---|
        | 1000 |
    """
    rows = zip(*(column.cells for column in drawn.columns), strict=True)
    return markdown_rows([[column.header for column in drawn.columns], *rows])


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
        return median if value["low"] == value["high"] else f"{median} ({low} to {high})"
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


def print_whole(*shown: Any) -> None:
    """Prints tables and lines to the terminal, or in 140 columns for a file. Columns of a table
    that do not fit follow in another, beside those that are aligned left."""
    console = Console(width=None if Console().is_terminal else 140)
    for item in shown:
        for part in _parts(item, console.width) if isinstance(item, Table) else [item]:
            console.print(part, highlight=False, markup=False)


def _parts(drawn: Table, room: int) -> Iterator[Table]:
    def part(columns: Sequence[Column]) -> Table:
        table = Table(title=drawn.title)
        for column in columns:
            table.add_column(column.header, justify=column.justify)
        for row in zip(*(column.cells for column in columns), strict=True):
            table.add_row(*row)
        return table

    left = [column for column in drawn.columns if column.justify == "left"]
    rest = [column for column in drawn.columns if column.justify != "left"]
    while rest:
        count = len(rest)
        while count > 1 and _UNBOUNDED.measure(part([*left, *rest[:count]])).maximum > room:
            count -= 1
        yield part([*left, *rest[:count]])
        rest = rest[count:]


#: To measure by.
_UNBOUNDED = Console(width=10_000)
