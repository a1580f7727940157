"""A trained span reader that answers questions about documents, one at a time or many at once."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from flax import nnx

from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.tokenizer import Tokenizer, load_tokenizer
from hardem_jax.documents.examples import Document, ReadingExample
from hardem_jax.documents.inputs import pad_windows
from hardem_jax.documents.questions import WindowInputs
from hardem_jax.documents.windows import WindowConfig, make_windows
from hardem_jax.encoders.checkpoint_files import checkpoint_folder
from hardem_jax.errors import InputError
from hardem_jax.settings import from_json
from hardem_jax.spans.answers import Answer, WindowReading
from hardem_jax.spans.checkpoint import load_reader, read_details
from hardem_jax.spans.config import SpanInference
from hardem_jax.spans.task import SpanTask
from hardem_jax.task import trained as runs


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoundAnswer(Answer):
    """An answer in its document.

    Attributes:
        document: index of the document containing the answer. For a choice such as "yes", the
            document of the window it was chosen in.
        start, end: its characters, end exclusive; negative for a choice.
        context: up to 60 characters before it, its text, and as many after it; empty for a choice.
    """

    document: int
    start: int
    end: int
    context: tuple[str, str, str]


class Reader:
    """Answers questions about documents with a trained span reader.

    Create one with `from_run` or `from_pretrained`. Texts become windows as they did in training,
    and answers are read off as the run's ``inference`` says. Each length of input is compiled once.

    Example:
        >>> reader = Reader.from_run("runs/hard-em")  # doctest: +SKIP
        >>> for answer in reader.answer("Who wrote it?", page):  # doctest: +SKIP
        ...     print(f"{answer.probability:.0%} {answer.text}")
        62% Ada Lovelace
        11% Charles Babbage
    """

    def __init__(
        self,
        task: SpanTask,
        params: Any,
        tokenizer: Tokenizer,
        reader: runs.BatchReader[Any, WindowReading, Any],
    ):
        self._task, self._params, self._tokenizer, self._reader = task, params, tokenizer, reader

    @classmethod
    def from_run(
        cls,
        run_dir: str | os.PathLike[str],
        checkpoint: Literal["best", "last"] = "best",
        *,
        batch_size: int = 8,
        **inference: Any,
    ) -> Reader:
        """The reader that a run trained.

        Args:
            run_dir: folder of the run.
            checkpoint: which of the run's checkpoints to load.
            batch_size: windows read at once.
            **inference: fields of `SpanInference` to change.

        Raises:
            InputError: the folder holds no run of a span reader, or a file of it is damaged.
        """
        inference["batch_size"] = batch_size
        trained = runs.Trained(SpanTask, Path(run_dir), checkpoint, **inference)
        return cls(trained.task, trained.params, trained.model.tokenizer, trained.reader)

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | os.PathLike[str], *, batch_size: int = 8, **inference: Any
    ) -> Reader:
        """The reader in a Hugging Face folder, such as `export` writes, or on the hub.

        Windows and inference are those that `export` wrote into ``config.json``; other checkpoints
        get the defaults of `WindowConfig` and `SpanInference`. The checkpoint must have a selector,
        as those of `export` and ``DPRReader`` do.

        Args:
            name_or_path: a folder with configuration, weights and tokenizer, or a hub name.
            batch_size: windows read at once.
            **inference: fields of `SpanInference` to change.

        Raises:
            InputError: there is no selector, ``config.json`` has a wrong value for this project,
                windows are longer than the encoder's inputs, or a reason given in
                `hardem_jax.spans.checkpoint.load_reader`.
        """
        folder = checkpoint_folder(name_or_path, weights=True)
        windows = _configured(folder, "windows", WindowConfig)
        found = _configured(folder, "inference", SpanInference)
        found = dataclasses.replace(found, batch_size=batch_size, **inference)
        # By name: the local folder of a hub repository has only the files requested so far.
        tokenizer = load_tokenizer(os.fspath(name_or_path))
        task = SpanTask(found, windows=windows)
        module = load_reader(folder)
        if windows.max_tokens > (limit := module.encoder.config.max_tokens):
            raise InputError(
                f"{_place(folder, 'windows')}.max_tokens: expected at most {limit}, the positions "
                f"of its encoder, found {windows.max_tokens}"
            )
        graphdef, params = nnx.split(module, nnx.Param)
        reader = runs.BatchReader(
            task,
            graphdef,
            lambda _, num_solutions: functools.partial(
                pad_windows, num_solutions=num_solutions, pad_id=tokenizer.pad_id
            ),
            batches=BatchConfig(batch_size, (windows.max_tokens,)),
        )
        return cls(task, params, tokenizer, reader)

    @property
    def choices(self) -> tuple[str, ...]:
        """Answers that need not be in a document, see `WindowConfig`."""
        return self._task.windows.choices

    def answer(
        self, question: str, documents: str | Sequence[str], *, top: int = 5
    ) -> list[FoundAnswer]:
        """The most likely answers to a question, best first.

        Args:
            question: the question.
            documents: text to read, one or several; only the first ``inference.num_documents`` of
                them, if that is given.
            top: at most this many. Each window gives at most ``inference.top``, or
                ``inference.keep`` if that is more; several of them may have the same text.

        Raises:
            InputError: the question or all documents that are read are empty, or ``top`` is
                below 1.
        """
        return self.answer_all([(question, documents)], top=top)[0]

    def answer_all(
        self, asked: Iterable[tuple[str, str | Sequence[str]]], *, top: int = 5
    ) -> list[list[FoundAnswer]]:
        """Answers to many questions, whose windows share batches.

        Args:
            asked: pairs of a question and its documents.
            top: see `answer`.

        Returns:
            The answers to each question, in order.

        Raises:
            InputError: see `answer`.
        """
        if top < 1:
            raise InputError(f"top: expected at least 1, found {top}")
        texts, windows, owners = [], [], []
        for number, (question, documents) in enumerate(asked):
            texts.append((documents,) if isinstance(documents, str) else tuple(documents))
            own = self._windows(question, texts[-1])
            windows += own
            owners += [number] * len(own)
        readings: list[list[WindowReading]] = [[] for _ in texts]
        if windows:
            for index, reading in self._reader.read(self._params, WindowInputs(windows)):
                readings[owners[index]].append(reading)
        return [
            [_in_document(answer, own) for answer in self._task.answers(found)[:top]]
            for found, own in zip(readings, texts, strict=True)
        ]

    def _windows(self, question: str, texts: Sequence[str]) -> list[Any]:
        if not question.strip():
            raise InputError("question: expected a question, found only blanks")
        # Before windows are chosen: those of documents that are not read would take the places.
        read = texts[: self._task.inference.num_documents]
        documents = tuple(Document(str(n), text) for n, text in enumerate(read))
        example = ReadingExample("question", question, documents, aliases=(), golds=())
        windows = make_windows(example, self._tokenizer, self._task.windows)
        if not windows:
            raise InputError("documents: expected text, found no character that the model reads")
        return windows


def _in_document(answer: Answer, texts: Sequence[str]) -> FoundAnswer:
    document, start, end = answer.span
    text = texts[document]
    context = (text[max(0, start - 60) : start], text[start:end], text[end : end + 60])
    if answer.is_choice:
        context = ("", answer.text, "")
    return FoundAnswer(**vars(answer), document=document, start=start, end=end, context=context)


def _configured(folder: Path, name: str, kind: type[Any]) -> Any:
    """A configuration from ``config.json``; its default if there is none."""
    return from_json(kind, read_details(folder).get(name, {}), _place(folder, name))


def _place(folder: Path, name: str) -> str:
    return f"{folder / 'config.json'}: hardem_jax.{name}"
