"""Upper bounds for the ROUGE-L of package `rouge`, so that few spans need an exact score.

The package's overlap counts distinct words that a span and an answer share, namely those on
certain common subsequences (see `hardem_jax.solutions.rouge.score`). So the number u of all
distinct words they share is an upper bound. With n and m distinct words in span and answer,
F(l) = 2 l^2 / (n m) / (l / n + l / m + 1e-8) grows with l, hence F <= F(u). The three counts cost
a few additions per span; only spans whose bound reaches the best scores so far are scored exactly.
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
        max_words: K, length of the longest span.

    Example:
        >>> bounds = RougeBounds("the long knife .".split(), 2)
        >>> bounds.upper_bounds(["knife long"]).round(3).tolist()  # the F of "long knife" is 2/3
        [[0.0, 0.667, 0.667, 0.0], [0.5, 1.0, 0.667, 0.0]]
    """

    def __init__(self, tokens: Sequence[str], max_words: int):
        self._shape = (max_words, len(tokens))
        self._occurrences: dict[str, list[tuple[int, int, int]]] = {}
        for index, token in enumerate(tokens):
            # Only white space between two full stops makes an empty word, which a span contains
            # if it contains the tokens on both sides.
            if index and tokens[index - 1].endswith(".") and token.startswith("."):
                self._add("", index - 1, index)
            for word in token.split("."):
                if word:
                    self._add(word, index, index)
        self._in_span = self._num_distinct(list(self._occurrences))

    def upper_bounds(self, golds: Sequence[str]) -> np.ndarray:
        """``[K, W]`` float64: at ``[k, s]``, an upper bound of F for the k + 1 words from s on.

        Args:
            golds: the answers to one question; the highest of their bounds counts.
        """
        bound = np.zeros(self._shape)
        for gold in golds:
            words = {word for sentence in split_sentences(gold) for word in sentence}
            if words:
                shared = self._num_distinct([word for word in words if word in self._occurrences])
                np.maximum(bound, _f(shared, self._in_span, len(words)), out=bound)
        return bound

    def _add(self, word: str, first: int, last: int) -> None:
        """Records that spans which contain tokens ``first`` to ``last`` contain ``word``."""
        occurrences = self._occurrences.setdefault(word, [])
        previous = occurrences[-1][0] if occurrences else -1
        occurrences.append((first, last, previous))

    def _num_distinct(self, words: Sequence[str]) -> np.ndarray:
        """``[K, W]`` int: how many of the distinct ``words`` each span contains."""
        num_sizes, num_words = self._shape
        occurrences = [occurrence for word in words for occurrence in self._occurrences[word]]
        first, last, previous = np.array(occurrences, np.int64).reshape(-1, 3).T
        # An occurrence is new to the spans that end with its last token and start after its
        # previous occurrence, which already counts the word, and no later than its first token.
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
    """Scores exactly the candidates that can be among the ``keep`` best, including ties.

    Args:
        tokens: words of the document.
        golds: the answers; the best score over them counts.
        candidates: ``[N, 2]`` int, number of words - 1 and first word of each span.
        bounds: ``[N]`` float64, upper bounds of their scores.
        keep: number of best spans wanted.

    Returns:
        The scored candidates ``[M, 2]`` and their scores ``[M]`` float64. No other candidate
        reaches the score of the ``keep``-th best.
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
    """`f_1_0_1` for arrays, bit for bit: the same operations in the same order."""
    precision, recall = shared / np.maximum(in_span, 1), shared / in_gold
    return 2.0 * ((precision * recall) / (precision + recall + SMALL_1_0_1))
