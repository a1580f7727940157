"""Questions answered by calculation: ``prepare``, ``train``, ``evaluate`` and so on."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import subcommand

from hardem_jax.cli.builds import BuildFiles, EvaluateOnBuild, TrainOnBuild, prepare
from hardem_jax.cli.compare import comparison
from hardem_jax.cli.predict import PredictCommand, read_document
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.files import json_text
from hardem_jax.equations.builds import NumberQuestions
from hardem_jax.equations.config import (
    EquationInference,
    NAQANetModelConfig,
    Normalize,
    TaggerConfig,
)
from hardem_jax.objectives import AnyObjective, HardEM
from hardem_jax.registry import task_type
from hardem_jax.training.config import LoopConfig

_Tagger = Annotated[TaggerConfig, subcommand("tagger")]
_NAQANet = Annotated[NAQANetModelConfig, subcommand("naqanet")]


Prepare = prepare(BuildFiles, {"": NumberQuestions})


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
        normalize: what P(z | x) sums to 1 over, if not as in the run. A tagger's answers do not
            depend on it; NAQANet's may, as equations compete with counts; and the shares of
            improbable solutions do.
    """

    TASK = "equations"
    INFERENCE = ("decoding",)

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

    Prints the most likely equations, best first, whatever the run's ``decoding``.

    Attributes:
        document: text file with the passage.
    """

    TASK = "equations"

    document: Path | None = None

    def sources(self) -> Sequence[Path]:
        return () if self.document is None else (self.document,)

    def read(self, files: Sequence[Path]) -> str:
        [file] = files
        return read_document(file)


# A data set has its own ``prepare``.
_KINDS = (Prepare, Train, Compare, Evaluate, Predict)
COMMANDS = {kind.__name__.lower(): kind for kind in _KINDS}
