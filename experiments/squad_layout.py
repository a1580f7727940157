"""SQuAD-layout files such as SQuAD 1.1 and Quoref, learned from answer texts only.

The annotated place of an answer is never trained on, except for the upper bound of
``prepare --supervised``; evaluation uses it to measure how often the most likely mention is the
true one. Answers that need not be in the text are words in front of every window:
``--windows.choices yes no``, and ``unknown`` for SQuAD 2.0's questions without an answer, which are
then scored by its metric::

    python -m experiments.squad_layout prepare --file train-v1.1.json --out prepared/train
    python -m experiments.squad_layout prepare --file dev-v1.1.json --out prepared/dev --split dev
    python -m experiments.squad_layout prepare --file mine.csv --layout rows --out prepared/mine
    python -m experiments.squad_layout prepare --file quoref-dev-v0.1.json --out prepared/quoref \
        --split dev --answers-are "all required"
    python -m experiments.squad_layout train --data prepared/train --dev prepared/dev \
        --out runs/hard-em objective:hard-em --objective.tau 4000
    python -m experiments.squad_layout evaluate --run-dir runs/hard-em --data prepared/dev \
        --predictions predictions.json
"""

import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from hardem_jax.cli.command import run_command
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.rows import USUAL, Columns
from hardem_jax.documents.examples import ReadingExample, is_unknown
from hardem_jax.documents.prepared import PrepareCommand
from hardem_jax.documents.records import annotated_mentions
from hardem_jax.errors import InputError
from hardem_jax.spans import commands as spans
from hardem_jax.spans.readers.squad import read_squad_layout, read_squad_rows


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepare(PrepareCommand):
    """Find every mention and cut the documents into windows.

    Attributes:
        file: the questions.
        layout: "squad", or "rows" for one row per question with its text: CSV, JSON lines or a
            list, also as Hugging Face's data sets have them.
        columns: names of the columns of "rows", or of the keys of objects.
        answers_are: what several answers to a question mean: "alternatives" (SQuAD), or
            "all required" (Quoref). A single span cannot give them: such questions are left out
            of training, and scored by Quoref's metric, which counts the spans that are right.
        supervised: make the annotated mention all of Z: full supervision, to compare with. Only
            for training.
    """

    file: Path
    layout: Literal["squad", "rows"] = "squad"
    columns: Columns = USUAL
    answers_are: Literal["alternatives", "all required"] = "alternatives"
    split: Literal["train", "dev", "test"] = "train"
    supervised: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.supervised and self.split != "train":
            raise InputError(f"--supervised: expected --split train, found {self.split}")
        # Quoref's metric knows no empty answer.
        if self.answers_are == "all required" and any(map(is_unknown, self.windows.choices)):
            raise InputError("--windows.choices: expected no unknown where all are required")

    def sources(self) -> dict[str, Any]:
        sources = super().sources()
        if not self.supervised:  # as in splits from before this flag existed
            del sources["supervised"]
        if self.columns == USUAL:
            del sources["columns"]
        return sources

    def official_metric(self) -> str:
        if self.answers_are == "all required":
            return "quoref"
        return "squad2" if any(map(is_unknown, self.windows.choices)) else "squad"

    def examples(self, skips: ExclusionCounts) -> Iterator[ReadingExample]:
        read = read_squad_layout
        if self.layout == "rows":
            read = functools.partial(read_squad_rows, columns=self.columns)
        examples = read(
            self.file,
            skips=skips,
            answers_are=self.answers_are,
            require_answers=self.scored(),
            keep_several=self.split != "train",
            choices=self.windows.choices,
        )
        if not self.supervised:
            return examples
        return annotated_mentions(examples, skips=skips, choices=self.windows.choices)


COMMANDS = {"prepare": Prepare} | spans.COMMANDS

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.squad_layout")
