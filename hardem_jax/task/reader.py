"""What trained models of every task have in common for those who ask them: `AnswerReader`."""

from __future__ import annotations

import abc
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar

from hardem_jax.errors import InputError
from hardem_jax.registry import task_type
from hardem_jax.task.own import rows_of, train_on
from hardem_jax.task.trained import Trained

SourceT = TypeVar("SourceT")
AnswerT = TypeVar("AnswerT", bound="ReadAnswer")


class ReadAnswer(Protocol):
    """An answer with its probability.

    ``names`` are those of what was read, such as the paths of documents; without, they are numbers.
    """

    @property
    def text(self) -> str: ...

    @property
    def probability(self) -> float: ...

    def as_json(self, names: Sequence[str] = ()) -> dict[str, Any]:
        """The answer and how it came about, as JSON values."""
        ...

    def lines(self, names: Sequence[str] = (), *, brief: bool = False) -> list[str]:
        """The same for people, the answer in the first line; ``brief`` may leave out others."""
        ...


class AnswerReader(abc.ABC, Generic[SourceT, AnswerT]):
    """A trained model that answers questions about a text or a table of your own."""

    #: Name of the task.
    TASK: ClassVar[str]

    def __init__(self, trained: Any):
        """Use `from_run` instead; ``trained`` is a `Trained`, or has its attributes."""
        self._task, self._model = trained.task, trained.model
        self._params, self._reader = trained.params, trained.reader

    @classmethod
    def from_run(
        cls,
        run_dir: str | os.PathLike[str],
        checkpoint: Literal["best", "last"] = "best",
        *,
        batch_size: int = 8,
        **inference: Any,
    ) -> Self:
        """The model that a run trained.

        Args:
            run_dir: folder of the run.
            checkpoint: which of the run's checkpoints to load.
            batch_size: inputs read at once.
            **inference: other fields of the run's ``inference`` to change, such as ``top``.

        Raises:
            InputError: the folder holds no such run, or a file of it is damaged.
        """
        inference["batch_size"] = batch_size
        return cls(Trained(task_type(cls.TASK), Path(run_dir), checkpoint, **inference))

    @classmethod
    def from_examples(
        cls,
        examples: Any,
        *,
        encoder: str | os.PathLike[str],
        out: str | os.PathLike[str],
        dev: Any = None,
        num_steps: int | None = None,
        **flags: Any,
    ) -> Self:
        """Trains a model on questions with their answers, and loads its best checkpoint.

        Does what the commands ``prepare`` and ``train`` do, in a run folder like theirs, which
        other commands read. The same call continues where it stopped, or only loads.

        Args:
            examples: a mapping for each question with the keys of `hardem_jax.data.rows`:
                "question", "answer" (a text or number, or a list) and what it is about, "text" or
                "table" (as in `answer`); or a pandas DataFrame or a `datasets.Dataset` of these
                columns. ``columns=Columns(answer="reply")`` names others.
            encoder: Hugging Face name or folder of the pretrained encoder to start from.
            out: folder of the run; its data are in ``prepared/*``. A call that is refused leaves
                them, and the run, as they were.
            dev: examples to evaluate on; None takes every tenth of ``examples`` away for this.
            num_steps: of training; None for two passes over the examples, but at least 200 steps.
                MML fades into hard EM over the first half of them.
            **flags: other fields of the task's ``prepare`` and ``train``, such as
                ``objective=MML()``. Without ``batches``, a batch holds at most all examples.

        Raises:
            InputError: there are too few examples, one is malformed, a flag is unknown, or ``out``
                holds a run with other settings or examples.

        Example:
            >>> examples = [{"question": "Who?", "answer": "Ann", "text": page}]  # doctest: +SKIP
            >>> reader = Reader.from_examples(  # doctest: +SKIP
            ...     examples, encoder="bert-base-uncased", out="runs/mine", dev=examples
            ... )
        """
        rows, dev_rows = rows_of(examples), None if dev is None else rows_of(dev, "dev")
        if dev_rows is None:
            rows, dev_rows = [row for n, row in enumerate(rows) if n % 10 != 9], rows[9::10]
        if not rows or not dev_rows:
            expected = "expected at least 10, or others as dev" if dev is None else "expected some"
            raise InputError(f"examples: {expected}, found {len(rows)} and {len(dev_rows)} as dev")
        named = getattr(flags.get("columns"), "table", None) or "table"
        lines = {"train": cls._lines(rows, named), "dev": cls._lines(dev_rows, named)}
        train_on(cls.TASK, lines, encoder, Path(out), num_steps, flags)
        return cls.from_run(out)

    @classmethod
    def _lines(cls, rows: list[dict[str, Any]], table: str) -> Iterable[dict[str, Any]]:
        """The lines of a JSON file of these rows; ``table`` is the key of their tables."""
        del table
        return rows

    def _read(self, inputs: Any) -> Iterator[tuple[int, Any]]:
        """What the model says of each input, by its index."""
        return self._reader.read(self._params, inputs)

    def answer(self, question: str, source: SourceT, *, top: int = 5) -> list[AnswerT]:
        """The most likely answers to a question, best first, and at most ``top``.

        Raises:
            InputError: the question is empty, or cannot be asked about ``source``.
        """
        return self.answer_all([(question, source)], top=top)[0]

    def answer_all(
        self, asked: Iterable[tuple[str, SourceT]], *, top: int = 5
    ) -> list[list[AnswerT]]:
        """Answers to many questions, which share batches, in order.

        Args:
            asked: pairs of a question and what it is about.
            top: see `answer`.
        """
        if top < 1:
            raise InputError(f"top: expected at least 1, found {top}")
        pairs = list(asked)
        for number, pair in enumerate(pairs):
            place = f"question {number}" if len(pairs) > 1 else "question"
            asks = pair[0] if isinstance(pair, (tuple, list)) and len(pair) == 2 else None
            if not isinstance(asks, str):
                expected = "expected a text and what it is about"
                raise InputError(f"{place}: {expected}, found {str(pair):.80}")
            if not asks.strip():
                raise InputError(f"{place}: expected a question, found only blanks")
        return self._answers(pairs, top) if pairs else []

    @abc.abstractmethod
    def _answers(self, asked: Sequence[tuple[str, SourceT]], top: int) -> list[list[AnswerT]]:
        """The answers to questions that are not blank."""


def note(text: str) -> None:
    """Warns of a part of a question or its source that the model does not see."""
    warnings.warn(text, stacklevel=4)
