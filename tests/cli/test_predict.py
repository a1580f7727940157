"""Questions from the standard input, and notes."""

import io
import warnings

import pytest

from hardem_jax.cli.predict import _notes, asked
from hardem_jax.errors import InputError


def given(monkeypatch, content, *, typed=False, echo=None):
    stdin = io.TextIOWrapper(io.BytesIO(content), "utf-8", newline="\n")  # as that of Linux
    monkeypatch.setattr(stdin, "isatty", lambda: typed)
    monkeypatch.setattr("sys.stdin", stdin)
    return asked(None, echo)


CONTENT = "\ufeffWho?\r\nWhat, José?\n \nHow?\n\n".encode()


def test_a_pipe_is_read_to_its_end_and_typed_questions_end_with_a_blank_line(monkeypatch, capsys):
    assert list(given(monkeypatch, CONTENT)) == ["Who?", "What, José?", "How?"]
    assert capsys.readouterr().out == ""
    assert list(given(monkeypatch, CONTENT, typed=True)) == ["Who?", "What, José?"]
    assert capsys.readouterr().out == "question: " * 3


def test_a_question_that_is_no_text_is_refused(monkeypatch):
    with pytest.raises(InputError, match="standard input: expected UTF-8 text, found"):
        list(given(monkeypatch, b"caf\xe9?\n"))


def test_what_is_the_same_in_every_layer_is_noted_once(capsys):
    with _notes():
        for message in ["by XLA"] * 12 + ["too long"]:
            warnings.warn(message, stacklevel=1)
    assert capsys.readouterr().err == "note: by XLA\nnote: too long\n"
