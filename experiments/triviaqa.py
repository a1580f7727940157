"""TriviaQA, from the official files: ``python -m experiments.triviaqa --help``.

Training on the Wikipedia domain, with the encoder named by a hub name or a folder::

    python -m experiments.triviaqa prepare --qa-file qa/wikipedia-train.json \
        --evidence evidence --tokenizer bert-base-uncased --out prepared/train
    python -m experiments.triviaqa prepare --qa-file qa/wikipedia-dev.json \
        --evidence evidence --tokenizer bert-base-uncased --out prepared/dev --split dev
    python -m experiments.triviaqa train --data prepared/train --dev prepared/dev \
        --out runs/hard-em --model.encoder bert-base-uncased \
        objective:hard-em --objective.tau 15000
    python -m experiments.triviaqa evaluate --run-dir runs/hard-em --data prepared/dev
    python -m experiments.triviaqa predict --run-dir runs/hard-em --document page.txt \
        --question "Who wrote it?"
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from hardem_jax.cli.command import run_command
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.documents.examples import ReadingExample
from hardem_jax.documents.prepared import PrepareCommand, determined_by
from hardem_jax.spans import commands as spans
from hardem_jax.spans.readers.triviaqa import read_triviaqa


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepare(PrepareCommand):
    """Find every mention and cut the documents into windows.

    Attributes:
        qa_file: ``qa/wikipedia-*.json`` or ``qa/web-*.json`` of the official release, or
            ``qa/verified-*.json``, whose questions (in web files, documents too) people have
            checked. Web files have an example per document, keyed ``QuestionId--Filename``.
        evidence: its folder ``evidence``.
    """

    METRIC = "triviaqa"

    qa_file: Path
    evidence: Path
    split: Literal["train", "dev", "test"] = "train"

    def examples(self, skips: ExclusionCounts) -> Iterator[ReadingExample]:
        return read_triviaqa(
            self.qa_file, self.evidence, skips=skips, require_answers=self.scored()
        )

    def sources(self) -> dict[str, Any]:
        # Of the evidence, what is read: see "documents" in the meta.json.
        return determined_by(self, evidence=self.evidence.name)


COMMANDS = spans.COMMANDS | {"prepare": Prepare}

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.triviaqa")
