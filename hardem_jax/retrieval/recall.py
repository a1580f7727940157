"""Recall@n: for how many questions one of the best n passages mentions an answer.

A mention is what Z is made of later (`hardem_jax.solutions.spans`): the words of an answer, in a
row, in the text of the passage. So 1 - recall@n is the share of questions without a solution.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from hardem_jax.solutions.spans import AliasMatcher, enumerate_spans, split_words


class AnswerFinder:
    """Whether a text mentions one of some answers.

    Example:
        >>> mentions = AnswerFinder(["the Daily Herald", "Herald"])
        >>> mentions("In the Daily (Herald)."), mentions("Heraldry.")
        (True, False)
    """

    def __init__(self, answers: Sequence[str]):
        self._forms = {split_words(answer).forms for answer in answers} - {()}
        self._matcher = AliasMatcher(answers)

    def __call__(self, text: str) -> bool:
        # Most texts have not even the letters. That can be seen in the whole text if its words
        # are normalised as they stand; a final sigma depends on what stands behind it.
        if unicodedata.is_normalized("NFKC", text) and "Σ" not in text:
            lowered = text.lower()
            if not any(all(form in lowered for form in forms) for forms in self._forms):
                return False
        return len(enumerate_spans(split_words(text), self._matcher)) > 0


class RecallCounts:
    """Counts over questions at which rank the first mention of an answer stands.

    Args:
        depth: passages per question, at most; recall is known up to there.

    Attributes:
        questions: how many were added.

    Example:
        >>> recall = RecallCounts(2)
        >>> recall.add(["Rome"], ["Bonn is not.", "Rome is old."])
        [False, True]
        >>> recall.add(["Paris"], ["Bonn is not.", "Rome is old."])
        [False, False]
        >>> recall.at(1), recall.at(2)
        (0.0, 0.5)
    """

    def __init__(self, depth: int):
        self._first = np.zeros(depth + 1, np.int64)  # the last: none has a mention
        self.questions = 0

    def add(self, answers: Sequence[str], passages: Iterable[str]) -> list[bool]:
        """Count a question.

        Args:
            answers: its answers.
            passages: the texts of its passages, best first.

        Returns:
            For each passage, whether it mentions an answer.
        """
        mentions = AnswerFinder(answers)
        found = [mentions(text) for text in passages]
        self._first[found.index(True) if True in found else -1] += 1
        self.questions += 1
        return found

    def at(self, n: int) -> float:
        """Recall@n, between 0 and 1; 0 if there is no question."""
        return float(self._first[: min(n, len(self._first) - 1)].sum()) / max(self.questions, 1)
