"""Mentions of an answer in a document, to look at."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from xml.etree.ElementTree import Element

from hardem_jax.notebook.base import Solution, Z, count
from hardem_jax.notebook.marks import Mark, marked_text
from hardem_jax.solutions.arguments import check_texts
from hardem_jax.solutions.spans import AliasMatcher, enumerate_spans, execute_span
from hardem_jax.words import split_words


@dataclasses.dataclass(frozen=True)
class Span(Solution):
    """A mention of the answer.

    Attributes:
        start: its first character.
        end: the character behind its last.
    """

    start: int
    end: int


@dataclasses.dataclass(frozen=True, repr=False)
class Spans(Z[Span]):
    """Z of a question on a document.

    Attributes:
        document: the whole text.
        aliases: the strings that count as the answer.
    """

    document: str
    aliases: tuple[str, ...]

    def _title(self) -> str:
        return f"{count(len(self), 'span')} in {count(len(self.document), 'character')}"

    def _notes(self) -> list[str]:
        if len(self) or self.is_slice:
            return []
        if not self.aliases:
            return ["There is no alias to look for."]
        notes = [
            f"{alias!r} has no words." for alias in self.aliases if not split_words(alias).forms
        ]
        others = [repr(alias) for alias in self.aliases if split_words(alias).forms]
        if others:
            notes.append(f"No mention of {', '.join(others)}.")
        return notes

    def _place(self, solution: Span) -> str:
        return f"{solution.start}-{solution.end}"

    def _body(self) -> list[Element]:
        marks = [Mark(z.start, z.end, (i,)) for i, z in enumerate(self)]
        return [marked_text(self.document, marks, self._listed(), self._strength)]


def find_spans(text: str, aliases: str | Iterable[str]) -> Spans:
    """Finds every mention of an answer in a text: Z of reading (Min et al., 2019, section 4.1).

    Case, punctuation and the articles a, an, the make no difference as far as the official metrics
    ignore them, and mentions begin and end at word boundaries; `hardem_jax.solutions.spans` has the
    rules.

    Args:
        text: a document.
        aliases: the strings that count as the answer, or one of them.

    Returns:
        The spans in document order; they may overlap.

    Raises:
        TypeError: ``text`` or an alias is not a string.

    Example:
        >>> z = find_spans("The Sun was once the Daily Herald. Daily (Herald) readers left.",
        ...                ["The Daily Herald", "Herald"])
        >>> [span.text for span in z]
        ['Daily Herald', 'Herald', 'Daily (Herald', 'Herald']
        >>> z[0].start, z[0].end
        (21, 33)
        >>> z
        4 spans in 63 characters
          [0]  Daily Herald   21-33
          [1]  Herald         27-33
          [2]  Daily (Herald  35-48
          [3]  Herald         42-48
    """
    names = (aliases,) if isinstance(aliases, str) else check_texts(aliases, "aliases")
    found = enumerate_spans(split_words(text), AliasMatcher(names)).tolist()
    solutions = tuple(Span(execute_span(text, a, b), a, b) for a, b in found)
    return Spans(solutions, text, names)
