"""Answers that consist of several spans, as in Quoref, learned from their texts only.

Every word is tagged, so that any number of spans can be marked; which mentions of the answer's
texts are meant is latent. Answers of one span are learned and answered in the same way. Files are
in SQuAD's layout, where the answers of a question are all required::

    python -m experiments.multi_span prepare --file quoref-train-v0.1.json --out prepared/train
    python -m experiments.multi_span prepare --file quoref-dev-v0.1.json --out prepared/dev \
        --split dev
    python -m experiments.multi_span train --data prepared/train --dev prepared/dev \
        --out runs/hard-em objective:hard-em --objective.tau 4000
    python -m experiments.multi_span evaluate --run-dir runs/hard-em --data prepared/dev \
        --predictions predictions.json

Scores are those of Quoref's official metric; the predictions are what its evaluator reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from hardem_jax.cli.command import run_command
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.documents.examples import ReadingExample
from hardem_jax.documents.prepared import TAGGINGS_FORMAT, PrepareCommand
from hardem_jax.documents.windows import WindowConfig
from hardem_jax.errors import InputError
from hardem_jax.span_sets import commands as span_sets
from hardem_jax.spans.readers.squad import read_squad_layout, read_squad_rows


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepare(PrepareCommand):
    """Find every mention of every text of an answer, and cut the documents into windows.

    A window without all texts of the answer teaches that the answer is elsewhere, so windows should
    hold whole documents where memory allows it.

    Attributes:
        file: the questions.
        layout: "squad", or "rows" for one row per question, as in Hugging Face's data sets (JSON
            lines or a list).
        split: "train" leaves out questions without a window that mentions all of the answer, "dev"
            keeps them; "test" has no answers, so that ``evaluate`` writes predictions and no
            scores.
        windows: sizes.
    """

    FORMAT = TAGGINGS_FORMAT
    METRIC = "quoref"

    file: Path
    layout: Literal["squad", "rows"] = "squad"
    split: Literal["train", "dev", "test"] = "train"
    windows: WindowConfig = WindowConfig(max_tokens=512)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.windows.choices:
            raise InputError("--windows.choices: expected none where answers have several texts")

    def examples(self, skips: ExclusionCounts) -> Iterator[ReadingExample]:
        read = read_squad_rows if self.layout == "rows" else read_squad_layout
        examples = read(
            self.file,
            skips=skips,
            answers_are="all required",
            require_answers=self.scored(),
            keep_several=True,
        )
        return (dataclasses.replace(example, all_required=True) for example in examples)


COMMANDS = {"prepare": Prepare} | span_sets.COMMANDS

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.multi_span")
