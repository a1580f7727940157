"""Which sentence? A question with its Z, and what a model says of it, for people."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hardem_jax.show.record import Choose, Entry, Record, Text, View, everything


def question_record(data: Any, index: int, choose: Choose = everything) -> Record:
    """The sentences of Z below all sentences of the document."""
    question = data.questions[index]
    lines = [question.sentences[z] for z in question.solutions]
    return Record(
        title=question.question,
        solutions=[
            Entry(n, lines[n], f"sentence {question.solutions[n] + 1}") for n in choose(lines)
        ],
        size=len(lines),
        texts=[Text("Document", " ".join(question.sentences), [])],
    )


def views(
    task: Any, config: Any, data: Any, inputs: Any, readings: Sequence[tuple[int, Any]]
) -> list[View]:
    """What a model says about each question."""
    return [_view(data.questions[index], reading) for index, reading in readings]


def _view(question: Any, reading: Any) -> View:
    z = list(question.solutions)
    return View(
        id=question.id,
        question=question.question,
        answer=question.sentences[question.true] if question.true >= 0 else "",
        solutions=[question.sentences[i] for i in z],
        probabilities=np.exp(reading.solutions).tolist(),
        true=z.index(question.true) if question.true in z else -1,
        prediction=question.sentences[reading.choice],
        probability=float(np.exp(reading.log_prob)),
        predicted=z.index(reading.choice) if reading.choice in z else -1,
    )
