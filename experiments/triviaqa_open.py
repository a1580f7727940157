"""TriviaQA-open (Joshi et al., 2017): ``python -m experiments.triviaqa_open --help``.

From a passage file and the official questions to exact match::

    python -m experiments.retrieve index --passages psgs_w100.tsv.gz --out index
    python -m experiments.retrieve retrieve --index index --questions qa/wikipedia-train.json \
        --out train.jsonl --retriever.passages 20 --layout triviaqa
    python -m experiments.triviaqa_open prepare --contexts train.jsonl --out prepared/train
    python -m experiments.triviaqa_open train --data prepared/train --dev prepared/dev \
        --out runs/hard-em objective:hard-em --objective.tau 4000
    python -m experiments.triviaqa_open evaluate --run-dir runs/hard-em --data prepared/dev \
        --sweep 10 20 40 80

The development split is retrieved with ``--retriever.passages 80`` and prepared with
``--split dev``. Files that another retriever wrote in the layout of DPR or FiD are prepared
as they are.

NQ-open (`experiments.nq_open`) shares all of it. What differs from reading a given document: files
hold the passages of each question in the order of their rank, training questions without a mention
in any of them are dropped and counted, and how many passages to read is chosen on the development
split.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from hardem_jax.cli.command import run_command
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.documents.examples import ReadingExample
from hardem_jax.documents.prepared import PrepareCommand
from hardem_jax.documents.windows import WindowConfig
from hardem_jax.errors import require
from hardem_jax.spans import commands as spans
from hardem_jax.spans.readers.dpr import read_contexts
from hardem_jax.training.config import LoopConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepare(PrepareCommand):
    """Find every mention in the retrieved passages and cut them into windows.

    Attributes:
        contexts: questions with passages, from ``experiments.retrieve`` or any other retriever
            (the JSON or JSON lines of DPR and FiD).
        passages: the first N of each question; None for 20 in training and 80 otherwise (paper).
        prepend_title: put the article's title before each passage.
        metric: how answers are compared with the golds; the paper normalises as for SQuAD, and
            NQ-open's evaluator also decomposes accents.
        windows: sizes; all windows are kept.
    """

    contexts: Path
    split: Literal["train", "dev", "test"] = "train"
    passages: int | None = None
    prepend_title: bool = False
    metric: Literal["squad", "triviaqa", "nq_open"] = "squad"
    windows: WindowConfig = WindowConfig(max_windows=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "passages", at_least=1)

    def examples(self, skips: ExclusionCounts) -> Iterator[ReadingExample]:
        return read_contexts(
            self.contexts,
            num_passages=self._num_passages(),
            skips=skips,
            prepend_title=self.prepend_title,
            require_answers=self.scored(),
        )

    def official_metric(self) -> str:
        return self.metric

    def sources(self) -> dict[str, Any]:
        return super().sources() | {"passages": self._num_passages()}

    def _num_passages(self) -> int:
        default = 20 if self.split == "train" else 80
        return default if self.passages is None else self.passages


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(spans.Train):
    """Train a reader, or continue the run in ``out`` where it stopped.

    Attributes:
        objective: which mentions are trusted.
    """

    batches: BatchConfig = BatchConfig(batch_size=192)
    loop: LoopConfig = LoopConfig(num_steps=20_000, monitor="em")


Compare = spans.compare(Train, f1="F1 (%)", em="exact match (%)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(spans.Evaluate):
    """Score a trained reader, and choose how many passages to read.

    On the development split, ``--sweep 10 20 40 80`` scores every number out of one reading and
    names the best; on the test split, ``--num-documents`` reads that many.
    """

    def report(self, data: Any, answers: Any, scores: Mapping[str, float]) -> None:
        super().report(data, answers, scores)
        if self.sweep and scores:
            main = next(iter(scores))
            # Of equals the smallest.
            best = max(sorted(self.sweep), key=lambda number: scores[f"{main} n={number}"])
            print(f"best number of passages: {best} (--num-documents {best})")


COMMANDS = spans.COMMANDS | {"prepare": Prepare}
COMMANDS |= {"train": Train, "compare": Compare, "evaluate": Evaluate}

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.triviaqa_open")
