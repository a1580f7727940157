"""Questions from the standard input."""

import io

import pytest

from hardem_jax.cli.asking import asked
from hardem_jax.errors import InputError


def typed(monkeypatch, content):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content), "utf-8"))
    return asked(None)


def test_questions_come_one_per_line_until_a_blank_one(monkeypatch):
    content = "\ufeffWho?\nWhat, José?\n \nnever asked\n".encode()
    assert list(typed(monkeypatch, content)) == ["Who?", "What, José?"]


def test_a_question_that_is_no_text_is_refused(monkeypatch):
    with pytest.raises(InputError, match="standard input: expected UTF-8 text, found"):
        list(typed(monkeypatch, b"caf\xe9?\n"))
