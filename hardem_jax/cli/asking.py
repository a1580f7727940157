"""What ``predict`` is asked: questions and documents of a person's own."""

import sys
from collections.abc import Iterator
from pathlib import Path

from hardem_jax.data.json_stream import read_text
from hardem_jax.errors import InputError, check_unicode


def check_question(question: str) -> None:
    """Raises `InputError` if a question is blank, or is not text."""
    if not question.strip():
        raise InputError("--question: expected a question, found only blanks")
    check_unicode(question, "--question")


def asked(question: str | None) -> Iterator[str]:
    """The question; if None, those from the standard input, with a prompt if they are typed.

    Raises:
        InputError: the question is blank, or is not text.
    """
    if question is not None:
        check_question(question)
        yield question
        return
    prompt = "question: " if sys.stdin.isatty() else ""
    while True:
        try:
            question = input(prompt).removeprefix("\ufeff")  # which begins some files
        except EOFError:
            return
        except UnicodeDecodeError as error:
            raise InputError(f"standard input: expected UTF-8 text, found {error}") from error
        if not question.strip():
            return
        check_unicode(question, "standard input")
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
