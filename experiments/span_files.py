"""A reader and people's own files: ``prepare`` writes splits, ``predict`` asks about documents."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.console import Console

from experiments.preparing import print_summary, watched
from hardem_jax.data.examples import Document, ReadingExample
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.json_stream import read_text
from hardem_jax.data.prepared.spans import prepare_split
from hardem_jax.data.prepared.windows import WindowConfig, make_windows
from hardem_jax.data.tokenizer import load_tokenizer
from hardem_jax.errors import InputError, printable, require


def prepare(
    examples: Iterator[ReadingExample],
    out: Path,
    *,
    tokenizer: str,
    windows: WindowConfig,
    metric: str,
    sources: Mapping[str, Any],
    exclusions: ExclusionCounts,
    for_training: bool,
    force: bool,
    processes: int | None = None,
) -> None:
    """Prepare a split and print its summary; the shared half of every ``prepare`` command."""
    meta = prepare_split(
        watched(examples),
        out,
        tokenizer=load_tokenizer(tokenizer),
        config=windows,
        metric=metric,
        sources=sources,
        exclusions=exclusions,
        keep_without_mention=not for_training,
        processes=processes,
        replace=force,
    )
    print_summary(meta, exclusions)


@dataclasses.dataclass(frozen=True)
class Predict:
    """Ask a trained reader a question about documents of your own.

    Attributes:
        run_dir: folder of the run.
        document: text files to read the answer from.
        question: the question.
        checkpoint: "best" or "last".
        top: answers to print.
    """

    run_dir: Path
    document: tuple[Path, ...]
    question: str
    checkpoint: Literal["best", "last"] = "best"
    top: int = 5

    def __post_init__(self) -> None:
        require(self, "top", at_least=1)
        if not self.document:
            raise InputError("document: expected at least one file, found none")

    def run(self) -> None:
        from experiments.reader import TrainedReader  # imports jax, which help does not need

        if not self.question.strip():
            raise InputError("--question: expected a question, found nothing but blanks")
        documents = tuple(Document(str(path), _read_text(path)) for path in self.document)
        example = ReadingExample("question", self.question, documents, aliases=(), golds=())
        trained = TrainedReader(self.run_dir, self.checkpoint, batch_size=8)
        windows = make_windows(example, trained.tokenizer, trained.windows)
        if not windows:
            names = ", ".join(map(str, self.document))
            raise InputError(f"{names}: expected text, found no character that the model reads")
        sizes = np.array([[window.num_tokens, 0] for window in windows])
        readings = [r for _, _, r in trained.task.read(trained.params, windows, sizes)]
        console = Console(highlight=False, soft_wrap=True, emoji=False)
        for answer in trained.task.answers(readings)[: self.top]:
            document, start, end = answer.span
            text = documents[document].text
            before, after = text[max(0, start - 60) : start], text[end : end + 60]
            line = f"{answer.probability:6.1%}  {printable(answer.text)}"
            console.print(line, style="bold", markup=False)
            place = printable(f"{documents[document].id}, characters {start}-{end}")
            context = " ".join(f"...{before}[{answer.text}]{after}...".split())
            console.print(f"        {printable(context)}  ({place})", markup=False)


def _read_text(path: Path) -> str:
    text = read_text(path)
    if not text.strip():
        raise InputError(f"{path}: expected text, found an empty document")
    return text
