"""Questions on numbers, as readers yield them, and with their numbers and Z."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardem_jax.equations.solutions.enumeration import NumberTable


@dataclass(frozen=True)
class NumericExample:
    """A question about a passage whose answer is a number.

    Attributes:
        id: question id, by which predictions are keyed.
        passage_id: shared by the questions on one passage, which are consecutive.
        passage: non-empty text, possibly truncated at the end.
        question: non-empty text.
        answer: y, finite; None in files for prediction.
        golds: the answer and the validated answers as in the file, for
            `hardem_jax.equations.metrics`: objects with "number", "date" and "spans".
        true_equation: the correct row ``(n1, o1, n2, o2)`` if known, as in a synthetic corpus.
            For measurement only, never for training.
    """

    id: str
    passage_id: str
    passage: str
    question: str
    answer: float | None
    golds: tuple[dict[str, Any], ...]
    true_equation: tuple[int, int, int, int] | None = None


@dataclass(frozen=True)
class NumericQuestion:
    """A question with its numbers and its Z.

    Attributes:
        id, passage_id, passage, question, golds: as in `NumericExample`
            (golds are a list once they have been on disk).
        spans: ``[M, 2]`` int32, characters of every number of the text: those of the passage,
            then those of the question, each in its own text.
        values: ``[N]`` float64, special numbers first, then those of ``spans``.
        kinds: ``[N]`` int8, SPECIAL, PASSAGE or QUESTION.
        equations: ``[Z, 4]`` int32, all of Z in document order.
        true_equation: index of the true equation in Z, -1 if unknown. Never for training.
    """

    id: str
    passage_id: str
    passage: str
    question: str
    golds: Sequence[dict[str, Any]]
    spans: np.ndarray
    values: np.ndarray
    kinds: np.ndarray
    equations: np.ndarray
    true_equation: int = -1

    @property
    def table(self) -> NumberTable:
        """The numbers by slot."""
        return NumberTable(self.values, self.kinds)
