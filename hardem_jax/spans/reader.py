"""A trained span reader that answers questions about documents, one at a time or many at once."""

from __future__ import annotations

import dataclasses
import functools
import os
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flax import nnx

from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.tokenizer import load_tokenizer
from hardem_jax.documents.inputs import pad_windows
from hardem_jax.documents.reader import DocumentReader, named
from hardem_jax.documents.windows import WindowConfig
from hardem_jax.encoders.checkpoint_files import checkpoint_folder
from hardem_jax.errors import InputError
from hardem_jax.settings import from_json
from hardem_jax.spans.answers import Answer
from hardem_jax.spans.checkpoint import load_reader, read_details
from hardem_jax.spans.config import SpanInference
from hardem_jax.spans.task import SpanTask
from hardem_jax.task import trained as runs
from hardem_jax.task.encoder import check_vocabulary


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

    def as_json(self, names: Sequence[str] = ()) -> dict[str, Any]:
        """Text, probability and place, which is null for a choice such as "yes"."""
        place: dict[str, Any] = dict.fromkeys(("document", "start", "end"))
        if not self.is_choice:
            place = {"document": named(self.document, names), "start": self.start, "end": self.end}
        return {"text": self.text, "probability": self.probability, **place}

    def lines(self, names: Sequence[str] = (), *, brief: bool = False) -> list[str]:
        """The text, then where it stands."""
        del brief
        first = f"{self.probability:6.1%}  {' '.join(self.text.split()) or '(no answer)'}"
        if self.is_choice:
            return [first, "(in no document)"]
        before, text, after = self.context
        context = " ".join(f"...{before}[{text}]{after}...".split())
        place = f"({named(self.document, names)}, characters {self.start}-{self.end})"
        return [first, f"{context}  {place}"]


class Reader(DocumentReader[FoundAnswer]):
    """Answers questions about documents with a trained span reader.

    Create one with `from_examples`, `from_run` or `from_pretrained`. Texts become windows as they
    did in training, and answers are read off as the run's ``inference`` says: only the first
    ``num_documents`` of several texts are read, and each window gives at most ``top`` answers, or
    ``keep`` if that is more. Each length of input is compiled once.

    Example:
        >>> reader = Reader.from_run("runs/hard-em")  # doctest: +SKIP
        >>> for answer in reader.answer("Who wrote it?", page):  # doctest: +SKIP
        ...     print(f"{answer.probability:.0%} {answer.text}")
        62% Ada Lovelace
        11% Charles Babbage
    """

    TASK = "spans"

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
                windows or vocabulary are larger than the encoder's, or a reason given in
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
        check_vocabulary(os.fspath(name_or_path), module.encoder.config, tokenizer)
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
        model = types.SimpleNamespace(tokenizer=tokenizer)
        return cls(types.SimpleNamespace(task=task, params=params, model=model, reader=reader))

    @property
    def choices(self) -> tuple[str, ...]:
        """Answers that need not be in a document, see `WindowConfig`."""
        return self._task.windows.choices

    def found(self, answer: Answer, texts: Sequence[str]) -> FoundAnswer:
        document, start, end = answer.span
        text = texts[document]
        context = (text[max(0, start - 60) : start], text[start:end], text[end : end + 60])
        if answer.is_choice:
            context = ("", answer.text, "")
        return FoundAnswer(**vars(answer), document=document, start=start, end=end, context=context)


READER = Reader


def _configured(folder: Path, name: str, kind: type[Any]) -> Any:
    """A configuration from ``config.json``; its default if there is none."""
    return from_json(kind, read_details(folder).get(name, {}), _place(folder, name))


def _place(folder: Path, name: str) -> str:
    return f"{folder / 'config.json'}: hardem_jax.{name}"
