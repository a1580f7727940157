"""Draws solutions: the one that First-only trains on, and as many as a batch has room for."""

from __future__ import annotations

import dataclasses
import hashlib
import zlib
from typing import Any, TypeVar

import numpy as np

from hardem_jax.data.examples import NumericQuestion, ProgramQuestion, QueryQuestion

Question = TypeVar("Question", NumericQuestion, QueryQuestion, ProgramQuestion)
_FIELDS = {NumericQuestion: "equations", QueryQuestion: "queries", ProgramQuestion: "programs"}


def fitting(id: str, count: int, room: int) -> np.ndarray:
    """Which solutions of a question are in its row of a batch.

    All of them, or the first, which First-only uses, and a fixed uniform sample of the others.

    Args:
        id: of the question.
        count: |Z|.
        room: how many a row holds, at least 1.

    Returns:
        ``[min(count, room)]`` int, ascending.

    Example:
        >>> fitting("q", 3, 4), fitting("q", 9, 4)
        (array([0, 1, 2]), array([0, 2, 6, 7]))
    """
    if count <= room:
        return np.arange(count)
    rng = np.random.default_rng(zlib.crc32(id.encode("utf-8", "surrogatepass")))
    others = 1 + rng.choice(count - 1, room - 1, replace=False)
    return np.concatenate([[0], np.sort(others)])


def draw_first(question: Question, seed: int) -> Question:
    """The question with one solution of its Z moved to the front; the others keep their order.

    Each is drawn with the same probability, which depends only on the seed and the question's id.
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
    if (weights := getattr(question, "log_weights", None)) is not None:
        changes["log_weights"] = weights[order]
    if isinstance(question, NumericQuestion) and question.true_equation >= 0:
        changes["true_equation"] = order.index(question.true_equation)
    return dataclasses.replace(question, **changes)
