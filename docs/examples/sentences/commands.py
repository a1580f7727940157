"""Which sentence? The commands, except ``prepare``."""

import dataclasses
from pathlib import Path
from typing import Any

from docs.examples.sentences.config import SentenceInference, SentenceModelConfig
from hardem_jax.cli.compare import comparison
from hardem_jax.cli.evaluate import EvaluateCommand
from hardem_jax.cli.train import TrainCommand
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.files import json_text
from hardem_jax.objectives import AnyObjective, HardEM
from hardem_jax.registry import TASKS
from hardem_jax.training.config import LoopConfig
from hardem_jax.training.fingerprint import may_change

TASKS["sentences"] = "docs.examples.sentences"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(TrainCommand):
    """Train a model, or continue the run in ``out`` where it stopped.

    Attributes:
        objective: which sentences are trusted.
    """

    TASK = "sentences"

    data: Path = may_change("identified by contents")
    model: SentenceModelConfig = SentenceModelConfig()
    batches: BatchConfig = BatchConfig(batch_size=32, buckets=(16, 32, 64, 128), negatives=0)
    loop: LoopConfig = LoopConfig(num_steps=400, eval_every=200, monitor="in Z")
    inference: SentenceInference = SentenceInference()
    objective: AnyObjective = HardEM()


Compare = comparison(Train, curves={"loss": "training loss over Z", "in Z": "a sentence of Z (%)"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(EvaluateCommand):
    """Score a trained model."""

    TASK = "sentences"

    def predictions_text(self, data: Any, answers: Any) -> str:
        pairs = zip(data.questions, answers, strict=True)
        return json_text({q.id: q.sentences[answer] for q, answer in pairs})


#: All but ``prepare``; what ``hardem sentences`` has.
COMMANDS = {"train": Train, "compare": Compare, "evaluate": Evaluate}
