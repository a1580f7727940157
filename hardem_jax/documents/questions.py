"""Questions of reading tasks with the windows of their documents, and models that read them."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
import optax

from hardem_jax.data.batching.padding import Inputs, Subset
from hardem_jax.data.tokenizer import Tokenizer, load_tokenizer
from hardem_jax.documents.prepared import FORMAT, PreparedSplit, Question, all_windows
from hardem_jax.documents.windows import Window
from hardem_jax.errors import InputError
from hardem_jax.task.base import Questions
from hardem_jax.task.encoder import EncoderModel, check_lengths

Array = jax.Array

_TOKENIZER, _CHOICES = "another tokenizer", "other choices (--windows.choices)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadingQuestions(Questions):
    """Questions with the windows of their documents, as `tokenizer` and `window_sizes` cut them.
    ``places`` are as in `PreparedSplit`; ``metric`` names a module of `documents.metrics`."""

    #: Of the prepared splits.
    FORMAT: ClassVar[str] = FORMAT

    questions: Sequence[Question]
    windows: Inputs
    places: np.ndarray
    metric: str
    tokenizer: Tokenizer
    window_sizes: Mapping[str, Any]

    @classmethod
    def open(cls, *folders: Path) -> Self:
        """The questions of prepared splits, one split after the other. `InputError`: one is not
        there, is damaged, or has another tokenizer or other choices."""
        splits = [PreparedSplit(folder, format=cls.FORMAT) for folder in folders]
        for split in splits[1:]:
            if split.tokenizer.fingerprint != splits[0].tokenizer.fingerprint:
                raise InputError(_prepared_with(_TOKENIZER, str(split.folder), str(folders[0])))
            if choices(split.meta["windows"]) != choices(splits[0].meta["windows"]):
                raise InputError(_prepared_with(_CHOICES, str(split.folder), str(folders[0])))
        windows, places = all_windows(splits)
        metas = [split.meta for split in splits]
        return cls(
            questions=[question for split in splits for question in split.questions.values()],
            left_out={id: why for split in splits for id, why in split.left_out.items()},
            scored=all(split.meta.get("scored", True) for split in splits),
            place=", ".join(map(str, folders)),
            meta=metas if len(metas) > 1 else metas[0],
            windows=windows,
            places=places,
            metric=splits[0].meta["metric"],
            tokenizer=splits[0].tokenizer,
            window_sizes=splits[0].meta["windows"],
        )

    def scored_ids(self) -> list[str]:
        return list(golds_by_id(self))

    def set_sizes(self) -> list[int]:
        return [question.num_solutions for question in self.questions]

    def select(self, indices: Sequence[int]) -> Self:
        numbers = np.full(len(self.questions), -1, np.int32)
        numbers[list(indices)] = np.arange(len(indices))
        chosen = super().select(indices)._where(numbers[self.places[:, 0]] >= 0)
        places = np.column_stack([numbers[chosen.places[:, 0]], chosen.places[:, 1:]])
        return dataclasses.replace(chosen, places=places)

    def windows_of(self, index: int) -> list[Window]:
        """The windows of a question."""
        return [self.windows[int(place)] for place in np.flatnonzero(self.places[:, 0] == index)]

    def from_documents(self, count: int | None) -> Self:
        """With the windows of the first ``count`` documents of each question; all if None."""
        return self if count is None else self._where(self.places[:, 1] < count)

    def _where(self, wanted: np.ndarray) -> Self:
        windows = Subset(self.windows, np.flatnonzero(wanted))
        return dataclasses.replace(self, windows=windows, places=self.places[wanted])


def golds_by_id(data: ReadingQuestions) -> dict[str, Sequence[str]]:
    """The golds of all questions by id; those left out come last and have none."""
    golds: dict[str, Sequence[str]] = {q.id: q.golds for q in data.questions}
    return golds | {id: () for id in data.left_out if id not in golds}


def choices(window_sizes: Mapping[str, Any]) -> tuple[str, ...]:
    """The choices that windows offer; splits of earlier versions have none."""
    return tuple(window_sizes.get("choices", ()))


def check_tokenizer(data: ReadingQuestions, tokenizer: Tokenizer, other: str) -> None:
    """Raises `InputError` if data were cut with another tokenizer than this one, of ``other``."""
    if data.tokenizer.fingerprint != tokenizer.fingerprint:
        raise InputError(_prepared_with(_TOKENIZER, data.place, other))


def check_encoder(data: ReadingQuestions, encoder: str) -> None:
    """Raises `InputError` if an id of the data's tokens is another token for an encoder.
    Vocabularies are compared, since fingerprints also differ between ``vocab.txt`` and
    ``tokenizer.json`` of the same model. A checkpoint without a tokenizer fits any."""
    try:
        tokenizer = load_tokenizer(encoder)
    except InputError:  # it has none that can be read
        return
    if tokenizer.fingerprint == data.tokenizer.fingerprint:
        return
    own = {id: token for token, id in data.tokenizer.vocabulary.items()}
    if any(own.get(id, token) != token for token, id in tokenizer.vocabulary.items()):
        raise InputError(_prepared_with(_TOKENIZER, data.place, encoder))


def check_choices(data: ReadingQuestions, expected: Sequence[str], other: str) -> None:
    """Raises `InputError` if data offer other choices than these, of ``other``."""
    if choices(data.window_sizes) != tuple(expected):
        raise InputError(_prepared_with(_CHOICES, data.place, other))


def _prepared_with(other: str, place: str, expected: str) -> str:
    return f"{place}: prepared with {other} than {expected}"


def selector_loss_sum(logits: Array, holds: Array, batch: Mapping[str, Array]) -> Array:
    """Cross-entropy of a selector ``[R, 2]``, class 1 of which ``holds`` the answer, summed over
    real rows."""
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, holds.astype(jnp.int32))
    return jnp.sum(losses, where=batch["row_where"])


class WindowInputs(tuple[Window, ...]):
    """Windows in memory, as the inputs of a reader."""

    @property
    def sizes(self) -> np.ndarray:
        rows = [(window.num_tokens, len(window.solutions)) for window in self]
        return np.array(rows, np.int32).reshape(-1, 2)


@dataclasses.dataclass(frozen=True)
class WindowModel(EncoderModel):
    """A model that reads windows, with the tokenizer that they were cut with."""

    @staticmethod
    def tokenizer_for(config: Any, data: ReadingQuestions) -> Tokenizer:
        check_encoder(data, config.encoder)
        return data.tokenizer

    def inputs(self, data: ReadingQuestions) -> Inputs:
        return data.windows

    def check_lengths(self, buckets: Sequence[int]) -> None:
        check_lengths(self.config, self.encoder, buckets)
