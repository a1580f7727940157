"""The commands of discrete reasoning; `experiments.drop` adds ``prepare``.

What all tasks share is in `experiments.runs`.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from rich.console import Console
from tyro.conf import subcommand

from experiments.compare import CompareCommand, ShownAnswer
from experiments.equation_text import describe, left_out, mentions
from experiments.model_configs import NAQANetModelConfig, Normalize, TaggerConfig
from experiments.runs import (
    EvaluateCommand,
    Scored,
    Setting,
    TaskRun,
    TrainCommand,
)
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.examples import NumericExample
from hardem_jax.data.json_stream import read_text
from hardem_jax.data.prepared.equations import numeric_question
from hardem_jax.errors import InputError, printable
from hardem_jax.objectives import AnyObjective, HardEM, Objective
from hardem_jax.solutions.equations.enumeration import execute_equation, format_number
from hardem_jax.tasks.equation_config import InferenceConfig
from hardem_jax.training.config import LoopConfig
from hardem_jax.training.fingerprint import may_change

if TYPE_CHECKING:
    from jax.sharding import Mesh

# What the commands do is imported when they do it, so that jax does not delay their help.

_Tagger = Annotated[TaggerConfig, subcommand("tagger")]
_NAQANet = Annotated[NAQANetModelConfig, subcommand("naqanet")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class EquationSetting(Setting):
    """Everything about a run but its objective.

    Attributes:
        data: prepared training split.
        dev: prepared split to evaluate on, made with the same rules.
        batches: shapes of the batches; there are no negatives here.
    """

    data: Path = may_change("identified by contents")
    dev: Path = may_change("identified by contents")
    model: _Tagger | _NAQANet = TaggerConfig()
    batches: BatchConfig = BatchConfig(
        batch_size=14, buckets=(128, 192, 256, 320, 384, 448, 512), negatives=0
    )
    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="em")
    inference: InferenceConfig = InferenceConfig()

    def start(self, objective: Objective, mesh: Mesh) -> TaskRun:
        from experiments import equation_runs

        return equation_runs.start(self, objective, mesh)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(EquationSetting, TrainCommand):
    """Train a model, or continue the run in ``out`` where it stopped.

    Attributes:
        objective: which equations are trusted.
    """

    objective: AnyObjective = HardEM()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compare(EquationSetting, CompareCommand):
    """Train First-only, MML and hard EM, and tabulate them."""

    TRAIN = Train
    CURVES = {"loss": "training loss over Z", "em": "exact match (%)"}

    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="em", patience=None)

    def answers(self, run_dir: Path, count: int) -> list[ShownAnswer]:
        from experiments import equation_runs

        return equation_runs.shown_answers(self, run_dir, count)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(EvaluateCommand):
    """Score a trained model with the official metric.

    Attributes:
        predictions: write the answers here, as one JSON list in the order of the questions.
        decoding: another way to read answers off than that of the run.
        normalize: what P(z | x) adds up to 1 over, if not that of the run. Answers do not depend
            on it, the shares of improbable solutions do.
    """

    predictions: Path | None = None
    decoding: Literal["equation", "tags"] | None = None
    normalize: Normalize | None = None

    def score(self, mesh: Mesh) -> Scored:
        from experiments import equation_runs

        return equation_runs.score(self, mesh)


@dataclasses.dataclass(frozen=True)
class Predict:
    """Ask a trained model a question about a passage of your own.

    Attributes:
        run_dir: folder of the run.
        passage: text file.
        question: the question.
        checkpoint: "best" or "last".
    """

    run_dir: Path
    passage: Path
    question: str
    checkpoint: Literal["best", "last"] = "best"

    def run(self) -> None:
        from experiments.equation_runs import TrainedEquationModel

        if not self.question.strip():
            raise InputError("--question: expected a question, found nothing but blanks")
        text = read_text(self.passage)
        if not text.strip():
            raise InputError(f"{self.passage}: expected text, found an empty document")
        trained = TrainedEquationModel(self.run_dir, self.checkpoint)
        example = NumericExample("question", str(self.passage), text, self.question, None, ())
        question = numeric_question(example, trained.numbers, trained.rules)
        task, inputs = trained.ready([question], batch_size=1)
        notes = list(left_out(question, inputs[0].kinds, trained.numbers))
        [(_, reading)] = task.read(trained.params, inputs, inputs.sizes)
        if not len(reading.equations):
            problem = f"{self.passage}: expected numbers to calculate with, found none"
            raise InputError("; ".join([problem, *notes]))
        for note in notes:
            print(f"note: {printable(note)}", file=sys.stderr)
        console = Console(highlight=False, soft_wrap=True, emoji=False)
        values = execute_equation(reading.equations, question.table, trained.rules)
        for rank, (equation, value) in enumerate(zip(reading.equations, values, strict=True)):
            probability = np.exp(reading.log_probs[rank])
            answer = "too large"
            if np.isfinite(value):
                answer = format_number(value, trained.rules.digits)
            formula = describe(equation, question, trained.rules)
            line = printable(f"{probability:6.1%}  {answer} = {formula}")
            console.print(line, style="bold" if rank == 0 else None, markup=False)
            for sentence in mentions(equation, question) if rank == 0 else ():
                console.print(f"        {printable(sentence)}", markup=False)
