"""Exact match of NQ-open's official evaluator (Lee et al., 2019), and F1 on the same words.

SQuAD's (`hardem_jax.documents.metrics.squad`) on text that Unicode has decomposed, so that an
answer equals a gold whichever way its accents are written. Accents themselves stay: "Beyonce" is
not "Beyoncé".

Example:
    >>> composed, decomposed = "Beyonc\\u00e9", "Beyonce\\u0301"
    >>> exact_match(composed, [decomposed]), exact_match("Beyonce", [composed])
    (1.0, 0.0)
"""

from __future__ import annotations

import unicodedata

from hardem_jax.documents.metrics import squad
from hardem_jax.metrics import StringMetrics


def normalize_answer(text: str) -> str:
    """`squad.normalize_answer` of the text's canonical decomposition (NFD).

    Example:
        >>> len(normalize_answer("The Beyonc\\u00e9")), len(squad.normalize_answer("Beyonc\\u00e9"))
        (8, 7)
    """
    return squad.normalize_answer(unicodedata.normalize("NFD", text))


_METRICS = StringMetrics(normalize_answer)
exact_match, f1, score = _METRICS.exact_match, _METRICS.f1, _METRICS.score
