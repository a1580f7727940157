"""The commands of span reading, whatever layout the questions came in.

The module of a data set adds its own ``prepare`` and shares everything here and in
`experiments.span_files`; what all tasks share is in `experiments.runs`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.compare import CompareCommand, ShownAnswer
from experiments.model_configs import ReaderConfig
from experiments.runs import (
    EvaluateCommand,
    Scored,
    Setting,
    TaskRun,
    TrainCommand,
)
from hardem_jax.data.batching.grouped import Scope
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.files import json_text
from hardem_jax.data.prepared.spans import Question
from hardem_jax.errors import InputError, require
from hardem_jax.objectives import AnyObjective, HardEM, Objective
from hardem_jax.tasks.span_config import InferenceConfig, LatentConfig
from hardem_jax.training.config import LoopConfig
from hardem_jax.training.fingerprint import may_change

if TYPE_CHECKING:
    from jax.sharding import Mesh

    from hardem_jax.tasks.span_qa import Answer

# What the commands do is imported when they do it, so that jax does not delay their help.


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanSetting(Setting):
    """Everything about a run of a reader but its objective.

    Attributes:
        data: prepared training splits; their windows are mixed.
        dev: prepared split to evaluate on.
        latent: what the latent variable ranges over in training; ``inference.scope`` says
            it for answers.
    """

    data: tuple[Path, ...] = may_change("identified by contents")
    dev: Path = may_change("identified by contents")
    model: ReaderConfig = ReaderConfig()
    batches: BatchConfig = BatchConfig()
    latent: LatentConfig = LatentConfig()
    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="f1")
    inference: InferenceConfig = InferenceConfig()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.data:
            raise InputError("data: expected at least one prepared split, found none")

    def start(self, objective: Objective, mesh: Mesh) -> TaskRun:
        from experiments import span_runs

        return span_runs.start(self, objective, mesh)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(SpanSetting, TrainCommand):
    """Train a reader, or continue the run in ``out`` where it stopped.

    Attributes:
        objective: which mentions are trusted.
    """

    objective: AnyObjective = HardEM()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compare(SpanSetting, CompareCommand):
    """Train First-only, MML, hard EM and the released MML, and tabulate them.

    Attributes:
        train_questions: also score the first so many training questions after training (how
            often the likeliest mention is the annotated one); 0 for none.
    """

    TRAIN = Train
    CURVES = {"span_loss": "training loss over Z", "f1": "F1 (%)", "em": "exact match (%)"}

    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="f1", patience=None)
    objectives: tuple[str, ...] = may_change(
        "each run has one", default=("first-only", "mml", "hard-em", "released-mml")
    )
    train_questions: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "train_questions", at_least=0)

    def more_scores(self, run_dir: Path) -> dict[str, float]:
        from experiments import span_runs

        return span_runs.scores_on_train(self, run_dir)

    def answers(self, run_dir: Path, count: int) -> list[ShownAnswer]:
        from experiments import span_runs

        return span_runs.shown_answers(self, run_dir, count)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(EvaluateCommand):
    """Score a trained reader with the official metric.

    Attributes:
        predictions: write the answers here, as a JSON object from question id to answer, which
            the evaluators of SQuAD and TriviaQA read (TriviaQA's web domain has
            ``QuestionId--Filename`` for ids).
        scope: what spans compete in, see `InferenceConfig`; None for as the run has it.
        num_documents: read only the first so many documents of each question; None for all.
        sweep: also score answers from the first so many documents alone, for each number given.
    """

    predictions: Path | None = None
    scope: Scope | None = None
    num_documents: int | None = None
    sweep: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "num_documents", "sweep", at_least=1)

    def score(self, mesh: Mesh) -> Scored:
        from experiments import span_runs

        return span_runs.score(self, mesh)

    def predictions_text(
        self, questions: Mapping[str, Question], answers: Mapping[str, Answer]
    ) -> str:
        """Content of the file of predictions."""
        del questions
        return json_text({example_id: answer.text for example_id, answer in answers.items()})
