"""Training on questions whose Z is small or large (Min et al., 2019, section 6).

The paper trains on five subsets of WikiSQL with 10,000 questions each and a mean |Z| of 3, 10, 30,
100 and 300, and evaluates on all of dev. Here the questions of a build are sorted by |Z|, and a
subset is the neighbours in this order whose mean is nearest to its target. All subsets have equally
many questions: as many as have the largest target on average. Flags are those of
``experiments.wikisql compare``::

    python -m experiments.paper.set_sizes --data built/wikisql --dev built/wikisql --gold wikisql \
        --out runs/set-sizes --seeds 0 1 2 --objectives mml hard-em released-mml --minutes 60

Again, it continues. ``cells.md`` and ``cells.json`` hold the accuracy after each subset,
``set_sizes.png`` shows it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from experiments.paper.cells import CellsCommand, Found, curves
from hardem_jax.cli.command import run_command
from hardem_jax.cli.compare import CompareCommand, comparison
from hardem_jax.data.batching.padding import Subset
from hardem_jax.errors import InputError, require
from hardem_jax.queries import commands as queries
from hardem_jax.training.fingerprint import may_change

#: Score -> label of its axis.
SCORES = {"accuracy": "execution accuracy (%)", "logical form": "logical form (%)"}


def largest_count(sizes: np.ndarray, target: float) -> int:
    """How many of the questions with the largest Z have at least this |Z| on average.

    Example:
        >>> largest_count(np.array([9, 1, 2, 30, 3]), 14)
        3
    """
    descending = np.sort(sizes)[::-1]
    means = np.cumsum(descending) / np.arange(1, len(sizes) + 1)
    return int(np.sum(means >= target))


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
class SetSizes(queries.Compare, CellsCommand):
    """Compare the objectives on subsets whose Z are of different sizes.

    Attributes:
        targets: wanted mean of |Z| of each subset.
        subset_questions: in each subset; None for as many as have the largest target on average.
        subset_seed: draws which questions of equal |Z| belong to a subset.
    """

    targets: tuple[float, ...] = may_change(
        "a cell has one", default=(3.0, 10.0, 30.0, 100.0, 300.0)
    )
    subset_questions: int | None = None
    subset_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "targets", "subset_questions", at_least=1)
        require(self, "subset_seed", at_least=0, below=2**32)
        if not self.targets:
            raise InputError("targets: expected at least one value, found none")

    def cells(self) -> dict[str, CompareCommand]:
        sizes = set_sizes(self.any_run.open_data())
        count = self.subset_questions or largest_count(sizes, max(self.targets))
        if not 0 < count <= len(sizes):
            raise InputError(
                f"expected {max(count, 1)} questions with a Z of {max(self.targets):g} on average, "
                f"found {len(sizes)} with up to {max(sizes, default=0)}"
            )
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
            out = self.out / f"{target:g}"
            cells[name] = self.cell(Compare, out=out, target=target, subset_questions=count)
        return cells

    def draw(self, found: Found) -> None:
        from hardem_jax.analysis.plots import interval_curves  # slow to import

        scores = {metric for cell in found.values() for one in cell.values() for metric in one}
        panels = {
            label: curves(found.values(), self.rows(), metric)
            for metric, label in SCORES.items()
            if metric in scores
        }
        ticks = [name.split(",")[0].removeprefix("mean ") for name in found]
        interval_curves(
            panels, values=("mean |Z| in training", ticks), file=self.out / "set_sizes.png"
        )


def set_sizes(data: Any) -> np.ndarray:
    """``[N]`` int: the queries of every question that are trained on."""
    return np.array([len(question.queries) for question in data.questions])


if __name__ == "__main__":
    run_command(SetSizes, prog="python -m experiments.paper.set_sizes")
