"""Which sentence? The commands, except ``prepare``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from docs.examples.sentences.config import SentenceInference, SentenceModelConfig
from hardem_jax.cli.compare import CompareCommand
from hardem_jax.cli.evaluate import EvaluateCommand
from hardem_jax.cli.train import Setting, TrainCommand
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.files import json_text
from hardem_jax.objectives import AnyObjective, HardEM
from hardem_jax.show.record import View
from hardem_jax.training.config import LoopConfig
from hardem_jax.training.fingerprint import may_change

if TYPE_CHECKING:
    from docs.examples.sentences import task


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceSetting(Setting):
    """All flags of a run except its objective."""

    data: Path = may_change("identified by contents")
    model: SentenceModelConfig = SentenceModelConfig()
    batches: BatchConfig = BatchConfig(batch_size=32, buckets=(16, 32, 64, 128), negatives=0)
    loop: LoopConfig = LoopConfig(num_steps=400, eval_every=200, monitor="in Z")
    inference: SentenceInference = SentenceInference()

    def kind(self) -> type[task.SentenceTask]:
        from docs.examples.sentences import task

        return task.SentenceTask

    def task(self, data: Any, dev: Any) -> task.SentenceTask:
        from docs.examples.sentences import task

        return task.SentenceTask(self.inference)

    def open_data(self) -> task.SentenceQuestions:
        from docs.examples.sentences import task

        return task.SentenceQuestions.open(self.data)

    def open_dev(self, count: int | None) -> task.SentenceQuestions:
        from docs.examples.sentences import task

        return task.SentenceQuestions.open(self.dev).first(count)

    def views(
        self, task: Any, data: Any, inputs: Any, readings: Sequence[tuple[int, Any]]
    ) -> list[View]:
        found = dict(readings)
        views = []
        for index, question in enumerate(data.questions):
            z, reading = list(question.solutions), found[index]
            inside = z.index(reading.choice) if reading.choice in z else -1
            views.append(
                View(
                    id=question.id,
                    question=question.question,
                    answer=question.sentences[question.true] if question.true >= 0 else "",
                    solutions=[question.sentences[i] for i in z],
                    probabilities=np.exp(reading.solutions).tolist(),
                    true=z.index(question.true) if question.true in z else -1,
                    prediction=question.sentences[reading.choice],
                    probability=float(np.exp(reading.log_prob)),
                    predicted=inside,
                )
            )
        return views


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(SentenceSetting, TrainCommand):
    """Train a model, or continue the run in ``out`` where it stopped.

    Attributes:
        objective: which sentences are trusted.
    """

    objective: AnyObjective = HardEM()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compare(SentenceSetting, CompareCommand):
    """Train First-only, MML and hard EM, and tabulate them."""

    TRAIN = Train
    CURVES = {"loss": "training loss over Z", "in Z": "a sentence of Z (%)"}

    loop: LoopConfig = LoopConfig(num_steps=400, eval_every=200, monitor="in Z", patience=None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(EvaluateCommand):
    """Score a trained model."""

    def kind(self) -> type[task.SentenceTask]:
        from docs.examples.sentences import task

        return task.SentenceTask

    def open(self) -> task.SentenceQuestions:
        from docs.examples.sentences import task

        return task.SentenceQuestions.open(self.data)

    def predictions_text(self, data: Any, answers: Any) -> str:
        pairs = zip(data.questions, answers, strict=True)
        return json_text({q.id: q.sentences[answer] for q, answer in pairs})
