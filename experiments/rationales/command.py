"""Rationales that are sampled: how good K-sample estimates are, and what training with them gives.

The problems are planted (`experiments.rationales.problems`): of each the answer is known, and so
are, here, all rationales that lead to it. So the sum over them, its gradient, and that of hard EM
are exact, and estimates from K draws of the model can be measured against them::

    python -m experiments.rationales variance --out rationales   # bias and variance of gradients
    python -m experiments.rationales train --out rationales      # accuracy by objective
    python -m experiments.rationales train --out rationales --minutes 10   # continue

Finished runs of ``train`` are lines of ``runs.jsonl`` and never made again; ``train.json`` has what
they add up to. ``variance.json`` has every figure of `experiments.rationales.variance`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

from hardem_jax.data.files import make_out
from hardem_jax.errors import InputError, require
from hardem_jax.locks import locked

RUNS_FILE = "runs.jsonl"


@dataclasses.dataclass(frozen=True)
class RationaleSizes:
    """The decoder and its start.

    Attributes:
        width: of the decoder; a multiple of its four heads.
        layers: of the decoder.
        pretraining: steps on valid rationales, before any training on answers.
        true_share: share of the true ones among them.
        pretraining_seed: of first parameters and pretraining; all runs start there.
        num_train: problems to train on.
    """

    width: int = 32
    layers: int = 2
    pretraining: int = 2000
    true_share: float = 0.2
    pretraining_seed: int = 0
    num_train: int = 2000

    def __post_init__(self) -> None:
        require(self, "width", "layers", "pretraining", "num_train", at_least=1, integer=True)
        require(self, "true_share", at_least=0, at_most=1)
        require(self, "pretraining_seed", at_least=0, below=1000, integer=True)
        if self.width % 4:
            raise InputError(f"width: expected a multiple of 4 heads, found {self.width}")


@dataclasses.dataclass(frozen=True)
class RationaleTraining:
    """Train one decoder for every objective and seed, on as many draws each.

    Attributes:
        out: folder for runs and figures.
        objectives: names, see `experiments.rationales.estimators`; "MML, exact", "Hard EM, exact"
            and "Supervised" see all of Z or the true rationale.
        seeds: one run of every objective for each.
        steps: training steps of a run.
        batch_size: problems of a step.
        draws: rationales drawn for each of them.
        learning_rate: peak learning rate.
        num_dev: problems, drawn on their own, that a trained decoder answers.
        sizes: the decoder and its start.
        minutes: start no run after this time; None for no limit.
    """

    out: Path = Path("rationales")
    objectives: tuple[str, ...] = (
        "MML, distinct draws",
        "Hard EM, draws",
        "IWAE",
        "TRICE",
        "REINFORCE",
        "JEPO",
        "MML, exact",
        "Hard EM, exact",
        "Supervised",
    )
    seeds: tuple[int, ...] = (0, 1, 2)
    steps: int = 200
    batch_size: int = 16
    draws: int = 8
    learning_rate: float = 1e-3
    num_dev: int = 500
    sizes: RationaleSizes = RationaleSizes()
    minutes: float | None = None

    def __post_init__(self) -> None:
        require(self, "seeds", at_least=0, below=2**32)
        require(self, "steps", "batch_size", "draws", "num_dev", at_least=1, integer=True)
        require(self, "learning_rate", above=0)
        require(self, "minutes", at_least=0)

    def run(self) -> None:
        from experiments.rationales.training import OBJECTIVES, identity
        from experiments.regimes.grid import recover_runs

        for name in self.objectives:
            if name not in OBJECTIVES:
                known = "; ".join(OBJECTIVES)
                raise InputError(f"--objectives: expected some of {known}, found {name!r}")
        with locked(make_out(self.out)):
            runs = recover_runs(self.out / RUNS_FILE, identity)
            runs += self._make({identity(run) for run in runs})
            from experiments.rationales.figures import summarize

            wanted = {identity(dataclasses.asdict(run)) for run in self.runs()}
            summarize([run for run in runs if identity(run) in wanted], out=self.out)

    def runs(self) -> list:
        """All runs, a seed after the other."""
        from experiments.rationales.training import Run

        shared = {name: getattr(self, name) for name in
                  ("steps", "batch_size", "draws", "learning_rate", "num_dev")}  # fmt: skip
        return [
            Run(objective=objective, seed=seed, **shared, **dataclasses.asdict(self.sizes))
            for seed in dict.fromkeys(self.seeds)
            for objective in dict.fromkeys(self.objectives)
        ]

    def _make(self, done: set[str]) -> Iterator[dict]:
        from experiments.rationales.training import identity, make
        from experiments.regimes.grid import append_run

        began = time.monotonic()
        wanted = [run for run in self.runs() if identity(dataclasses.asdict(run)) not in done]
        for number, run in enumerate(wanted, start=1):
            if self.minutes is not None and time.monotonic() - began >= 60 * self.minutes:
                return
            found = make(run)
            append_run(self.out / RUNS_FILE, found)
            scores = ", ".join(f"{name} {value:.1f} %" for name, value in found["scores"].items())
            print(
                f"{number} of {len(wanted)}: {run.objective}, seed {run.seed}: {scores} "
                f"in {found['seconds']:.1f} s",
                flush=True,
            )
            yield found


@dataclasses.dataclass(frozen=True)
class GradientVariance:
    """Measure bias and variance of every estimator's gradient against the exact ones.

    Attributes:
        out: folder for the figure and the numbers.
        stages: steps of exact MML after which gradients are measured; 0 is the pretrained model.
        largest: largest K; 1, 2, 4, ... up to it are measured.
        repeats: samples of ``largest`` draws; of K draws there are largest / K times as many.
        problems: whose mean loss the gradient is of.
        learning_rate: of the training between stages.
        batch_size: problems of one of its steps.
        seed: of everything.
        sizes: the decoder and its start.
    """

    out: Path = Path("rationales")
    stages: tuple[int, ...] = (0, 100, 400)
    largest: int = 64
    repeats: int = 40
    problems: int = 8
    learning_rate: float = 1e-3
    batch_size: int = 16
    seed: int = 0
    sizes: RationaleSizes = RationaleSizes()

    def __post_init__(self) -> None:
        if not self.stages:
            raise InputError("stages: expected at least one value, found none")
        require(self, "stages", at_least=0)
        require(self, "largest", "problems", "batch_size", at_least=1, integer=True)
        require(self, "repeats", at_least=2, integer=True)
        require(self, "learning_rate", above=0)
        require(self, "seed", at_least=0, below=2**32)
        if self.largest & (self.largest - 1):
            raise InputError(f"largest: expected a power of 2, found {self.largest}")

    def run(self) -> None:
        from experiments.rationales.figures import draw_variance
        from experiments.rationales.variance import measure
        from hardem_jax.data.files import write_json

        with locked(make_out(self.out)):
            found = measure(self)
            write_json(self.out / "variance.json", found)
            draw_variance(found, self.out / "variance.png")
