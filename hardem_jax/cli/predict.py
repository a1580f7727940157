"""The command ``predict`` of every task, which asks about a text or a table of a person's own."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import json
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from rich.console import Console

from hardem_jax.data.json_stream import read_text
from hardem_jax.data.rows import USUAL, Columns, read_rows
from hardem_jax.errors import InputError, check_unicode, printable, require
from hardem_jax.registry import task_module

#: Questions of a file that share batches.
_TOGETHER = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictCommand(abc.ABC):
    """Ask a trained model questions.

    Attributes:
        run_dir: folder of the run.
        question: the question; None to read questions from the standard input, one per line; typed
            ones end with an empty line.
        questions: file of questions in rows, each with what it is about.
        columns: names of the columns of ``questions`` that the task reads; answers are not read.
        checkpoint: "best" or "last".
        top: answers to print.
        json: print a JSON object for each question instead, on one line.
    """

    #: Name of the task, and what its questions are about: a field of `Columns`.
    TASK: ClassVar[str]
    ABOUT: ClassVar[str] = "text"

    run_dir: Path
    question: str | None = None
    questions: Path | None = None
    columns: Columns = USUAL
    checkpoint: Literal["best", "last"] = "best"
    top: int = 5
    json: bool = False

    def __post_init__(self) -> None:
        require(self, "top", at_least=1)
        if self.columns != USUAL and self.questions is None:
            raise InputError("--columns: expected --questions, found none")
        if self.question is not None:
            check_question(self.question)

    @abc.abstractmethod
    def sources(self) -> Sequence[Path]:
        """The files that the questions are about."""

    @abc.abstractmethod
    def read(self, files: Sequence[Path]) -> Any:
        """What these files hold."""

    def of_row(self, row: Mapping[str, Any]) -> Any:
        """What a row of ``questions`` is about."""
        return row[self.ABOUT]

    def inference(self) -> dict[str, Any]:
        """What differs from the run's ``inference``."""
        return {"top": self.top}

    def reader(self, batch_size: int) -> Any:
        """The model, a `hardem_jax.task.reader.AnswerReader`."""
        kind = task_module(self.TASK, "reader").READER
        changes = self.inference()
        return kind.from_run(self.run_dir, self.checkpoint, batch_size=batch_size, **changes)

    def run(self) -> None:
        console = Console(highlight=False, soft_wrap=True, emoji=False)
        if self.questions is not None:
            if self.question is not None or self.sources():
                found = self.question or self.sources()[0]
                raise InputError(f"--questions: expected no other question or file, found {found}")
            self._run_rows(self.questions, console)
            return
        if not (files := self.sources()):
            flag = "document" if self.ABOUT == "text" else self.ABOUT
            raise InputError(f"--{flag}: expected a file, or --questions, found none")
        source, names = self.read(files), [str(file) for file in files]
        reader = self.reader(batch_size=1)
        for question in asked(self.question, None if self.json else console):
            try:
                with _notes():
                    answers = reader.answer(question, source, top=self.top)
            except InputError as error:
                answers = f"{', '.join(names)}: {str(error).removeprefix('documents: ')}"
                if self.question is not None:
                    raise InputError(answers) from error
            self._show({"question": question}, answers, names, console)

    def _run_rows(self, file: Path, console: Console) -> None:
        found = list(read_rows(file, self.columns, self.ABOUT, with_answers=False))
        reader = self.reader(batch_size=8)
        for first in range(0, len(found), _TOGETHER):
            some = found[first : first + _TOGETHER]
            try:
                answered = self._ask(reader, *(row for _, row in some))
            except InputError:  # one cannot be asked, which is no reason to lose the others
                answered = [self._ask_alone(reader, *each) for each in some]
            for (_, row), answers in zip(some, answered, strict=True):
                if not self.json:
                    console.print(printable(row["question"]), markup=False)
                self._show({"id": row["id"], "question": row["question"]}, answers, (), console)

    def _ask(self, reader: Any, *rows: Mapping[str, Any]) -> list[Any]:
        with _notes():
            pairs = [(row["question"], self.of_row(row)) for row in rows]
            return reader.answer_all(pairs, top=self.top)

    def _ask_alone(self, reader: Any, place: str, row: Mapping[str, Any]) -> Any:
        try:
            return self._ask(reader, row)[0]
        except InputError as error:
            return f"{place} ({row['id']}): {error}"

    def _show(
        self, asked: dict[str, str], answers: Any, names: Sequence[str], console: Console
    ) -> None:
        """Prints the answers to a question, or why it cannot be asked."""
        if isinstance(answers, str):
            if self.json:
                print(json.dumps({**asked, "answers": [], "error": answers}), flush=True)
            else:
                console.print(printable(answers), markup=False)
            return
        if self.json:
            shown = [answer.as_json(names) for answer in answers]
            print(json.dumps({**asked, "answers": shown}), flush=True)
            return
        for rank, answer in enumerate(answers):
            first, *more = answer.lines(names, brief=rank > 0)
            console.print(printable(first), style="bold" if rank == 0 else None, markup=False)
            for line in more:
                console.print(f"        {printable(line)}", markup=False)
        if not answers:
            console.print("        (no answer)", markup=False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictOnDocuments(PredictCommand):
    """Ask a trained reader questions about documents of your own.

    Attributes:
        document: text files to read the answer from.
    """

    document: tuple[Path, ...] = ()

    def sources(self) -> Sequence[Path]:
        return self.document

    def read(self, files: Sequence[Path]) -> list[str]:
        return [read_document(path) for path in files]


@contextlib.contextmanager
def _notes() -> Iterator[None]:
    """Shows warnings as notes on stderr, those that are the same in every layer once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        print(f"note: {printable(message)}", file=sys.stderr)


def check_question(question: str) -> None:
    """Raises `InputError` if a question is blank, or is not text."""
    if not question.strip():
        raise InputError("--question: expected a question, found only blanks")
    check_unicode(question, "--question")


def asked(question: str | None, echo: Console | None = None) -> Iterator[str]:
    """The question; if None, those from the standard input, one per line. Typed ones get a prompt
    and end with a blank line; a pipe is read to its end."""
    if question is not None:
        check_question(question)
        yield question
        return
    typed = sys.stdin.isatty()
    while True:
        try:
            # A byte order mark begins some files, and others end their lines with two characters.
            question = input("question: " if typed else "").strip("\ufeff\r")
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
