"""Recall@n: the fraction of questions for which one of the top n passages mentions an answer.

A mention is defined as for Z (`hardem_jax.documents.mentions`): the words of an answer as
consecutive words of the passage. So 1 - recall@n is the fraction of questions without a solution.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from hardem_jax.documents.mentions import AliasMatcher, alias_forms, mentions_any
from hardem_jax.words import remove_invisible, split_words

_CUT_NEGATIONS = (" n't", " n\u2019t")


class AnswerFinder:
    """Callable that returns whether a text mentions one of the answers."""

    def __init__(self, answers: Sequence[str]):
        self._forms = {alias_forms(answer) for answer in answers} - {()}
        self._matcher = AliasMatcher(answers)

    def __call__(self, text: str) -> bool:
        # Fast path: most texts do not even contain the letters of an answer. Searching the whole
        # text is valid only if its words normalise independently of context and hold no blank: the
        # lower case of sigma depends on what follows, and "Ca n't" is read as "Can't".
        text = remove_invisible(text)
        lowered = unicodedata.normalize("NFKC", text.lower())  # "ǰ" is one character, "J̌" is two
        if (
            unicodedata.is_normalized("NFKC", text)
            and "Σ" not in text
            and not any(negation in lowered for negation in _CUT_NEGATIONS)
            and not any(all(form in lowered for form in forms) for forms in self._forms)
        ):
            return False
        return mentions_any(split_words(text), self._matcher)


class RecallCounts:
    """Counts the ranks, up to `depth`, at which questions first have a passage that mentions an
    answer."""

    def __init__(self, depth: int):
        self._first = np.zeros(depth + 1, np.int64)  # last entry: no passage has a mention
        self.questions = 0

    def add(self, answers: Sequence[str], passages: Iterable[str]) -> list[bool]:
        """Adds a question; returns whether each of its passages, best first, mentions an answer."""
        mentions_answer = AnswerFinder(answers)
        has_answer = [mentions_answer(text) for text in passages]
        self._first[has_answer.index(True) if True in has_answer else -1] += 1
        self.questions += 1
        return has_answer

    def at(self, n: int) -> float:
        """Returns recall@n, between 0 and 1; 0 without questions."""
        return float(self._first[: min(n, len(self._first) - 1)].sum()) / max(self.questions, 1)
