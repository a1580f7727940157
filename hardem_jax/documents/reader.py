"""Trained readers of documents of your own."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hardem_jax.documents.examples import Document, ReadingExample
from hardem_jax.documents.questions import WindowInputs
from hardem_jax.documents.windows import make_windows
from hardem_jax.errors import InputError
from hardem_jax.task.reader import AnswerReader, AnswerT

#: Iterables that are one thing.
_ONE = (str, bytes, Mapping)


class DocumentReader(AnswerReader[str | Sequence[str], AnswerT]):
    """Answers questions about texts, which become windows as they did in training."""

    @abc.abstractmethod
    def found(self, answer: Any, texts: Sequence[str]) -> AnswerT:
        """An answer of the task, for people who have these texts."""

    def _answers(
        self, asked: Sequence[tuple[str, str | Sequence[str]]], top: int
    ) -> list[list[AnswerT]]:
        texts, windows, owners = [], [], []
        for number, (question, documents) in enumerate(asked):
            several = isinstance(documents, Iterable) and not isinstance(documents, _ONE)
            texts.append(tuple(documents) if several else (documents,))
            where = f"question {number}" if len(asked) > 1 else "documents"
            if odd := [text for text in texts[-1] if not isinstance(text, str)]:
                raise InputError(f"{where}: expected texts, found {str(odd[0]):.80}")
            if not (own := self._windows(question, texts[-1])):
                raise InputError(f"{where}: expected text, found no character that the model reads")
            windows += own
            owners += [number] * len(own)
        readings: list[list[Any]] = [[] for _ in texts]
        for index, reading in self._read(WindowInputs(windows)):
            readings[owners[index]].append(reading)
        return [
            [self.found(answer, own) for answer in self._task.answers(found)[:top]]
            for found, own in zip(readings, texts, strict=True)
        ]

    def _windows(self, question: str, texts: Sequence[str]) -> list[Any]:
        # Before windows are chosen: those of documents that are not read would take the places.
        read = texts[: getattr(self._task.inference, "num_documents", None)]
        documents = tuple(Document(str(n), text) for n, text in enumerate(read))
        example = ReadingExample("question", question, documents, aliases=(), golds=())
        return make_windows(example, self._model.tokenizer, self._task.windows)


def named(document: int, names: Sequence[str]) -> str | int:
    """What a document is called, or its index."""
    return names[document] if names else document
