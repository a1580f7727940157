"""Draws solutions: the one that First-only trains on, and as many as a batch has room for."""

from __future__ import annotations

import dataclasses
import hashlib
import zlib
from typing import Any

import numpy as np


def fitting(id: str, count: int, room: int) -> np.ndarray:
    """Ascending indices of the solutions that a row has ``room`` for: all of ``count``, or the
    first, which First-only uses, and a sample of the others fixed by the id."""
    if count <= room:
        return np.arange(count)
    rng = np.random.default_rng(zlib.crc32(id.encode("utf-8", "surrogatepass")))
    others = 1 + rng.choice(count - 1, room - 1, replace=False)
    return np.concatenate([[0], np.sort(others)])


def draw_first(question: Any, solutions: str, seed: int) -> Any:
    """The question with a solution of its Z moved to the front, each with the same probability,
    which depends only on the seed and the question's id; the others keep their order."""
    rows: np.ndarray = getattr(question, solutions)
    if not len(rows):
        return question
    identity = hashlib.sha256(question.id.encode("utf-8", "surrogatepass")).digest()[:8]
    rng = np.random.default_rng([seed, int.from_bytes(identity, "little")])
    drawn = int(rng.integers(len(rows)))
    order = [drawn, *(place for place in range(len(rows)) if place != drawn)]
    changes: dict[str, Any] = {solutions: rows[order]}
    if (weights := getattr(question, "log_weights", None)) is not None:
        changes["log_weights"] = weights[order]
    if getattr(question, "true_equation", -1) >= 0:
        changes["true_equation"] = order.index(question.true_equation)
    return dataclasses.replace(question, **changes)
