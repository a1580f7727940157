"""Compares First-only, MML and hard EM on synthetic corpora with known true solutions.

``python -m experiments.quickstart`` needs no download. It generates two corpora, one whose
solutions are mentions of the answer and one whose solutions are equations, trains a small model
from scratch with each objective, using the same code as the real tasks, prints a table for each and
saves the learning curves. In addition to exact match it reports how often the most likely solution
in Z is the true one, which real data sets cannot show reliably.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from rich.console import Console
from rich.progress import Progress

from experiments.quickstart.settings import EVALUATIONS, EquationSettings, Settings
from experiments.report import table
from hardem_jax.cli.command import run_command
from hardem_jax.data.files import make_out
from hardem_jax.documents.planted import PlantedConfig
from hardem_jax.equations.planted import PlantedEquationsConfig
from hardem_jax.errors import InputError, require, require_different
from hardem_jax.objectives import MML, FirstOnly, HardEM, Objective

if TYPE_CHECKING:
    from experiments.quickstart.problem import Problem
    from hardem_jax.analysis.plots import History

    #: By the name of an objective, of each run, and of all of them.
    Histories = dict[str, list[History]]
    Seconds = dict[str, float]

#: Printed below the tables.
MEANING = """
All models have seen questions with their answers, and never which solution in Z is the true one.
First-only trusts the first, so it learns to answer for the wrong reason wherever another is true.
MML trusts all solutions by their probability and hard EM the most likely one; where both reach
100 %, they have found out by themselves what the questions ask for. What differs on real data is
in docs/results.md; more seeds (--seeds 0 1 2) show how far single runs vary."""


@dataclasses.dataclass(frozen=True)
class Quickstart:
    """Train small models with three objectives on synthetic questions and compare them.

    Attributes:
        problems: which corpora to use.
        spans: size and difficulty of the corpus of mentions.
        equations: size and difficulty of the corpus of equations.
        seeds: train each objective once per seed.
        spans_training, equations_training: training settings for each corpus.
        out: folder for the figures.
        verbose: print the log of every training instead of a progress bar.
    """

    problems: tuple[Literal["spans", "equations"], ...] = ("spans", "equations")
    spans: PlantedConfig = PlantedConfig()
    equations: PlantedEquationsConfig = PlantedEquationsConfig()
    seeds: tuple[int, ...] = (0,)
    spans_training: Settings = Settings()
    equations_training: EquationSettings = EquationSettings()
    out: Path = Path("quickstart")
    verbose: bool = False

    def __post_init__(self) -> None:
        for name in ("problems", "seeds"):
            if not getattr(self, name):
                raise InputError(f"{name}: expected at least one value, found none")
        require_different(self, "seeds")
        require(self, "seeds", at_least=0, below=2**32)

    def run(self) -> None:
        compared: list[tuple[Problem, Histories, Seconds]] = []
        # Imported here because they import jax, which would slow down --help.
        from experiments.quickstart.equations import equation_problem
        from experiments.quickstart.spans import span_problem
        from hardem_jax.training.mesh import available_devices

        print(f"training on 1 x {available_devices()[0].device_kind}")
        make_out(self.out)
        with tempfile.TemporaryDirectory() as folder:
            for name in self.problems:
                if name == "spans":
                    problem = span_problem(self.spans, self.spans_training, Path(folder))
                else:
                    problem = equation_problem(self.equations, self.equations_training)
                compared.append((problem, *self._compare(problem, Path(folder))))
        for results in compared:
            self._report(*results)
        print(MEANING)

    def _compare(self, problem: Problem, folder: Path) -> tuple[Histories, Seconds]:
        settings = problem.settings
        objectives: dict[str, Objective] = {
            "First-only": FirstOnly(),
            "MML": MML(),
            "Hard EM": HardEM(tau=settings.steps / 2),
        }
        histories: Histories = {name: [] for name in objectives}
        seconds = dict.fromkeys(objectives, 0.0)
        console = Console(stderr=True)
        shown = console.is_terminal and not self.verbose
        with Progress(console=console, transient=True, disable=not shown) as progress:
            for seed, name in itertools.product(self.seeds, objectives):
                label = f"{problem.name}: {name}, seed {seed}"
                if not shown:
                    print(label, flush=True)
                task, began = progress.add_task(label, total=EVALUATIONS), time.monotonic()
                run = problem.train(
                    objectives[name],
                    seed=seed,
                    run_dir=folder / f"{problem.name}-{name}-{seed}",
                    verbose=self.verbose,
                    evaluated=functools.partial(progress.advance, task),
                )
                progress.update(task, visible=False)
                histories[name].append(run)
                seconds[name] += time.monotonic() - began
        return histories, seconds

    def _report(self, problem: Problem, histories: Histories, seconds: Seconds) -> None:
        rows = []
        for name, runs in histories.items():
            last = {metric: [run[-1][metric] for run in runs] for metric in problem.scores}
            scores = {metric: _mean_and_range(values) for metric, values in last.items()}
            time = f"{seconds[name] / len(runs):.0f}"
            rows.append({"objective": name, **scores, "seconds": time})
        columns = {label: metric for metric, label in problem.scores.items()}
        columns = {"objective": "objective", **columns, "seconds per run": "seconds"}
        Console().print(table(f"{problem.title}, after the last step", rows, columns))
        print(problem.note)
        figure = self.out / f"{problem.name}.png"
        from hardem_jax.analysis.plots import learning_curves  # slow to import

        learning_curves(histories, metrics=problem.scores, file=figure)
        print(f"Learning curves: {figure}")


def _mean_and_range(values: list[float]) -> str:
    mean = f"{np.mean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.1f} to {max(values):.1f})"


if __name__ == "__main__":
    run_command(Quickstart, prog="python -m experiments.quickstart")
