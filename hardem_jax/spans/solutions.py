"""Spans of a document that resemble free-form answers (Min et al., 2019, section 4.1: NarrativeQA).

The answer need not occur in the document. A solution is a span of at most `max_words` words; Z
holds the spans whose ROUGE-L with one of the answers is the best, or nearly so. Scoring tens of
thousands of spans one by one would be slow; instead, `max_words` vectorised steps find the longest
common subsequences (LCS) of *all* spans with *all* answers of *all* questions on a document.

Bit-vector LCS (Crochemore et al., 2001; Hyyrö, 2004): bit i of a state V represents word i of
the answer, and the LCS of the text read so far is the number of zero bits. Reading a word whose
occurrences in the answer are the bits M takes V to (V + (V & M)) | (V & ~M). A span starts at
every word of the document; all states advance by one word at a time, so after step k they hold
the LCS of every span of k words.

Words are separated by white space and compared in lower case. Z is in document order (by start,
then by end), without duplicates, and every span shares a word that has a letter or digit with an
answer: a common full stop says nothing.

Example:
    >>> text = "Mark lives in Phoenix , Arizona . Nora loves phoenix ."
    >>> [z] = enumerate_rouge_spans(text, [["In Phoenix", "Phoenix , Arizona"]])
    >>> [text[start:end] for start, end in z.spans], z.scores.tolist()
    (['in Phoenix', 'Phoenix , Arizona'], [1.0, 1.0])
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence

import numpy as np

from hardem_jax.errors import check_many, check_text, check_texts, require

_WORD = re.compile(r"\S+")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_BITS = 64


@dataclasses.dataclass(frozen=True)
class RougeRules:
    """Which spans make up Z, by the F1 of their longest common subsequence with the nearest answer.

    The default is the paper's argmax rule: all spans with the best score. Its noisy variant is
    ``keep=5``: all spans that score at least as high as the fifth best. As in the released
    conversion, spans are counted, not distinct texts or scores: one text can fill all five places.

    Attributes:
        keep: number of best spans to keep; equal scores rank in document order.
        ties: also keep spans with the same score as the last one kept.
        minimum: minimum score of a span.
        max_words: maximum number of words in a span.
    """

    keep: int = 1
    ties: bool = True
    minimum: float = 0.5
    max_words: int = 40

    def __post_init__(self):
        require(self, "keep", "max_words", at_least=1)
        require(self, "minimum", above=0, at_most=1)


@dataclasses.dataclass(frozen=True)
class RougeSpans:
    """Z of a question.

    Attributes:
        spans: ``[Z, 2]`` int32, character start and exclusive end, in document order.
        scores: ``[Z]`` float64, that F1.
    """

    spans: np.ndarray
    scores: np.ndarray


def enumerate_rouge_spans(
    text: str, questions: Sequence[Sequence[str]], rules: RougeRules | None = None
) -> list[RougeSpans]:
    """Z of every question on a document.

    Args:
        text: the document, W words separated by white space.
        questions: the answers of each, tokenised like the text. One without any has an empty Z.
        rules: which spans make up Z; None for the argmax rule.

    Returns:
        One Z per question, in order. Memory: two bytes for each answer and each of the
        ``W * max_words`` spans, and some more.

    Raises:
        TypeError: something is not a string, or a string is passed instead of a list of answers.

    Example:
        >>> [z] = enumerate_rouge_spans("a b c a b", [["b c d"]], RougeRules(keep=2))
        >>> z.spans.tolist(), z.scores.tolist()  # "b c", and with 4/6: "a b c" and "b c a"
        ([[0, 5], [2, 5], [2, 7]], [0.6666666666666666, 0.8, 0.6666666666666666])
    """
    rules = rules or RougeRules()
    check_text(text, "text")
    check_many(questions, "questions", "lists of answers")
    golds = [
        [gold.lower().split() for gold in check_texts(answers, f"answers of question {index}")]
        for index, answers in enumerate(questions)
    ]
    words = [match.span() for match in _WORD.finditer(text)]
    offsets = np.array(words, np.int32).reshape(-1, 2)
    tokens = [text[start:end].lower() for start, end in words]
    lengths = iter(lcs_lengths(tokens, list(itertools.chain(*golds)), rules.max_words))
    sizes = np.arange(1, rules.max_words + 1)[:, None]
    solutions = []
    for answers in golds:
        scores = np.zeros((rules.max_words, len(tokens)))
        for answer in answers:
            # A single division, so that equal fractions give equal floats.
            f1 = 2.0 * next(lengths) / (sizes + len(answer))
            np.maximum(scores, f1, out=scores, where=_sharing(tokens, answer, rules.max_words))
        solutions.append(_select(scores, offsets, rules))
    return solutions


def lcs_lengths(
    words: Sequence[str], answers: Sequence[Sequence[str]], max_words: int
) -> np.ndarray:
    """LCS lengths of every span of a document with every answer.

    Args:
        words: W words of the document.
        answers: A lists of words; more than 64 words take several machine words.
        max_words: K, length of the longest span.

    Returns:
        ``[A, K, W]`` uint16: entry ``[a, k, s]`` is the length of the longest common subsequence
        of ``answers[a]`` and ``words[s : s + k + 1]``.

    Example:
        >>> lcs_lengths("a b a c".split(), ["a c".split(), ["b"]], 3).tolist()
        [[[1, 0, 1, 1], [1, 1, 2, 1], [1, 2, 2, 1]], [[0, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]]]
    """
    words = check_texts(words, "words")
    answers = [check_texts(answer, "answers") for answer in answers]
    masks = _occurrences(words, answers, max_words)
    num_parts, num_answers, padded = masks.shape
    num_words = padded - max_words
    states = np.full((num_parts, num_answers, num_words), np.iinfo(np.uint64).max)
    lengths = np.empty((num_answers, max_words, num_words), np.uint16)
    for k in range(max_words):
        # Past the end of the document there are no occurrences, so nothing changes.
        _advance(states, masks[:, :, k : k + num_words])
        lengths[:, k] = num_parts * _BITS - np.bitwise_count(states).sum(axis=0, dtype=np.uint16)
    return lengths


def _occurrences(
    words: Sequence[str], answers: Sequence[Sequence[str]], max_words: int
) -> np.ndarray:
    """``[L, A, W + K]`` uint64 bit masks: where each word of the document occurs in each answer.
    The K words past the end occur nowhere."""
    word_ids = {word: index for index, word in enumerate(dict.fromkeys(words))}
    num_parts = max(1, *(-(-len(answer) // _BITS) for answer in answers), 0)
    table = np.zeros((num_parts, len(answers), len(word_ids) + 1), np.uint64)
    for a, answer in enumerate(answers):
        for i, word in enumerate(answer):
            if word in word_ids:
                table[i // _BITS, a, word_ids[word]] |= np.uint64(1 << i % _BITS)
    return table[:, :, [word_ids[word] for word in words] + [len(word_ids)] * max_words]


def _advance(states: np.ndarray, masks: np.ndarray) -> None:
    """Reads one more word, in place; the L machine words of a state form one long integer."""
    carry: np.ndarray | None = None
    for state, mask in zip(states, masks, strict=True):
        kept = state & mask
        total = state + kept
        if len(states) > 1:
            overflow = total < kept
            if carry is not None:
                total += carry
                # A sum that overflowed is at most 2^64 - 2, so it cannot overflow again.
                overflow |= total < carry
            carry = overflow.astype(np.uint64)
        np.bitwise_or(total, state - kept, out=state)


def _sharing(tokens: Sequence[str], answer: Sequence[str], max_words: int) -> np.ndarray:
    """``[K, W]`` bool: whether k + 1 words from s on exist, one of them a word of the answer with a
    letter or digit."""
    starts = np.arange(len(tokens))
    said = {word for word in answer if _LETTER_OR_DIGIT.search(word)}
    # The first such word from s on.
    found = np.where([token in said for token in tokens], starts, len(tokens))
    first = np.minimum.accumulate(found[::-1])[::-1]
    last = starts + np.arange(max_words)[:, None]
    return (first <= last) & (last < len(tokens))


def _select(scores: np.ndarray, offsets: np.ndarray, rules: RougeRules) -> RougeSpans:
    """Z of one question, given the F1 of every span, ``[K, W]``, and the places of the words."""
    more, first = np.nonzero(scores >= rules.minimum)
    scores = scores[more, first]
    ranked = np.lexsort((more, first, -scores))
    num_kept = min(rules.keep, len(scores))
    if rules.ties and num_kept:
        num_kept = int(np.sum(scores >= scores[ranked[num_kept - 1]]))
    chosen = ranked[:num_kept]
    chosen = chosen[np.lexsort((more[chosen], first[chosen]))]
    spans = np.stack([offsets[first[chosen], 0], offsets[first[chosen] + more[chosen], 1]], axis=1)
    return RougeSpans(spans.astype(np.int32), scores[chosen])
