"""Questions answered by calculation: ``train``, ``compare``, ``evaluate``, ``predict``."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from rich.console import Console
from tyro.conf import subcommand

from hardem_jax.cli.builds import EvaluateOnBuild, TrainOnBuild
from hardem_jax.cli.compare import comparison
from hardem_jax.cli.evaluate import written
from hardem_jax.cli.predict import PredictCommand, read_document
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.files import json_text
from hardem_jax.equations.config import (
    EquationInference,
    NAQANetModelConfig,
    Normalize,
    TaggerConfig,
)
from hardem_jax.equations.examples import NumericExample
from hardem_jax.equations.records import numeric_question
from hardem_jax.equations.solutions.enumeration import execute_equation, format_number
from hardem_jax.equations.solutions.text import formula, mentions
from hardem_jax.errors import InputError, printable
from hardem_jax.objectives import AnyObjective, HardEM
from hardem_jax.registry import task_type
from hardem_jax.training.config import LoopConfig

if TYPE_CHECKING:
    from hardem_jax.task.trained import Trained

_Tagger = Annotated[TaggerConfig, subcommand("tagger")]
_NAQANet = Annotated[NAQANetModelConfig, subcommand("naqanet")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(TrainOnBuild):
    """Train a model, or continue the run in ``out`` where it stopped.

    Attributes:
        dev: folder of the build to evaluate on, made with the same rules as ``data``.
        batches: shapes of the batches; there are no negatives here.
        objective: which equations are trusted.
    """

    TASK = "equations"

    model: _Tagger | _NAQANet = TaggerConfig()
    batches: BatchConfig = BatchConfig(
        batch_size=14, buckets=(128, 192, 256, 320, 384, 448, 512), negatives=0
    )
    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="em")
    inference: EquationInference = EquationInference()
    objective: AnyObjective = HardEM()

    def task(self, data: Any, dev: Any) -> Any:
        return task_type(self.TASK)(self.inference, data.rules, data.numbers)


Compare = comparison(Train, curves={"loss": "training loss over Z", "em": "exact match (%)"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(EvaluateOnBuild):
    """Score a trained model with the official metric.

    Attributes:
        predictions: write the answers here, as one JSON list in the order of the questions.
        decoding: how answers are read off, if not as in the run.
        normalize: what P(z | x) sums to 1 over, if not as in the run. Answers do not depend on
            it; the shares of improbable solutions do.
    """

    TASK = "equations"
    INFERENCE = ("decoding",)

    predictions: Path | None = written()
    decoding: Literal["equation", "tags"] | None = None
    normalize: Normalize | None = None

    def changes(self) -> dict[str, Any]:
        changes = super().changes()
        if self.normalize is not None:
            changes["model"] = {"normalize": self.normalize}
        return changes

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predict(PredictCommand):
    """Ask a trained model questions about a passage of your own.

    Attributes:
        document: text file with the passage.
    """

    TASK = "equations"

    document: Path

    def source(self) -> str:
        return read_document(self.document)

    def answer(self, trained: Trained, question: str, source: str, console: Console) -> None:
        from hardem_jax.equations import models

        task = trained.task
        example = NumericExample("question", str(self.document), source, question, None, ())
        asked = numeric_question(example, task.numbers, task.rules)
        inputs = trained.model.inputs(models.NumericQuestions(questions=[asked], rules=task.rules))
        cut = int(np.count_nonzero(inputs[0].kinds < 0))
        note = f"text too long for the model; {cut} number{'s' * (cut > 1)} left out" if cut else ""
        [(_, reading)] = trained.reader.read(trained.params, inputs)
        if not len(reading.equations):
            problem = f"{self.document}: expected numbers to calculate with, found none"
            problem = f"{problem}; {note}" if cut else problem
            if self.question is not None:
                raise InputError(problem)
            console.print(printable(problem), markup=False)  # the next question may have some
            return
        if cut:
            print(f"note: {note}", file=sys.stderr)
        values = execute_equation(reading.equations, asked.table, task.rules)
        for rank, (equation, value) in enumerate(zip(reading.equations, values, strict=True)):
            probability = np.exp(reading.log_probs[rank])
            answer = "too large"
            if np.isfinite(value):
                answer = format_number(value, task.rules.digits)
            text = formula(equation, asked.table, task.rules)
            line = printable(f"{probability:6.1%}  {answer} = {text}")
            console.print(line, style="bold" if rank == 0 else None, markup=False)
            for sentence in mentions(equation, asked) if rank == 0 else ():
                console.print(f"        {printable(sentence)}", markup=False)


#: All but ``prepare``, which reads a data set.
COMMANDS = {"train": Train, "compare": Compare, "evaluate": Evaluate, "predict": Predict}
