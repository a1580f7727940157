"""Questions on tables with programs as Z: ``train``, ``compare``, ``evaluate``, ``predict``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from hardem_jax.cli.builds import BuildSetting, EvaluateOnBuild
from hardem_jax.cli.compare import CompareCommand
from hardem_jax.cli.train import TrainCommand
from hardem_jax.cli.watching import index_of
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.files import json_text
from hardem_jax.objectives import AnyObjective, HardEM
from hardem_jax.programs.config import ProgramDecoding, ProgramInference, ProgramParserConfig
from hardem_jax.programs.show import program_texts
from hardem_jax.programs.solve import program_question
from hardem_jax.search.objectives import AnySearchObjective
from hardem_jax.show.record import View
from hardem_jax.tables.commands import PredictOnTable
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.metrics import official_lines, result_texts
from hardem_jax.training.config import LoopConfig, OptimizerConfig

if TYPE_CHECKING:
    from hardem_jax.programs import task as tasks
    from hardem_jax.task import trained as runs

#: New parameters learn ten times as fast as the encoder.
OPTIMIZER = OptimizerConfig(learning_rate=1e-3, rate_multipliers=(("encoder", 0.1),))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProgramSetting(BuildSetting):
    """All flags of a parser's run except its objective."""

    model: ProgramParserConfig = ProgramParserConfig()
    optimizer: OptimizerConfig = OPTIMIZER
    batches: BatchConfig = BatchConfig(
        batch_size=10, buckets=(32, 48, 64, 96, 180), max_solutions=512, negatives=0
    )
    loop: LoopConfig = LoopConfig(num_steps=20_000, monitor="accuracy")
    inference: ProgramInference = ProgramInference()

    TASK = "programs"

    def task(self, data: Any, dev: Any) -> tasks.ProgramTask:
        from hardem_jax.programs import task as tasks

        del dev
        return tasks.ProgramTask(self.inference, data.rules)

    def view(self, task: Any, data: Any, index: int, inputs: Any, reading: Any) -> View:
        from hardem_jax.programs import task as tasks

        del inputs
        question = data.questions[index]
        table = data.tables[question.table_id]
        links = tasks.links_of(question, table, task.rules)
        answer = task.answer(question, table, reading)
        return View(
            id=question.id,
            question=question.question,
            answer=", ".join(question.answer),
            solutions=program_texts(reading.rows, table, links),
            probabilities=np.exp(reading.solutions).tolist(),
            true=-1,
            prediction="" if answer is None else answer.program.text(table.header),
            probability=0.0 if answer is None else float(np.exp(answer.log_prob)),
            predicted=-1 if answer is None else index_of(reading.rows, np.array(answer.row)),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(ProgramSetting, TrainCommand):
    """Train a parser, or continue the run in ``out`` where it stopped.

    Attributes:
        objective: which programs are trusted, or how they are looked for.
    """

    objective: AnyObjective | AnySearchObjective = HardEM()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compare(ProgramSetting, CompareCommand):
    """Train First-only, MML and hard EM, and tabulate them."""

    TRAIN = Train
    OBJECTIVES = AnyObjective | AnySearchObjective
    CURVES = {"loss": "training loss over Z", "accuracy": "denotation accuracy (%)"}

    loop: LoopConfig = LoopConfig(num_steps=20_000, monitor="accuracy", patience=None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(EvaluateOnBuild):
    """Score a trained parser with the official metric.

    Attributes:
        predictions: write programs and results here, as one JSON list in the order of the
            questions.
        decoding: how answers are read off, if not as in the run.
    """

    decoding: ProgramDecoding | None = None

    TASK = "programs"

    def changes(self) -> dict[str, Any]:
        return {} if self.decoding is None else {"decoding": self.decoding}

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
        return official_lines(
            (question.id, answer.result if answer else ())
            for question, answer in zip(data.questions, answers, strict=True)
        )


@dataclasses.dataclass(frozen=True)
class Predict(PredictOnTable):
    """Ask a trained parser questions about a table of your own.

    Prints the most likely programs with a result, best first, with probabilities.
    """

    def trained(self) -> runs.Trained:
        from hardem_jax.programs import task as tasks
        from hardem_jax.task import trained as runs

        options: dict[str, Any] = {"batch_size": 1, "top": self.top, "decoding": "program"}
        return runs.Trained(tasks.ProgramTask, self.run_dir, self.checkpoint, **options)

    def asked(self, task: Any, question: TableQuestion) -> tasks.ProgramQuestions:
        from hardem_jax.programs import task as tasks

        return tasks.ProgramQuestions(
            questions=[program_question(question, task.rules)],
            tables={question.table.id: question.table},
            rules=task.rules,
        )

    def layout(self, inputs: Any) -> Any:
        return inputs[0].layout

    def texts(self, task: Any, question: TableQuestion, answer: Any) -> tuple[str, str]:
        del task
        return answer.program.text(question.table.header), ", ".join(result_texts(answer.result))
