"""Draws the solution that First-only trains on, which otherwise the order of Z decides."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any, TypeVar

import numpy as np

from hardem_jax.data.examples import NumericQuestion, ProgramQuestion, QueryQuestion

Question = TypeVar("Question", NumericQuestion, QueryQuestion, ProgramQuestion)
_FIELDS = {NumericQuestion: "equations", QueryQuestion: "queries", ProgramQuestion: "programs"}


def draw_first(question: Question, seed: int) -> Question:
    """The question with one solution of its Z moved to the front; the others keep their order.

    Each is drawn with the same probability, which depends on the seed and the question's id only.
    No other objective notices the order, except where a batch holds only the beginning of Z.

    Example:
        >>> none = np.zeros((0, 2), np.int32)
        >>> question = QueryQuestion("q", "Who?", "1-1", ("ann",), "execution", None, none,
        ...     np.arange(45, dtype=np.int16).reshape(3, 15), 3, 3)
        >>> [draw_first(question, seed).queries[:, 0].tolist() for seed in (0, 1)]
        [[15, 0, 30], [0, 15, 30]]
    """
    field = _FIELDS[type(question)]
    solutions: np.ndarray = getattr(question, field)
    if not len(solutions):
        return question
    identity = hashlib.sha256(question.id.encode("utf-8", "surrogatepass")).digest()[:8]
    rng = np.random.default_rng([seed, int.from_bytes(identity, "little")])
    drawn = int(rng.integers(len(solutions)))
    order = [drawn, *(place for place in range(len(solutions)) if place != drawn)]
    changes: dict[str, Any] = {field: solutions[order]}
    if isinstance(question, NumericQuestion) and question.true_equation >= 0:
        changes["true_equation"] = order.index(question.true_equation)
    return dataclasses.replace(question, **changes)
