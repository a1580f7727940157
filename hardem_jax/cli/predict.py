"""The command ``predict`` of every task, which asks about a text or a table of a person's own."""

from __future__ import annotations

import abc
import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rich.console import Console

from hardem_jax.data.json_stream import read_text
from hardem_jax.errors import InputError, check_unicode, printable, require
from hardem_jax.registry import task_type

if TYPE_CHECKING:
    from hardem_jax.task.trained import Trained


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictCommand(abc.ABC):
    """Ask a trained model questions.

    Attributes:
        run_dir: folder of the run.
        question: the question; None to read questions from the standard input, one per line; typed
            ones end with an empty line.
        checkpoint: "best" or "last".
        top: answers to print.
    """

    #: Name of the task.
    TASK: ClassVar[str]

    run_dir: Path
    question: str | None = None
    checkpoint: Literal["best", "last"] = "best"
    top: int = 5

    def __post_init__(self) -> None:
        require(self, "top", at_least=1)

    @abc.abstractmethod
    def source(self) -> Any:
        """What the questions are about, read before the model is."""

    def trained(self) -> Trained:
        """The model, which reads one question at a time."""
        from hardem_jax.task.trained import Trained

        return Trained(task_type(self.TASK), self.run_dir, self.checkpoint, **self.inference())

    def inference(self) -> dict[str, Any]:
        """What differs from the run's ``inference``."""
        return {"batch_size": 1, "top": self.top}

    @abc.abstractmethod
    def answer(self, trained: Any, question: str, source: Any, console: Console) -> None:
        """Prints the answers to a question."""

    def run(self) -> None:
        if self.question is not None:
            check_question(self.question)
        source = self.source()
        trained = self.trained()
        console = Console(highlight=False, soft_wrap=True, emoji=False)
        for question in asked(self.question, self.echo(console)):
            self.answer(trained, question, source, console)

    def echo(self, console: Console) -> Console | None:
        """Where questions that come through a pipe are repeated."""
        return console


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictOnDocuments(PredictCommand):
    """Ask a trained reader questions about documents of your own.

    Attributes:
        document: text files to read the answer from.
        json: print a JSON object for each question instead, on one line.
    """

    document: tuple[Path, ...]
    json: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.document:
            raise InputError("document: expected at least one file, found none")

    def source(self) -> list[str]:
        return [read_document(path) for path in self.document]

    def echo(self, console: Console) -> Console | None:
        return None if self.json else console

    @abc.abstractmethod
    def answers(
        self, trained: Any, question: str, texts: Sequence[str]
    ) -> list[tuple[dict[str, Any], list[str]]]:
        """The answers, best first, each as JSON and as lines."""

    def answer(self, trained: Any, question: str, source: Sequence[str], console: Console) -> None:
        answers = self.answers(trained, question, source)
        if self.json:
            found = [content for content, _ in answers]
            print(json.dumps({"question": question, "answers": found}), flush=True)
            return
        for _, (first, *more) in answers:
            console.print(printable(first), style="bold", markup=False)
            for line in more:
                console.print(f"        {printable(line)}", markup=False)
        if not answers:
            console.print("        (no answer)", markup=False)


def check_question(question: str) -> None:
    """Raises `InputError` if a question is blank, or is not text."""
    if not question.strip():
        raise InputError("--question: expected a question, found only blanks")
    check_unicode(question, "--question")


def asked(question: str | None, echo: Console | None = None) -> Iterator[str]:
    """The question; if None, those from the standard input, one per line.

    Typed ones get a prompt and end with a blank line; a pipe is read to its end.
    """
    if question is not None:
        check_question(question)
        yield question
        return
    typed = sys.stdin.isatty()
    while True:
        try:
            # A byte order mark begins some files.
            question = input("question: " if typed else "").removeprefix("\ufeff")
        except EOFError:
            return
        except UnicodeDecodeError as error:
            raise InputError(f"standard input: expected UTF-8 text, found {error}") from error
        if not question.strip():
            if typed:
                return
            continue
        check_unicode(question, "standard input")
        if echo is not None and not typed:
            echo.print(printable(question), markup=False)
        yield question


def read_document(path: Path) -> str:
    """The text of a file."""
    text = read_text(path)
    if not text.strip():
        raise InputError(f"{path}: expected text, found an empty document")
    return text
