"""Questions with retrieved passages; `experiments.nq_open` and `triviaqa_open` name the data.

What differs from reading a given document: files hold the passages of each question in the order
of their rank, training questions without a mention in any of them are dropped and counted, and
how many passages to read is chosen on the development split.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from hardem_jax.cli import spans
from hardem_jax.cli.preparing import determined_by
from hardem_jax.cli.spans import prepare
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.prepared.windows import WindowConfig
from hardem_jax.data.readers.dpr import read_contexts
from hardem_jax.errors import require
from hardem_jax.training.config import LoopConfig


@dataclasses.dataclass(frozen=True)
class Prepare:
    """Find every mention in the retrieved passages and cut them into windows.

    Attributes:
        contexts: questions with passages, from ``experiments.retrieve`` or any other retriever
            (the JSON or JSON lines of DPR and FiD).
        out: folder to write.
        tokenizer: Hugging Face name or folder of the encoder's checkpoint.
        split: "train" drops questions without a mention in any passage, "dev" keeps them; "test"
            has no answers, so that ``evaluate`` writes predictions and no scores.
        passages: the first N of each question; None for 20 in training and 80 otherwise, as in the
            paper.
        prepend_title: put the article's title before each passage.
        metric: how answers are compared with the golds; the paper normalises as for SQuAD, and
            NQ-open's evaluator also decomposes accents.
        windows: sizes; all windows are kept.
        processes: number of processes that cut windows; the result is the same.
        force: replace the split in ``out``.
    """

    contexts: Path
    out: Path
    tokenizer: str = "bert-base-uncased"
    split: Literal["train", "dev", "test"] = "train"
    passages: int | None = None
    prepend_title: bool = False
    metric: Literal["squad", "triviaqa", "nq_open"] = "squad"
    windows: WindowConfig = WindowConfig(max_windows=None)
    processes: int = 1
    force: bool = False

    def __post_init__(self) -> None:
        require(self, "passages", at_least=1)

    def run(self) -> None:
        exclusions = ExclusionCounts()
        default = 20 if self.split == "train" else 80
        passages = default if self.passages is None else self.passages
        prepare(
            read_contexts(
                self.contexts,
                num_passages=passages,
                skips=exclusions,
                prepend_title=self.prepend_title,
                require_answers=self.split != "test",
            ),
            self.out,
            tokenizer=self.tokenizer,
            windows=self.windows,
            metric=self.metric,
            sources=determined_by(self) | {"passages": passages},
            exclusions=exclusions,
            split=self.split,
            force=self.force,
            processes=self.processes,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(spans.Train):
    """Train a reader, or continue the run in ``out`` where it stopped.

    Attributes:
        objective: which mentions are trusted.
    """

    batches: BatchConfig = BatchConfig(batch_size=192)
    loop: LoopConfig = LoopConfig(num_steps=20_000, monitor="em")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compare(spans.Compare):
    """Train First-only, MML, hard EM and the released MML, and tabulate them."""

    TRAIN = Train

    batches: BatchConfig = BatchConfig(batch_size=192)
    loop: LoopConfig = LoopConfig(num_steps=20_000, monitor="em", patience=None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(spans.Evaluate):
    """Score a trained reader, and choose how many passages to read.

    On the development split, ``--sweep 10 20 40 80`` scores every number out of one reading and
    names the best; on the test split, ``--num-documents`` reads that many.
    """

    def report(self, data: Any, answers: Any, scores: Mapping[str, float]) -> None:
        super().report(data, answers, scores)
        if self.sweep and scores:
            best = best_number(scores, self.sweep)
            print(f"best number of passages: {best} (--num-documents {best})")


def best_number(scores: Mapping[str, float], sweep: tuple[int, ...]) -> int:
    """The number of passages with the best score; of equals the smallest.

    Example:
        >>> best_number({"em": 3.0, "em n=10": 4.0, "em n=20": 4.0, "recall n=20": 9.0}, (20, 10))
        10
    """
    main = next(iter(scores))
    return max(sorted(sweep), key=lambda number: scores[f"{main} n={number}"])
