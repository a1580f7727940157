"""Sets of mentions in a window of a document, to look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hardem_jax.documents.prepared import Question
from hardem_jax.documents.show import window_texts
from hardem_jax.documents.windows import Window
from hardem_jax.show.record import Choose, Entry, Record, everything
from hardem_jax.span_sets.inputs import marked_text, marked_tokens, window_with_z

#: Taggings of a question that are shown; a run is trained on no more by default.
LIMITS = {"max_mentions": 32, "max_taggings": 128}


def tagging_record(
    question: Question, windows: Sequence[Window], choose: Choose = everything
) -> Record:
    """A question on a document, with the largest Z of its windows."""
    best = window_with_z(windows)
    window = None if best is None else windows[best]
    marked = [] if window is None else marked_tokens(window, **LIMITS)
    lines = [marked_text(window, tokens) for tokens in marked if window is not None]
    entries, spans = [], []
    for number in choose(lines):
        assert window is not None
        places = [window.place(*tokens) for tokens in marked[number]]
        where = ", ".join(f"{a:,}-{b:,}" for _, a, b in places)
        entries.append(Entry(number, lines[number], where))
        spans.append(places)
    return Record(
        title=question.question,
        answer=", ".join(dict.fromkeys(question.golds)),
        solutions=entries,
        size=question.num_solutions,
        texts=window_texts(windows, spans),
    )


def question_record(data: Any, index: int, choose: Choose = everything) -> Record:
    """A question of `hardem_jax.span_sets.task.TaggingQuestions` with its Z."""
    return tagging_record(data.questions[index], data.windows_of(index), choose)
