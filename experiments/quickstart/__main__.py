"""Compares First-only, MML and hard EM on synthetic corpora with known true solutions.

``python -m experiments.quickstart`` needs no download. It generates two corpora, one whose
solutions are mentions of the answer and one whose solutions are equations, trains a small model
from scratch with each objective, using the same code as the real tasks, prints a table for each and
saves the learning curves. In addition to exact match it reports how often the most likely solution
in Z is the true one, which real data sets cannot show reliably.
"""

from __future__ import annotations

import dataclasses
import itertools
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from rich.console import Console

from experiments.quickstart.settings import EquationSettings, Settings
from experiments.report import table
from hardem_jax.cli.command import run_command
from hardem_jax.data.files import make_out
from hardem_jax.documents.planted import PlantedConfig
from hardem_jax.equations.planted import PlantedEquationsConfig
from hardem_jax.errors import InputError, require, require_different
from hardem_jax.objectives import MML, FirstOnly, HardEM, Objective
from hardem_jax.progress import counted

if TYPE_CHECKING:
    from experiments.quickstart.problem import Problem
    from hardem_jax.analysis.plots import History


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
        # Imported here because they import jax, which would slow down --help.
        from experiments.quickstart.equations import equation_problem
        from experiments.quickstart.spans import span_problem
        from hardem_jax.training.mesh import available_devices

        print(f"training on 1 x {available_devices()[0].device_kind}")
        make_out(self.out)
        shown: list[Any] = []
        with tempfile.TemporaryDirectory() as folder:
            for name in self.problems:
                if name == "spans":
                    problem = span_problem(self.spans, self.spans_training, Path(folder))
                else:
                    problem = equation_problem(self.equations, self.equations_training)
                shown += self._compare(problem, Path(folder))
        for item in (*shown, Path(__file__).with_name("meaning.txt").read_text("utf-8")):
            Console(highlight=False).print(item)

    def _compare(self, problem: Problem, folder: Path) -> list[Any]:
        settings = problem.settings
        objectives: dict[str, Objective] = {
            "First-only": FirstOnly(),
            "MML": MML(),
            "Hard EM": HardEM(tau=settings.steps / 2),
        }
        histories: dict[str, list[History]] = {name: [] for name in objectives}
        seconds = dict.fromkeys(objectives, 0.0)
        runs = [*itertools.product(self.seeds, objectives)]
        for seed, name in counted(runs, f"{problem.name}: trainings"):
            print(f"{problem.name}: {name}, seed {seed}", flush=True)
            began = time.monotonic()
            run_dir = folder / f"{problem.name}-{name}-{seed}"
            run = problem.train(objectives[name], seed=seed, run_dir=run_dir, log=self.verbose)
            histories[name].append(run)
            seconds[name] += time.monotonic() - began
        return self._report(problem, histories, seconds)

    def _report(
        self, problem: Problem, histories: dict[str, list[History]], seconds: dict[str, float]
    ) -> list[Any]:
        """A table, what to compare it with, and the file of a figure."""
        rows = []
        for name, runs in histories.items():
            last = {metric: [run[-1][metric] for run in runs] for metric in problem.scores}
            scores = {metric: _mean_and_range(values) for metric, values in last.items()}
            time = f"{seconds[name] / len(runs):.0f}"
            rows.append({"objective": name, **scores, "seconds": time})
        columns = {label: metric for metric, label in problem.scores.items()}
        columns = {"objective": "objective", **columns, "seconds per run": "seconds"}
        figure = self.out / f"{problem.name}.png"
        from hardem_jax.analysis.plots import learning_curves  # slow to import

        learning_curves(histories, metrics=problem.scores, file=figure)
        drawn = table(f"{problem.title}, after the last step", rows, columns)
        return [drawn, problem.note, f"Learning curves: {figure}"]


def _mean_and_range(values: list[float]) -> str:
    mean = f"{np.mean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.1f} to {max(values):.1f})"


if __name__ == "__main__":
    run_command(Quickstart, prog="python -m experiments.quickstart")
