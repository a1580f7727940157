"""NarrativeQA (summaries), from the official files: ``python -m experiments.narrativeqa --help``.

``prepare`` looks for the spans of a summary that are nearest to the answers by ROUGE-L; all else
is as for other reading tasks, with ROUGE-L as the metric. With the folder of the official release
and the encoder named by a hub name or a folder::

    python -m experiments.narrativeqa prepare --folder narrativeqa \
        --tokenizer bert-base-uncased --out prepared/train --processes 8
    python -m experiments.narrativeqa prepare --folder narrativeqa --split valid \
        --tokenizer bert-base-uncased --out prepared/dev --processes 8
    python -m experiments.narrativeqa train --data prepared/train --dev prepared/dev \
        --out runs/hard-em --model.encoder bert-base-uncased \
        objective:hard-em --objective.tau 20000
    python -m experiments.narrativeqa evaluate --run-dir runs/hard-em --data prepared/dev

The paper's noisy Z needs ``--rules.keep 5`` in ``prepare`` of the training questions.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from hardem_jax.cli.command import run_command
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.files import file_digest
from hardem_jax.documents.examples import ReadingExample
from hardem_jax.documents.prepared import PrepareCommand, determined_by
from hardem_jax.spans import commands as spans
from hardem_jax.spans.config import SpanInference
from hardem_jax.spans.readers.narrativeqa import (
    QUESTIONS,
    SUMMARIES,
    add_rouge_mentions,
    read_narrativeqa,
)
from hardem_jax.spans.solutions import RougeRules
from hardem_jax.training.config import LoopConfig

#: Free-form answers are longer than names: spans of up to 40 words make up Z.
INFERENCE = SpanInference(max_answer_tokens=40)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepare(PrepareCommand):
    """Find the spans nearest to the answers and cut the summaries into windows.

    Attributes:
        folder: of the official release, with ``qaps.csv`` and ``third_party``.
        split: "train" leaves out questions without a span that is near enough; "valid" and
            "test" keep them, and both are scored.
        rules: which spans make up Z.
        lower: summaries and questions in lower case, as in the paper's released conversion.
        processes: number of processes that look for spans and cut windows; the result is the same.
    """

    METRIC = "rouge"

    folder: Path
    split: Literal["train", "valid", "test"] = "train"
    rules: RougeRules = RougeRules()
    lower: bool = True

    def examples(self, skips: ExclusionCounts) -> Iterator[ReadingExample]:
        examples = read_narrativeqa(self.folder, self.split, skips=skips, lower=self.lower)
        return add_rouge_mentions(examples, self.rules, self.processes)

    def sources(self) -> dict[str, Any]:
        digests = {name: file_digest(self.folder / name) for name in (QUESTIONS, SUMMARIES)}
        return determined_by(self, folder=digests)

    def scored(self) -> bool:
        return True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(spans.Train):
    """Train a reader, or continue the run in ``out`` where it stopped.

    Attributes:
        objective: which spans are trusted.
    """

    inference: SpanInference = INFERENCE
    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="rouge_l")


Compare = spans.compare(Train, rouge_l="ROUGE-L (%)")

COMMANDS = spans.COMMANDS | {"prepare": Prepare, "train": Train, "compare": Compare}

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.narrativeqa")
