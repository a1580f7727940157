"""Z, as a sequence of solutions that knows how to show itself."""

from __future__ import annotations

import abc
import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, overload
from xml.etree.ElementTree import Element

import numpy as np

from hardem_jax.errors import InputError, found_by, printable
from hardem_jax.notebook import page

_LINES = 12
_WIDTH = 60


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
        lines = [printable(self._title())]
        lines += [f"  {printable(note)}" for note in self._notes()]
        shown = self._best_first()[:_LINES]
        rows = []
        for index in shown:
            z = self.solutions[index]
            chance = "" if z.probability is None else f"{z.probability:.3f}"
            rows.append((f"[{index}]", _cut(printable(z.text)), chance, self._place(z)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width]
            lines.append("  " + "  ".join(cells).rstrip())
        if len(shown) < len(self):
            lines.append(f"  ... and {len(self) - len(shown):,} more")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The page that a notebook shows."""
        order = self._best_first()
        rows = [(i, self.solutions[i], self._place(self.solutions[i])) for i in order[: page.SHOWN]]
        listed = page.solution_list(rows, len(self) - len(rows))
        notes = self._notes()
        if any(z.probability is not None for z in self):
            notes.append("The shade is the probability that the solution uses it.")
        return page.page(self._title(), notes, [*self._body(), listed], order)

    def place(self, index: int) -> str:
        """Where a solution is, in a few words."""
        return self._place(self.solutions[index])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to an HTML file, which needs nothing else.

        Args:
            path: replaced if it is there.

        Raises:
            InputError: the file cannot be written.
        """
        whole = page.document(self._title(), self._repr_html_())
        try:
            Path(path).write_text(whole, encoding="utf-8")
        except OSError as error:
            expected = "expected a file to write to"
            raise InputError(f"{path}: {expected}, found {found_by(error)}") from error

    def _best_first(self) -> list[int]:
        """Indices by probability, if there are any."""
        return sorted(range(len(self)), key=lambda i: -(self.solutions[i].probability or 0.0))

    def _listed(self) -> frozenset[int]:
        """Solutions that light up in the text when one points at them."""
        return frozenset(self._best_first()[: page.LISTED])

    def _strength(self, indices: Sequence[int]) -> float:
        """How strongly to shade what these solutions have in common, from 0 to 1.

        With probabilities, this is the probability that one of them is the solution that is meant;
        otherwise their share of Z, lifted so that the rarest can be seen.
        """
        values = [self.solutions[i].probability for i in indices]
        known = [value for value in values if value is not None]
        if known:
            return min(1.0, sum(known))
        return 0.35 + 0.5 * len(indices) / max(1, len(self))

    def _notes(self) -> list[str]:
        """Sentences below the title: what was left out, why there may be nothing."""
        return []

    @abc.abstractmethod
    def _title(self) -> str:
        """How many solutions, of what."""

    @abc.abstractmethod
    def _place(self, solution: S) -> str:
        """Where a solution is, in a few words."""

    @abc.abstractmethod
    def _body(self) -> list[Element]:
        """The document, passage or table, with the solutions marked in it."""


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun.

    Example:
        >>> count(1, "query", "queries"), count(1200, "span")
        ('1 query', '1,200 spans')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
