"""Mentions of an answer in a document, to look at."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hardem_jax.documents.mentions import AliasMatcher, enumerate_spans, execute_span
from hardem_jax.documents.show import mentions_record, read_windows, window_texts
from hardem_jax.errors import check_text, check_texts
from hardem_jax.show.base import Solution, Z
from hardem_jax.show.record import (
    Choose,
    Entry,
    Record,
    Text,
    View,
    count,
    everything,
    in_context,
    uses,
)
from hardem_jax.words import split_words

if TYPE_CHECKING:
    from hardem_jax.documents.prepared import Question
    from hardem_jax.documents.windows import Window


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

    def record(self) -> Record:
        return Record(
            title=f"{count(len(self), 'span')} in {count(len(self.document), 'character')}",
            notes=self._notes(),
            solutions=[Entry(i, z.text, f"{z.start}-{z.end}") for i, z in enumerate(self)],
            size=len(self),
            texts=[Text("", self.document, uses([[(z.start, z.end)] for z in self]))],
            moments=self._moments(),
        )

    def _notes(self) -> list[str]:
        if len(self) or self.is_slice:
            return []
        if not self.aliases:
            return ["There is no alias to look for."]
        return [f"No mention of {', '.join(map(repr, self.aliases))}."]


def find_spans(text: str, aliases: str | Iterable[str]) -> Spans:
    """Finds every mention of an answer in a text: Z of reading (Min et al., 2019, section 4.1).

    Case, punctuation and the articles a, an, the make no difference as far as the official metrics
    ignore them, and mentions begin and end at word boundaries; see `hardem_jax.documents.mentions`.

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
    check_text(text, "text")
    names = (aliases,) if isinstance(aliases, str) else check_texts(aliases, "aliases")
    found = enumerate_spans(split_words(text), AliasMatcher(names)).tolist()
    return Spans(tuple(Span(execute_span(text, a, b), a, b) for a, b in found), text, names)


def window_record(
    question: Question, windows: Sequence[Window], choose: Choose = everything
) -> Record:
    """A question on documents, given the windows of them that a split holds."""
    several = len({window.document for window in windows}) > 1
    found: dict[tuple[int, int, int], Entry] = {}
    for window in windows:
        for z in range(len(window.solutions)):
            place, line = mention(window, z)
            document, a, b = place
            where = f"{document + 1}: " if several else ""
            where = f"{where}{a:,}-{b:,}" if a >= 0 else "in front of every window"
            text = window.span_text(*window.solutions[z])
            found.setdefault(place, Entry(len(found), text, where, line))
    texts = functools.partial(window_texts, windows)
    return mentions_record(question, found, question.num_solutions, choose, texts)


def question_record(data: Any, index: int, choose: Choose = everything) -> Record:
    """A question of `hardem_jax.documents.questions.ReadingQuestions` with its Z."""
    return window_record(data.questions[index], data.windows_of(index), choose)


def mention(window: Window, z: int) -> tuple[tuple[int, int, int], str]:
    """Document and characters of a mention in Z, and its text among its neighbours."""
    place = window.place(*window.solutions[z])
    if place[1] < 0:  # a choice
        return place, window.span_text(*window.solutions[z])
    start, end = place[1] - window.text_start, place[2] - window.text_start
    return place, in_context(window.text[window.lead :], start, end)


def views(
    task: Any, config: Any, data: Any, inputs: Any, readings: Sequence[tuple[int, Any]]
) -> list[View]:
    """What a model says about each question. P(z), also that of the prediction, is within a window;
    where windows overlap, the larger counts."""
    del config
    return [_view(task, *asked) for asked in read_windows(data, inputs, readings)]


def _view(task: Any, question: Question, windows: Sequence[tuple[Window, Any]]) -> View:
    chances: dict[tuple[int, int, int], float] = {}
    texts, true = {}, None
    for window, reading in windows:
        for z, log_prob in enumerate(reading.solutions):
            span, text = mention(window, z)
            texts.setdefault(span, text)
            chances[span] = max(chances.get(span, 0.0), float(np.exp(log_prob)))
            true = span if z == window.true_solution else true
    spans = list(chances)
    answer = next(iter(task.answers(reading for _, reading in windows)), None)
    likely = [
        float(np.exp(log_prob))
        for _, reading in windows
        for span, log_prob in zip(reading.spans, reading.log_probs, strict=True)
        if answer is not None and span == answer.span
    ]
    return View(
        id=question.id,
        question=question.question,
        answer=question.golds[0] if question.golds else "",  # of a test set, unknown
        solutions=[texts[span] for span in spans],
        probabilities=[chances[span] for span in spans],
        true=spans.index(true) if true in chances else -1,
        prediction="" if answer is None else answer.text,
        probability=max(likely, default=0.0),
        predicted=spans.index(answer.span) if answer and answer.span in chances else -1,
        spans=[answer.span] if answer else (),
    )
