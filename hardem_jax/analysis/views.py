"""What a model says about single questions, for people."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class View:
    """What a model says about a question at one moment.

    Attributes:
        id: of the question.
        question, answer: as people read them.
        solutions: the texts of Z, in its order.
        probabilities: P(z | x) of each.
        true: index of the true solution in Z; -1 if it is unknown or not there.
        prediction: the text of the most likely solution of Z_tot; empty if there is none.
        probability: its P(z | x).
        predicted: its index in Z; -1 if it is not there.
    """

    id: str
    question: str
    answer: str
    solutions: Sequence[str]
    probabilities: Sequence[float]
    true: int
    prediction: str
    probability: float
    predicted: int
