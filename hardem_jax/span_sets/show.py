"""Sets of mentions in a window of a document, to look at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hardem_jax.documents.prepared import Question
from hardem_jax.documents.show import read_windows, window_texts
from hardem_jax.documents.windows import Window
from hardem_jax.show.record import Choose, Entry, Record, View, everything
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
    lines = [_line(window, tokens) for tokens in marked if window is not None]
    entries, spans = [], []
    for number in choose(lines):
        assert window is not None
        entries.append(Entry(number, lines[number]))
        spans.append([window.place(*tokens) for tokens in marked[number]])
    return Record(
        title=question.question,
        answer=", ".join(dict.fromkeys(question.golds)),
        solutions=entries,
        size=question.num_solutions,
        texts=window_texts(windows, spans),
    )


def _line(window: Window, spans: Sequence[tuple[int, int]]) -> str:
    """Texts and places of a tagging: the same names may be marked in several places."""
    places = ", ".join(f"{a:,}-{b:,}" for _, a, b in (window.place(*span) for span in spans))
    return f"{marked_text(window, spans)} ({places})"


def question_record(data: Any, index: int, choose: Choose = everything) -> Record:
    """A question of `hardem_jax.span_sets.task.TaggingQuestions` with its Z."""
    return tagging_record(data.questions[index], data.windows_of(index), choose)


def views(
    task: Any, config: Any, data: Any, inputs: Any, readings: Sequence[tuple[int, Any]]
) -> list[View]:
    """What a model says about each question, with the largest Z of its windows. P(z) is that in
    this window; that of the prediction is its answer's, see
    `hardem_jax.span_sets.task.TaggedAnswer`."""
    return [_view(task, config, *asked) for asked in read_windows(data, inputs, readings)]


def _view(
    task: Any, config: Any, question: Question, windows: Sequence[tuple[Window, Any]]
) -> View:
    texts, places, probabilities = [], [], []
    if (best := window_with_z([window for window, _ in windows])) is not None:
        window, reading = windows[best]
        marked = marked_tokens(
            window, max_mentions=config.max_mentions, max_taggings=config.max_taggings
        )[: len(reading.solutions)]
        texts = [_line(window, spans) for spans in marked]
        places = [{window.place(*span) for span in spans} for spans in marked]
        probabilities = [math.exp(log_prob) for log_prob in reading.solutions]
    answer = task.answer(reading for _, reading in windows)
    predicted = set(answer.spans) if answer else None
    return View(
        id=question.id,
        question=question.question,
        answer=", ".join(dict.fromkeys(question.golds)),
        solutions=texts,
        probabilities=probabilities,
        true=-1,
        prediction=" | ".join(answer.texts) if answer else "",
        probability=answer.probability if answer else 0.0,
        predicted=places.index(predicted) if predicted in places else -1,
        spans=answer.spans if answer else (),
    )
