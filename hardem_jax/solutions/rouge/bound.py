"""The package's ROUGE-L for every span of a document, exactly, without scoring each.

What the package counts as overlap are distinct words that a span and an answer share (see
`hardem_jax.solutions.rouge.score`): those that also stand on certain common subsequences. So the
number u of distinct words they share at all is an upper bound of it. With the numbers n and m of
their distinct words, F(l) = 2 l^2 / (n m) / (l / n + l / m + 1e-8) grows with l, hence
F <= F(u). The three counts cost a few additions for each span; only spans whose bound reaches
the scores found so far are given to the package's own way of counting.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from hardem_jax.solutions.rouge.score import SMALL_1_0_1, f_1_0_1, overlap, split_sentences


class RougeBounds:
    """Upper bounds for the spans of one document.

    Args:
        tokens: W words of the document, separated by blanks in its text.
        max_words: K, longest span.

    Example:
        >>> bounds = RougeBounds("the long knife .".split(), 2)
        >>> bounds.of(["knife long"]).round(3).tolist()  # [K, W]; "long knife" would have 2/3
        [[0.0, 0.667, 0.667, 0.0], [0.5, 1.0, 0.667, 0.0]]
    """

    def __init__(self, tokens: Sequence[str], max_words: int):
        self._shape = (max_words, len(tokens))
        self._occurrences: dict[str, list[tuple[int, int, int]]] = {}
        for place, token in enumerate(tokens):
            # Full stops with white space alone between them make an empty word, which a span
            # has if it has the tokens on both sides.
            if place and tokens[place - 1].endswith(".") and token.startswith("."):
                self._add("", place - 1, place)
            for word in token.split("."):
                if word:
                    self._add(word, place, place)
        self._in_span = self._num_distinct(list(self._occurrences))

    def of(self, golds: Sequence[str]) -> np.ndarray:
        """``[K, W]`` float64: F of the span of k + 1 words from s on is no more than this.

        Args:
            golds: the answers to one question, as texts; the highest of their bounds counts.
        """
        bound = np.zeros(self._shape)
        for gold in golds:
            words = {word for sentence in split_sentences(gold) for word in sentence}
            if words:
                shared = self._num_distinct([word for word in words if word in self._occurrences])
                np.maximum(bound, _f(shared, self._in_span, len(words)), out=bound)
        return bound

    def _add(self, word: str, first: int, last: int) -> None:
        """Notes that spans from ``first`` or before it, to ``last`` or behind it, have ``word``."""
        before = self._occurrences.setdefault(word, [])
        previous = before[-1][0] if before else -1
        before.append((first, last, previous))

    def _num_distinct(self, words: Sequence[str]) -> np.ndarray:
        """``[K, W]`` int: how many of the words each span has."""
        num_sizes, num_words = self._shape
        places = [place for word in words for place in self._occurrences[word]]
        first, last, previous = np.array(places, np.int64).reshape(-1, 3).T
        # With its last token, an occurrence joins the spans that begin between the one before
        # it, which would have brought the word already, and its own first token.
        start = last - np.arange(num_sizes)[:, None]
        joins = (start > previous) & (start <= first)
        joined = start + num_words * np.arange(num_sizes)[:, None]
        counts = np.bincount(joined[joins], minlength=num_sizes * num_words)
        return counts.reshape(self._shape).cumsum(axis=0)


def rescore(
    tokens: Sequence[str],
    golds: Sequence[str],
    candidates: np.ndarray,
    bounds: np.ndarray,
    *,
    keep: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Exact scores of the candidates that can be among the ``keep`` best, ties included.

    Args:
        tokens: words of the document.
        golds: answers; the one that scores best counts.
        candidates: ``[N, 2]`` int, words - 1 and first word of each span.
        bounds: ``[N]`` float64, upper bounds of their scores.
        keep: so many best spans are wanted.

    Returns:
        The candidates that were scored, ``[M, 2]``, and their scores ``[M]`` float64. None of
        the others reaches the score of the ``keep``-th best.
    """
    sentences = [split_sentences(gold) for gold in golds]
    known: dict[str, float] = {}
    best: list[float] = []
    scores: list[float] = []
    order = np.argsort(-bounds, kind="stable")
    for candidate in order:
        if len(best) == keep and bounds[candidate] < best[0]:
            break
        last, first = candidates[candidate].tolist()
        text = " ".join(tokens[first : first + last + 1])
        if text not in known:
            span = split_sentences(text)
            known[text] = max(f_1_0_1(*overlap(span, gold)).f for gold in sentences)
        scores.append(known[text])
        if len(best) < keep:
            heapq.heappush(best, scores[-1])
        else:
            heapq.heappushpop(best, scores[-1])
    return candidates[order[: len(scores)]], np.array(scores)


def _f(shared: np.ndarray, in_span: np.ndarray, in_gold: int) -> np.ndarray:
    """F of `f_1_0_1` for arrays, with the same operations and so the same last bits."""
    precision, recall = shared / np.maximum(in_span, 1), shared / in_gold
    return 2.0 * ((precision * recall) / (precision + recall + SMALL_1_0_1))
