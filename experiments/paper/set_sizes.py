"""Training on questions whose Z is small or large (Min et al., 2019, section 6).

The paper trains on five subsets of WikiSQL with 10,000 questions each and a mean |Z| of 3, 10, 30,
100 and 300, and evaluates on all of dev. Here the questions of a build are sorted by |Z|, and a
subset is the neighbours in this order whose mean is nearest to its target. All subsets have equally
many questions: as many as have the largest target on average. Flags are those of
``experiments.wikisql compare``; ``--minutes 60`` stops after an hour; the same command continues.

Each subset is a ``compare`` in a folder of its own below ``out``, a cell. ``cells.md`` and
``cells.json`` hold the accuracy after each subset, ``set_sizes.png`` shows it.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.tabulate import read_runs, wide_table
from hardem_jax.analysis.statistics import Interval
from hardem_jax.cli.command import run_command
from hardem_jax.cli.compare import CompareCommand, comparison
from hardem_jax.data.batching.padding import Subset
from hardem_jax.data.files import make_out, write_json, write_text
from hardem_jax.errors import InputError, require
from hardem_jax.locks import locked
from hardem_jax.queries import commands as queries
from hardem_jax.settings import to_json
from hardem_jax.training.fingerprint import may_change

#: Score -> label of its axis.
SCORES = {"accuracy": "execution accuracy (%)", "logical form": "logical form (%)"}
#: Objective -> metric -> its mean and interval.
Scores = Mapping[str, Mapping[str, Interval]]


def largest_count(sizes: np.ndarray, target: float) -> int:
    """How many of the questions with the largest Z have at least this |Z| on average.

    Example:
        >>> largest_count(np.array([9, 1, 2, 30, 3]), 14)
        3
    """
    return int(np.sum(np.cumsum(np.sort(sizes)[::-1]) / np.arange(1, len(sizes) + 1) >= target))


def neighbours(sizes: np.ndarray, target: float, count: int, *, seed: int = 0) -> np.ndarray:
    """Indices of neighbours in the order of |Z| whose mean |Z| is nearest to a target, ascending.

    The seed draws the order of questions with equal |Z|.

    Example:
        >>> neighbours(np.array([9, 1, 2, 30, 3]), 5, 3).tolist()
        [0, 2, 4]
    """
    shuffled = np.random.default_rng(seed).permutation(len(sizes))
    order = shuffled[np.argsort(sizes[shuffled], kind="stable")]
    totals = np.concatenate([[0], np.cumsum(sizes[order])])
    means = (totals[count:] - totals[:-count]) / count
    first = int(np.argmin(np.abs(means - target)))
    return np.sort(order[first : first + count])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(queries.Train):
    """Train a parser on a subset.

    Attributes:
        target: wanted mean of |Z|.
        subset_questions: number of questions.
        subset_seed: draws which questions of equal |Z| belong to a subset.
    """

    target: float
    subset_questions: int
    subset_seed: int = 0

    def open_data(self) -> Any:
        data = super().open_data()
        chosen = neighbours(
            set_sizes(data), self.target, self.subset_questions, seed=self.subset_seed
        )
        return dataclasses.replace(data, questions=Subset(data.questions, chosen))


Compare = comparison(Train, curves=queries.Compare.CURVES)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SetSizes(queries.Compare):
    """Compare the objectives on subsets whose Z are of different sizes.

    Attributes:
        targets: wanted mean of |Z| of each subset.
        subset_questions: in each subset; None for as many as have the largest target on average.
        subset_seed: draws which questions of equal |Z| belong to a subset.
        minutes: start no comparison after this time; None for no limit.
    """

    targets: tuple[float, ...] = may_change(
        "a cell has one", default=(3.0, 10.0, 30.0, 100.0, 300.0)
    )
    subset_questions: int | None = None
    subset_seed: int = 0
    minutes: float | None = may_change("decides when to stop", default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "targets", "subset_questions", at_least=1)
        require(self, "subset_seed", at_least=0, below=2**32)
        require(self, "minutes", at_least=0)
        if not self.targets:
            raise InputError("targets: expected at least one value, found none")

    def cells(self) -> dict[str, CompareCommand]:
        """Name -> the comparison of all seeds, in the order of the table."""
        sizes = set_sizes(self.any_run.open_data())
        count = self.subset_questions or largest_count(sizes, max(self.targets))
        if not 0 < count <= len(sizes):
            raise InputError(
                f"expected {max(count, 1)} questions with a Z of {max(self.targets):g} on average, "
                f"found {len(sizes)} with up to {max(sizes, default=0)}"
            )
        of_compare = {field.name for field in dataclasses.fields(Compare)}
        shared = {name: value for name, value in vars(self).items() if name in of_compare}
        cells = {}
        for target in self.targets:
            subset = sizes[neighbours(sizes, target, count, seed=self.subset_seed)]
            name = (
                f"mean {subset.mean():.1f}, median {np.median(subset):g}, "
                f"{subset.min()} to {subset.max()}, {count} questions"
            )
            if name in cells:
                raise InputError(
                    f"targets: expected a subset for each, found {name!r} twice; "
                    "--subset-questions makes them smaller"
                )
            of_cell = {"out": self.out / f"{target:g}", "target": target}
            cells[name] = Compare(**shared | of_cell | {"subset_questions": count})
        return cells

    def run(self) -> None:
        make_out(self.out)
        began, cells = time.monotonic(), self.cells()
        with locked(self.out):
            for name, cell in cells.items():
                if self.minutes is not None and time.monotonic() - began >= 60 * self.minutes:
                    break
                if not intervals(cell):
                    print(name, flush=True)
                    cell.run()
            found = {name: scores for name, cell in cells.items() if (scores := intervals(cell))}
            write_json(self.out / "cells.json", {"flags": to_json(self), "cells": found})
            if found:
                scores = next(iter(next(iter(found.values())).values()))
                metrics = [self.loop.monitor] if self.loop.monitor in scores else []
                text = wide_table([(name, read_runs(cells[name].out)) for name in found], metrics)
                write_text(self.out / "cells.md", text)
                print(text, end="")
                self._draw(found)

    def _draw(self, found: Mapping[str, Scores]) -> None:
        from hardem_jax.analysis.plots import interval_curves  # slow to import

        measured = {metric for cell in found.values() for one in cell.values() for metric in one}
        panels = {
            label: {
                name: [cell.get(name, {}).get(metric) for cell in found.values()]
                for name in self.rows()
            }
            for metric, label in SCORES.items()
            if metric in measured
        }
        ticks = [name.split(",")[0].removeprefix("mean ") for name in found]
        interval_curves(
            panels, values=("mean |Z| in training", ticks), file=self.out / "set_sizes.png"
        )


def set_sizes(data: Any) -> np.ndarray:
    """``[N]`` int: the queries of every question that are trained on."""
    return np.array([len(question.queries) for question in data.questions])


def intervals(cell: CompareCommand) -> Scores:
    """The intervals of a comparison with these very flags; empty if there is none that ended."""
    try:
        content = json.loads((cell.out / "comparison.json").read_text("utf-8"))
    except (OSError, ValueError):  # not begun, or killed while it was written
        return {}
    same = content.get("flags") == json.loads(json.dumps(to_json(cell)))
    if not same or "differences" not in content:
        return {}
    return {
        objective: {metric: Interval(*one) for metric, one in scores.items()}
        for objective, scores in content["intervals"].items()
    }


if __name__ == "__main__":
    run_command(SetSizes, prog="python -m experiments.paper.set_sizes")
