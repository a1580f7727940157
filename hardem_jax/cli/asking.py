"""What ``predict`` is asked: questions and documents of a person's own."""

import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from hardem_jax.data.json_stream import read_text
from hardem_jax.errors import InputError, check_unicode, printable


def check_question(question: str) -> None:
    """Raises `InputError` if a question is blank, or is not text."""
    if not question.strip():
        raise InputError("--question: expected a question, found only blanks")
    check_unicode(question, "--question")


def asked(question: str | None, echo: Console | None = None) -> Iterator[str]:
    """The question; if None, those from the standard input, one per line.

    Typed ones get a prompt and end with a blank line; a pipe is read to its end.

    Args:
        question: None to read them.
        echo: prints each question that comes through a pipe, before its answers.

    Raises:
        InputError: the question is blank, or is not text.
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
    """The text of a file.

    Raises:
        InputError: it cannot be read, or has none.
    """
    text = read_text(path)
    if not text.strip():
        raise InputError(f"{path}: expected text, found an empty document")
    return text
