"""Z, as a sequence of solutions that knows how to show itself."""

from __future__ import annotations

import abc
import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, overload

import numpy as np

from hardem_jax.errors import InputError, found_by
from hardem_jax.show.html import as_html, document
from hardem_jax.show.record import Moment, Record, as_text


@dataclasses.dataclass(frozen=True)
class Solution:
    """One z.

    Attributes:
        text: as people read it: the words of a span, a formula, SQL.
        probability: P(z | x), from `Z.with_probabilities`; None if unknown.
    """

    text: str
    probability: float | None = dataclasses.field(default=None, kw_only=True)


S = TypeVar("S", bound=Solution)


@dataclasses.dataclass(frozen=True, repr=False)
class Z(Sequence[S], abc.ABC, Generic[S]):
    """Every solution of a question, in the order of training.

    A sequence: `len`, iteration, indices; a slice is a Z again. In a notebook it appears as HTML
    that needs no network and no JavaScript, in a terminal as text.

    Attributes:
        solutions: all of Z, or a slice of it.
        is_slice: whether Z may have others.
    """

    solutions: tuple[S, ...]
    is_slice: bool = dataclasses.field(default=False, kw_only=True)

    def __len__(self) -> int:
        return len(self.solutions)

    @overload
    def __getitem__(self, index: int) -> S: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> S | Self:
        if isinstance(index, slice):
            return dataclasses.replace(self, solutions=self.solutions[index], is_slice=True)
        return self.solutions[index]

    def __iter__(self) -> Iterator[S]:
        return iter(self.solutions)

    def with_probabilities(self, probabilities: Any) -> Self:
        """Returns the same Z with P(z | x) of each solution, which HTML shows as shades.

        Args:
            probabilities: ``[Z]`` numbers from 0 to 1, as a list, NumPy or JAX array; where you
                have log-probabilities, pass their `exp`.

        Raises:
            InputError: not one number from 0 to 1 for each solution.

        Example:
            >>> from hardem_jax import find_spans
            >>> z = find_spans("Cher met Cher.", ["Cher"]).with_probabilities([0.75, 0.125])
            >>> [(span.start, span.probability) for span in z]
            [(0, 0.75), (9, 0.125)]
        """
        try:
            values = np.asarray(probabilities, np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"probabilities: expected {len(self)} numbers, found what is no array: {error}"
            ) from error
        if values.shape != (len(self),):
            raise InputError(f"probabilities: expected {len(self)}, found shape {values.shape}")
        if not ((values >= 0) & (values <= 1)).all():  # false for NaN
            wrong = values[~((values >= 0) & (values <= 1))][0]
            raise InputError(f"probabilities: expected numbers from 0 to 1, found {wrong}")
        pairs = zip(self.solutions, values.tolist(), strict=True)
        found = tuple(dataclasses.replace(z, probability=value) for z, value in pairs)
        return dataclasses.replace(self, solutions=found)

    def __str__(self) -> str:
        return as_text(self.record())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The page that a notebook shows."""
        return as_html(self.record())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to an HTML file, which needs nothing else.

        Args:
            path: replaced if it is there.

        Raises:
            InputError: the file cannot be written.
        """
        record = self.record()
        whole = document(record.title, as_html(record))
        try:
            Path(path).write_text(whole, encoding="utf-8")
        except OSError as error:
            expected = "expected a file to write to"
            raise InputError(f"{path}: {expected}, found {found_by(error)}") from error

    @abc.abstractmethod
    def record(self) -> Record:
        """What text and page are made of."""

    def _moments(self) -> list[Moment]:
        chances = [z.probability for z in self]
        return [Moment(chances)] if any(p is not None for p in chances) else []
