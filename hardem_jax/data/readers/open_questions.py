"""Checks shared by readers of open-domain questions."""

from __future__ import annotations

from hardem_jax.data.exclusions import EMPTY_QUESTION, NO_ANSWER, ExclusionCounts
from hardem_jax.solutions.spans import split_words

# Reason of `ExclusionCounts`, for questions left out:
NO_WORD = "no word left in the question after normalisation"
# and warning, for questions kept:
REPEATED = "question id occurs again"


def find_defect(question: str, answers: tuple[str, ...], *, require_answers: bool) -> str | None:
    """Returns why a question cannot be used, as a reason of `ExclusionCounts`, or None.

    Example:
        >>> find_defect("?!", ("Rome",), require_answers=True)
        'no word left in the question after normalisation'
        >>> find_defect("which city", (" ",), require_answers=True)
        'no answer given'
    """
    if not question.strip():
        return EMPTY_QUESTION
    if not split_words(question).forms:
        return NO_WORD
    if require_answers and not any(answer.strip() for answer in answers):
        return NO_ANSWER
    return None


class IdCheck:
    """Warns about repeated question ids, because predictions are keyed by id.

    Example:
        >>> skips = ExclusionCounts()
        >>> check = IdCheck(skips)
        >>> for id in ("q1", "q2", "q1"):
        ...     check(id)
        >>> skips.warnings_as_dict()
        {'question id occurs again': 1}
    """

    def __init__(self, skips: ExclusionCounts):
        self._skips = skips
        self._seen: set[str] = set()

    def __call__(self, id: str) -> None:
        if id in self._seen:
            self._skips.warn(REPEATED, id)
        self._seen.add(id)
