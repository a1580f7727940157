"""Questions on tables with programs as Z: ``prepare``, ``train``, ``evaluate`` and so on."""

from __future__ import annotations

import dataclasses
from typing import Any

from hardem_jax.cli.builds import BuildFiles, EvaluateOnBuild, TrainOnBuild, prepare
from hardem_jax.cli.compare import comparison
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.files import json_text
from hardem_jax.objectives import AnyObjective, HardEM
from hardem_jax.programs.builds import TablePrograms
from hardem_jax.programs.config import ProgramDecoding, ProgramInference, ProgramParserConfig
from hardem_jax.search.objectives import AnySearchObjective
from hardem_jax.tables.commands import PredictOnTable
from hardem_jax.tables.metrics import official_lines
from hardem_jax.training.config import LoopConfig, OptimizerConfig

#: New parameters learn ten times as fast as the encoder.
OPTIMIZER = OptimizerConfig(learning_rate=1e-3, rate_multipliers=(("encoder", 0.1),))


Prepare = prepare(BuildFiles, {"": TablePrograms})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(TrainOnBuild):
    """Train a parser, or continue the run in ``out`` where it stopped.

    Attributes:
        objective: which programs are trusted, or how they are looked for.
    """

    TASK = "programs"

    model: ProgramParserConfig = ProgramParserConfig()
    optimizer: OptimizerConfig = OPTIMIZER
    batches: BatchConfig = BatchConfig(
        batch_size=10, buckets=(32, 48, 64, 96, 180), max_solutions=512, negatives=0
    )
    loop: LoopConfig = LoopConfig(num_steps=20_000, monitor="accuracy")
    inference: ProgramInference = ProgramInference()
    objective: AnyObjective | AnySearchObjective = HardEM()


Compare = comparison(
    Train, curves={"loss": "training loss over Z", "accuracy": "denotation accuracy (%)"}
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(EvaluateOnBuild):
    """Score a trained parser with the official metric.

    Attributes:
        predictions: write programs and results here, as a JSON list in the order of questions.
        decoding: how answers are read off, if not as in the run.
    """

    TASK = "programs"
    INFERENCE = ("decoding",)

    decoding: ProgramDecoding | None = None

    def predictions_text(self, data: Any, answers: Any) -> str:
        from hardem_jax.programs import task as tasks

        rows = [
            {
                "id": question.id,
                "question": question.question,
                "program": answer and answer.program.text(data.tables[question.table_id].header),
                "result": answer and answer.result,
                "correct": tasks.is_answer(question, answer),
            }
            for question, answer in zip(data.questions, answers, strict=True)
        ]
        return json_text(rows)

    def official_text(self, data: Any, answers: Any) -> str:
        """A line for each question: its id and the items of its answer, between tabs."""
        pairs = zip(data.questions, answers, strict=True)
        found = [(question.id, answer.result if answer else ()) for question, answer in pairs]
        return official_lines([*found, *((id, ()) for id in data.left_out)])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predict(PredictOnTable):
    """Ask a trained parser questions about a table of your own.

    Prints the most likely programs with a result, best first, with probabilities.
    """

    TASK = "programs"

    def inference(self) -> dict[str, Any]:
        return super().inference() | {"decoding": "program"}


# A data set has its own ``prepare``.
_KINDS = (Prepare, Train, Compare, Evaluate, Predict)
COMMANDS = {kind.__name__.lower(): kind for kind in _KINDS}
