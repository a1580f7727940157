"""Answers of several spans: ``prepare``, ``train``, ``compare``, ``evaluate``, ``predict``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from hardem_jax.cli.compare import comparison
from hardem_jax.cli.evaluate import EvaluateCommand
from hardem_jax.cli.predict import PredictOnDocuments
from hardem_jax.cli.train import TrainCommand
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.files import json_text
from hardem_jax.documents.commands import PrepareFile
from hardem_jax.documents.examples import ReadingExample
from hardem_jax.documents.prepared import TAGGINGS_FORMAT
from hardem_jax.documents.windows import WindowConfig
from hardem_jax.errors import InputError
from hardem_jax.objectives import AnyObjective, HardEM
from hardem_jax.registry import task_type
from hardem_jax.span_sets.config import TaggedReaderConfig, TaggingInference
from hardem_jax.training.config import LoopConfig
from hardem_jax.training.fingerprint import may_change


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepare(PrepareFile):
    """Find every mention of every text of an answer, and cut the documents into windows.

    A window without all texts of the answer teaches that the answer is elsewhere, so windows should
    hold whole documents where memory allows it.

    Attributes:
        split: "train" leaves out questions without a window that mentions all of the answer, "dev"
            keeps them; "test" has no answers, so ``evaluate`` writes predictions alone.
    """

    FORMAT = TAGGINGS_FORMAT
    METRIC = "quoref"

    split: Literal["train", "dev", "test"] = "train"
    windows: WindowConfig = WindowConfig(max_tokens=512)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.windows.choices:
            raise InputError("--windows.choices: expected none where answers have several texts")

    def examples(self, skips: ExclusionCounts) -> Iterator[ReadingExample]:
        examples = self.read(skips, "all required", keep_several=True)
        return (dataclasses.replace(example, all_required=True) for example in examples)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(TrainCommand):
    """Train a reader, or continue the run in ``out`` where it stopped.

    Attributes:
        data: prepared training splits; their windows are mixed.
        objective: which sets of mentions are trusted.
    """

    TASK = "taggings"

    data: tuple[Path, ...] = may_change("identified by contents")
    model: TaggedReaderConfig = TaggedReaderConfig()
    batches: BatchConfig = BatchConfig(buckets=(128, 256, 384, 512))
    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="f1")
    inference: TaggingInference = TaggingInference()
    objective: AnyObjective = HardEM()

    def task(self, data: Any, dev: Any) -> Any:
        return task_type(self.TASK)(self.inference, WindowConfig(**data.window_sizes))


Compare = comparison(
    Train,
    curves={"tag_loss": "training loss over Z", "f1": "F1 (%)", "em": "exact match (%)"},
    objectives=("first-only", "mml", "hard-em", "released-mml"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(EvaluateCommand):
    """Score a trained reader with the official metric.

    Attributes:
        predictions: write the answers here, as a JSON object from question id to the list of its
            spans, which Quoref's evaluator reads.
    """

    TASK = "taggings"

    def predictions_text(self, data: Any, answers: Any) -> str:
        return json_text({id: list(answer.texts) for id, answer in answers.items()})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predict(PredictOnDocuments):
    """Ask a trained reader questions about a document of your own.

    Attributes:
        document: text files to read the answer from; each answer is read from one of them.
        top: answers to print, best first, at most one of each window.
    """

    TASK = "taggings"

    def inference(self) -> dict[str, Any]:
        return {}


_KINDS = (Prepare, Train, Compare, Evaluate, Predict)
COMMANDS = {kind.__name__.lower(): kind for kind in _KINDS}
