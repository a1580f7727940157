"""The same comparison under several conditions, and one figure of all of them.

Each condition is a cell: a ``compare`` in a folder of its own below ``out``, with everything that
``compare`` writes. Cells gain seeds in turn, so that figures are complete early. A cell that has
ended is not repeated, and one that was stopped continues.
"""

from __future__ import annotations

import abc
import dataclasses
import json
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from hardem_jax.analysis.statistics import Interval
from hardem_jax.cli.compare import CompareCommand
from hardem_jax.data.files import make_out, write_json, write_text
from hardem_jax.errors import require
from hardem_jax.locks import locked
from hardem_jax.settings import to_json
from hardem_jax.training.fingerprint import may_change

#: Cell -> objective -> metric -> its mean and interval.
Found = Mapping[str, Mapping[str, Mapping[str, Interval]]]
# What `compare` writes, also before it has ended, and the last one that had.
_CURRENT, _ENDED = "comparison.json", "ended.json"
CompareT = TypeVar("CompareT", bound=CompareCommand)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CellsCommand(CompareCommand, abc.ABC):
    """Compare the objectives in every cell, tabulate and draw.

    Attributes:
        minutes: start no comparison after this time; None for no limit.
    """

    minutes: float | None = may_change("decides when to stop", default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "minutes", at_least=0)

    @abc.abstractmethod
    def cells(self) -> dict[str, CompareCommand]:
        """Name -> the comparison of all seeds, in the order of the table."""

    @abc.abstractmethod
    def draw(self, found: Found) -> None:
        """Draws figures of the cells that have ended."""

    def run(self) -> None:
        make_out(self.out)
        began = time.monotonic()
        with locked(self.out):
            for name, cell in unfinished(self.cells()):
                if self.minutes is not None and time.monotonic() - began >= 60 * self.minutes:
                    break
                print(f"{name}, seeds {' '.join(map(str, cell.seeds))}", flush=True)
                cell.run()
                _keep(cell)
            found = {
                name: scores for name, cell in self.cells().items() if (scores := _ended(cell))
            }
            write_json(self.out / "cells.json", {"flags": to_json(self), "cells": found})
            if found:
                text = table(found, metric_of(found, self.loop.monitor))
                write_text(self.out / "cells.md", text)
                print(text, end="")
                self.draw(found)

    def cell(self, kind: type[CompareT], **changes: Any) -> CompareT:
        """The comparison of type ``kind`` with these flags, but for those in ``changes``."""
        own = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        of_kind = {field.name for field in dataclasses.fields(kind)}
        return kind(**{name: own[name] for name in own.keys() & of_kind} | changes)


def unfinished(cells: Mapping[str, CompareT]) -> Iterator[tuple[str, CompareT]]:
    """Cells with their first seed, then with their first two, and so on; none that has ended."""
    most = max((len(cell.seeds) for cell in cells.values()), default=0)
    for count in range(1, most + 1):
        for name, cell in cells.items():
            more = [_first_seeds(cell, n) for n in range(count, len(cell.seeds) + 1)]
            if not any(_intervals(one) for one in more):
                yield name, more[0]


def metric_of(found: Found, monitor: str) -> str:
    """The monitored metric if cells have it, else their first: not every metric is of questions."""
    scores = next(iter(next(iter(found.values())).values()))
    return monitor if monitor in scores else next(iter(scores))


def curves(
    cells: Iterable[Mapping[str, Mapping[str, Interval]]], names: Iterable[str], metric: str
) -> dict[str, list[Interval | None]]:
    """The intervals of a metric in cells that follow one another, by objective."""
    cells = list(cells)
    return {name: [cell.get(name, {}).get(metric) for cell in cells] for name in names}


def table(found: Found, metric: str) -> str:
    """A Markdown table of a metric: cells as rows, objectives as columns.

    Example:
        >>> print(table({"3": {"MML": {"em": Interval(50.0, 40.0, 60.0)}}}, "em"), end="")
        | em | MML |
        |---|---|
        | 3 | 50.0 [40.0, 60.0] |
    """
    objectives = list(dict.fromkeys(name for scores in found.values() for name in scores))
    lines = [f"| {metric} | {' | '.join(objectives)} |", "|---" * (1 + len(objectives)) + "|"]
    for cell, scores in found.items():
        columns = [scores[name][metric] if name in scores else None for name in objectives]
        texts = ("-" if one is None else str(one) for one in columns)
        lines.append(f"| {cell} | {' | '.join(texts)} |")
    return "".join(f"{line}\n" for line in lines)


def _first_seeds(cell: CompareT, count: int) -> CompareT:
    return dataclasses.replace(cell, seeds=cell.seeds[:count])


def _ended(cell: CompareCommand) -> dict[str, dict[str, Interval]]:
    """The intervals of a cell over as many seeds as have ended; empty without any."""
    counts = range(len(cell.seeds), 0, -1)
    return next((found for n in counts if (found := _intervals(_first_seeds(cell, n)))), {})


def _keep(cell: CompareCommand) -> None:
    """Keeps the tables of a comparison that ended while the one with more seeds is made."""
    if _intervals_in(cell, cell.out / _CURRENT):
        shutil.copyfile(cell.out / _CURRENT, cell.out / _ENDED)


def _intervals(cell: CompareCommand) -> dict[str, dict[str, Interval]]:
    """The intervals of a comparison with these very flags; empty if there is none that ended."""
    return _intervals_in(cell, cell.out / _CURRENT) or _intervals_in(cell, cell.out / _ENDED)


def _intervals_in(cell: CompareCommand, file: Path) -> dict[str, dict[str, Interval]]:
    try:
        content = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):  # not begun, or killed while it was written
        return {}
    same = content.get("flags") == json.loads(json.dumps(to_json(cell)))
    if not same or "differences" not in content:
        return {}
    return {
        name: {metric: Interval(*one) for metric, one in scores.items()}
        for name, scores in content["intervals"].items()
    }
