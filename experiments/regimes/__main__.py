"""In which regimes MML is ahead of hard EM, and in which behind: a grid of small runs, and maps.

The corpus is that of the quickstart's mentions (`hardem_jax.documents.planted`), whose knobs make
Z large or wrong, and whose true solutions are known. Every run trains the quickstart's reader and
reads 300 unseen questions: is Z's likeliest mention true (``true z``), and the ``answer`` right?

Finished runs are lines of ``runs.jsonl`` (`experiments.regimes.grid`) and never made again: stop
``python -m experiments.regimes --out regimes`` and continue with ``--minutes 30``; ``--minutes 0``
draws what there is, also of earlier calls with other objectives or seeds. The default grid has 76
regimes; with 4 objectives and 3 seeds these are 912 runs.

Cells of a map are MML minus hard EM in ``true z``, with intervals of 95 %, pale where they hold 0.
Curves are all objectives along one knob. ``summary.json`` has the numbers of both.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.regimes.grid import (
    Knobs,
    Values,
    append_run,
    grid,
    identity,
    recover_runs,
)
from hardem_jax.cli.command import run_command
from hardem_jax.cli.compare import labelled
from hardem_jax.data.files import make_out
from hardem_jax.errors import require
from hardem_jax.locks import locked

if TYPE_CHECKING:
    from experiments.regimes.training import Run

RUNS_FILE = "runs.jsonl"


@dataclasses.dataclass(frozen=True)
class Regimes:
    """Train small readers on planted questions under many conditions, and map who is ahead.

    Attributes:
        out: folder for runs and figures.
        maps: pairs of knobs, "rows-columns".
        values: values of the knobs on the axes of the maps.
        base: values of all other knobs.
        objectives: written as for ``compare``. Each variant of hard EM is compared with MML.
        seeds: train every objective once per seed in every regime.
        steps: training steps per run. The default objective "hard-em --tau 300" assumes the default
            of 600; give another tau if you change the steps.
        num_train: training questions of each corpus.
        num_dev: questions of each corpus to evaluate on.
        minutes: start no run after this time; None for no limit.
        processes: worker processes. Each compiles a step and returns all runs of a regime at once.
    """

    out: Path = Path("regimes")
    maps: tuple[str, ...] = (
        "size-spurious",
        "missing-spurious",
        "size-noise",
        "size-first",
        "width-spurious",
        "size-warm",
    )
    values: Values = Values()
    base: Knobs = Knobs()
    objectives: tuple[str, ...] = ("first-only", "mml", "hard-em", "hard-em --tau 300")
    seeds: tuple[int, ...] = (0, 1, 2)
    steps: int = 600
    num_train: int = 10_000
    num_dev: int = 300
    minutes: float | None = None
    processes: int = 1

    def __post_init__(self) -> None:
        require(self, "seeds", at_least=0, below=2**32)
        require(self, "steps", "num_train", "num_dev", "processes", at_least=1)
        require(self, "minutes", at_least=0)
        # Both refuse what cannot be.
        grid(self.maps, self.values, self.base)
        labelled(self.objectives)

    def run(self) -> None:
        make_out(self.out)
        with locked(self.out):
            runs = recover_runs(self.out / RUNS_FILE)
            runs += self._make({identity(run) for run in runs})
            # Slow to import, as is all that makes runs.
            from experiments.regimes.maps import draw

            sizes = {name: getattr(self, name) for name in ("steps", "num_train", "num_dev")}
            own = [run for run in runs if all(run[name] == size for name, size in sizes.items())]
            draw(own, self.maps, self.values, self.base, out=self.out)

    def runs(self) -> list[Run]:
        """All runs of the grid, a seed after the other so that maps are soon complete."""
        from experiments.regimes.training import Run

        return [
            Run(knobs, self.steps, self.num_train, self.num_dev, objective, seed)
            for seed in dict.fromkeys(self.seeds)
            for knobs in grid(self.maps, self.values, self.base)
            for objective in labelled(self.objectives).values()
        ]

    def _make(self, done: set[str]) -> Iterator[dict]:
        from experiments.regimes.training import make_until
        from hardem_jax.data.parallel import map_in_order

        end = float("inf") if self.minutes is None else time.time() + 60 * self.minutes
        wanted = [run for run in self.runs() if identity(run.named()) not in done]
        # The objectives of a regime go to one process, which generates its corpus once.
        found = map_in_order(
            functools.partial(make_until, end=end),
            wanted,
            processes=self.processes,
            chunk_size=len(self.objectives),
        )
        for number, run in enumerate(found, start=1):
            if run is None:  # out of time; a process that began earlier may still be at work
                continue
            append_run(self.out / RUNS_FILE, run)
            scores = ", ".join(f"{name} {value:.1f} %" for name, value in run["scores"].items())
            knobs = " ".join(f"{name} {value}" for name, value in run["knobs"].items())
            print(
                f"{number} of {len(wanted)}: {knobs}, {run['objective']}, seed {run['seed']}: "
                f"{scores} in {run['seconds']:.1f} s",
                flush=True,
            )
            yield run


if __name__ == "__main__":
    run_command(Regimes, prog="python -m experiments.regimes")
