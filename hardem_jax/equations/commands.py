"""Questions answered by calculation: ``train``, ``compare``, ``evaluate``, ``predict``."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from rich.console import Console
from tyro.conf import subcommand

from hardem_jax.cli import asking
from hardem_jax.cli.builds import BuildSetting, EvaluateOnBuild
from hardem_jax.cli.compare import CompareCommand
from hardem_jax.cli.train import TrainCommand
from hardem_jax.cli.watching import index_of
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.drawing import fitting
from hardem_jax.data.files import json_text
from hardem_jax.equations.config import (
    EquationInference,
    NAQANetModelConfig,
    Normalize,
    TaggerConfig,
)
from hardem_jax.equations.examples import NumericExample
from hardem_jax.equations.solutions.enumeration import execute_equation, format_number
from hardem_jax.equations.solutions.text import formula, left_out, mentions
from hardem_jax.equations.solve import numeric_question
from hardem_jax.errors import InputError, printable, require
from hardem_jax.objectives import AnyObjective, HardEM
from hardem_jax.show.record import View
from hardem_jax.training.config import LoopConfig
from hardem_jax.training.fingerprint import may_change

if TYPE_CHECKING:
    from hardem_jax.equations import task as tasks
    from hardem_jax.task import trained as runs

_Tagger = Annotated[TaggerConfig, subcommand("tagger")]
_NAQANet = Annotated[NAQANetModelConfig, subcommand("naqanet")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class EquationSetting(BuildSetting):
    """All flags of a run except its objective.

    Attributes:
        dev: folder of the build to evaluate on, made with the same rules as ``data``.
        batches: shapes of the batches; there are no negatives here.
    """

    model: _Tagger | _NAQANet = TaggerConfig()
    batches: BatchConfig = BatchConfig(
        batch_size=14, buckets=(128, 192, 256, 320, 384, 448, 512), negatives=0
    )
    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="em")
    inference: EquationInference = EquationInference()

    TASK = "equations"

    def task(self, data: Any, dev: Any) -> tasks.EquationTask:
        from hardem_jax.equations import task as tasks

        del dev
        return tasks.EquationTask(self.inference, data.rules, data.numbers)

    def view(self, task: Any, data: Any, index: int, inputs: Any, reading: Any) -> View:
        question = data.questions[index]
        # Those that the model reads in full and that its row has room for.
        rows = inputs.equations[fitting(inputs.id, len(inputs.equations), len(reading.solutions))]
        found = len(reading.equations) > 0
        return View(
            id=question.id,
            question=question.question,
            answer=question.golds[0]["number"],
            solutions=[formula(row, question.table, task.rules) for row in rows],
            probabilities=np.exp(reading.solutions).tolist(),
            true=reading.true_solution,
            prediction=formula(reading.equations[0], question.table, task.rules) if found else "",
            probability=float(np.exp(reading.log_probs[0])) if found else 0.0,
            predicted=index_of(rows, reading.equations[0]) if found else -1,
        )


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(EvaluateOnBuild):
    """Score a trained model with the official metric.

    Attributes:
        predictions: write the answers here, as one JSON list in the order of the questions.
        decoding: how answers are read off, if not as in the run.
        normalize: what P(z | x) sums to 1 over, if not as in the run. Answers do not depend on
            it; the shares of improbable solutions do.
    """

    predictions: Path | None = may_change("what is written", default=None)
    decoding: Literal["equation", "tags"] | None = None
    normalize: Normalize | None = None

    TASK = "equations"

    def changes(self) -> dict[str, Any]:
        changes: dict[str, Any] = {} if self.decoding is None else {"decoding": self.decoding}
        return (
            changes
            if self.normalize is None
            else changes | {"model": {"normalize": self.normalize}}
        )

    def predictions_text(self, data: Any, answers: Any) -> str:
        rows = [
            {"id": question.id, "question": question.question, "answer": answer}
            for question, answer in zip(data.questions, answers, strict=True)
        ]
        return json_text(rows)

    def official_text(self, data: Any, answers: Any) -> str:
        """A JSON object from ``query_id`` to answer; what it lacks counts 0."""
        pairs = zip(data.questions, answers, strict=True)
        return json_text({q.id: answer for q, answer in pairs if answer is not None})


@dataclasses.dataclass(frozen=True)
class Predict:
    """Ask a trained model questions about a passage of your own.

    Attributes:
        run_dir: folder of the run.
        document: text file with the passage.
        question: the question; None to read questions from the standard input, one per line; typed
            ones end with an empty line.
        checkpoint: "best" or "last".
        top: answers to print.
    """

    run_dir: Path
    document: Path
    question: str | None = None
    checkpoint: Literal["best", "last"] = "best"
    top: int = 5

    def __post_init__(self) -> None:
        require(self, "top", at_least=1)

    def run(self) -> None:
        from hardem_jax.equations import task as tasks
        from hardem_jax.task import trained as runs

        if self.question is not None:
            asking.check_question(self.question)
        text = asking.read_document(self.document)
        options: dict[str, Any] = {"batch_size": 1, "top": self.top}
        trained = runs.Trained(tasks.EquationTask, self.run_dir, self.checkpoint, **options)
        console = Console(highlight=False, soft_wrap=True, emoji=False)
        for question in asking.asked(self.question, console):
            self._answer(trained, question, text, console)

    def _answer(self, trained: runs.Trained, asked: str, text: str, console: Console) -> None:
        from hardem_jax.equations import models

        task = trained.task
        example = NumericExample("question", str(self.document), text, asked, None, ())
        question = numeric_question(example, task.numbers, task.rules)
        inputs = trained.model.inputs(
            models.NumericQuestions(questions=[question], rules=task.rules)
        )
        notes = list(left_out(question, inputs[0].kinds, task.numbers))
        [(_, reading)] = trained.reader.read(trained.params, inputs)
        if not len(reading.equations):
            problem = f"{self.document}: expected numbers to calculate with, found none"
            problem = "; ".join([problem, *notes])
            if self.question is not None:
                raise InputError(problem)
            console.print(printable(problem), markup=False)  # the next question may have some
            return
        for note in notes:
            print(f"note: {printable(note)}", file=sys.stderr)
        values = execute_equation(reading.equations, question.table, task.rules)
        for rank, (equation, value) in enumerate(zip(reading.equations, values, strict=True)):
            probability = np.exp(reading.log_probs[rank])
            answer = "too large"
            if np.isfinite(value):
                answer = format_number(value, task.rules.digits)
            text = formula(equation, question.table, task.rules)
            line = printable(f"{probability:6.1%}  {answer} = {text}")
            console.print(line, style="bold" if rank == 0 else None, markup=False)
            for sentence in mentions(equation, question) if rank == 0 else ():
                console.print(f"        {printable(sentence)}", markup=False)
