"""What a learned reward reads of a question and a solution, see `search.likelihoods.MERL`.

A reward is log-linear in a few hundred features, so that it cannot learn single questions by heart.
Most are *crossed* with the question: a decision of the solution, such as its aggregator, together
with each of `CUES`, groups of English words that ask for something. The others say how well a
solution fits its question, whatever either is about.

Cues are found in the text once, before training. All else is computed on the device from what a
batch has anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array

#: Groups of words, as regular expressions between word boundaries, in lower case.
CUES = {
    "how many": r"how many|number of|amount of",
    "how much": r"how (much|long|old|tall|far)",
    "total": r"total|sum|combined|altogether|in all",
    "average": r"average|mean",
    "difference": r"difference|than|between",
    "more": r"more|over|greater|above|higher|larger|exceeds?|at least|after|later",
    "less": r"less|under|fewer|below|lower|smaller|at most|before|earlier",
    "most": r"most|highest|largest|maximum|max|biggest|greatest|best|longest|latest|last|top",
    "least": r"least|lowest|smallest|minimum|min|fewest|worst|shortest|earliest|first",
    "next": r"next|previous|following|right (after|before)",
    "same": r"same|other|also|besides|share[ds]?",
    "not": r"not|no|never|without|except|\w+n't",
    "or": r"or|either",
    "when": r"when|what (year|date|day|month)|which (year|date|day|month)",
    "who": r"who|whose|whom|name",
}
_PATTERNS = [re.compile(rf"(?<!\w)(?:{words})(?!\w)") for words in CUES.values()]


def cues_of(questions: Iterable[str]) -> np.ndarray:
    """Which of `CUES` each question has, ``[N, K]`` bool."""
    rows = [[bool(p.search(text.lower())) for p in _PATTERNS] for text in questions]
    return np.array(rows, bool).reshape(-1, len(CUES))


def crossed(decisions: Array, cues: Array) -> Array:
    """Decisions ``[B, N, D]`` by themselves and with each of the cues: ``[B, N, D (1 + K)]``.

    Example:
        >>> crossed(jnp.array([[[0, 1], [2, 0]]]), jnp.array([[True, False]])).tolist()
        [[[0.0, 0.0, 0.0, 1.0, 1.0, 0.0], [2.0, 2.0, 0.0, 0.0, 0.0, 0.0]]]
    """
    always = jnp.concatenate([jnp.ones((len(cues), 1)), cues.astype(jnp.float32)], axis=1)
    products = decisions.astype(jnp.float32)[..., None] * always[:, None, None]
    return products.reshape(*decisions.shape[:2], -1)


def look_up(values: Array, places: Array) -> Array:
    """``[B, M, ...]``, ``[B, *S]`` int -> ``[B, *S, ...]``; any value where a place is below 0."""
    return jax.vmap(lambda row, place: row[jnp.maximum(place, 0)])(values, places)


def crossed_names(decisions: Iterable[str]) -> list[str]:
    return [name for one in decisions for name in (one, *(f"{one}, {cue}" for cue in CUES))]
