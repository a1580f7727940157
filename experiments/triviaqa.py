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
    python -m experiments.triviaqa prepare --qa-file qa/wikipedia-test-without-answers.json \
        --evidence evidence --tokenizer bert-base-uncased --out prepared/test --split test
    python -m experiments.triviaqa evaluate --run-dir runs/hard-em --data prepared/test \
        --predictions test.json
    python -m experiments.triviaqa predict --run-dir runs/hard-em --document page.txt \
        --question "Who wrote it?"
"""

import dataclasses
from pathlib import Path
from typing import Literal

from hardem_jax.cli.command import run_command
from hardem_jax.cli.export.command import Export
from hardem_jax.cli.preparing import determined_by
from hardem_jax.cli.spans import Compare, Evaluate, Predict, Train, prepare
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.prepared.windows import WindowConfig
from hardem_jax.data.readers.triviaqa import read_triviaqa


@dataclasses.dataclass(frozen=True)
class Prepare:
    """Find every mention and cut the documents into windows.

    Attributes:
        qa_file: ``qa/wikipedia-*.json`` or ``qa/web-*.json`` of the official release, or
            ``qa/verified-*.json``, which people have checked. Web files have one example per
            document, keyed ``QuestionId--Filename`` as officially scored.
        evidence: its folder ``evidence``.
        out: folder to write.
        tokenizer: Hugging Face name or folder of the encoder's checkpoint.
        split: "train" leaves out questions without a mention, "dev" keeps them; "test" has no
            answers, so that ``evaluate`` writes predictions and no scores.
        windows: sizes.
        processes: number of processes that cut windows; the result is the same.
        force: replace the split in ``out``.
    """

    qa_file: Path
    evidence: Path
    out: Path
    tokenizer: str = "bert-base-uncased"
    split: Literal["train", "dev", "test"] = "train"
    windows: WindowConfig = WindowConfig()
    processes: int = 1
    force: bool = False

    def run(self) -> None:
        exclusions = ExclusionCounts()
        prepare(
            read_triviaqa(
                self.qa_file,
                self.evidence,
                skips=exclusions,
                require_answers=self.split != "test",
            ),
            self.out,
            tokenizer=self.tokenizer,
            windows=self.windows,
            metric="triviaqa",
            # Of the evidence, what is read: see "documents" in the meta.json.
            sources=determined_by(self, evidence=self.evidence.name),
            exclusions=exclusions,
            split=self.split,
            force=self.force,
            processes=self.processes,
        )


COMMANDS = {
    "prepare": Prepare,
    "train": Train,
    "compare": Compare,
    "evaluate": Evaluate,
    "predict": Predict,
    "export": Export,
}

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.triviaqa")
