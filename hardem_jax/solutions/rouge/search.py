"""Spans of a document that resemble free-form answers (Min et al., 2019, section 4.1: NarrativeQA).

The answer need not stand in the document. A solution is a span of at most `max_words` words; Z
holds the spans whose ROUGE-L with one of the answers is the best, or nearly so. There are tens of
thousands of spans, so that none is scored alone: the longest common subsequences (LCS) of *all*
spans with *all* answers of *all* questions on a document are found in `max_words` steps.

Bit-vector LCS (Crochemore et al., 2001; Hyyrö, 2004): bit i of a state V stands for word i of
the answer, and the LCS of the text read so far is the number of bits that are 0. Reading a word
whose occurrences in the answer are the bits M takes V to (V + (V & M)) | (V & ~M). Every word of
the document begins a span of its own; all states advance by one word at a time, so that after
step k they hold the LCS of every span of k words.

Words are cut at white space and compared lower-cased. Z is in document order (by start, then by
end) and without duplicates, and every span holds a letter or digit.

Example:
    >>> text = "Mark lives in Phoenix , Arizona . Nora loves phoenix ."
    >>> [z] = enumerate_rouge_spans(text, [["In Phoenix", "Phoenix , Arizona"]])
    >>> [text[start:end] for start, end in z.spans], z.scores.tolist()
    (['in Phoenix', 'Phoenix , Arizona'], [1.0, 1.0])
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from hardem_jax.errors import require
from hardem_jax.solutions.arguments import check_choice, check_many, check_text, check_texts
from hardem_jax.solutions.rouge.bound import RougeBounds, rescore

Scorer = Literal["lcs", "pltrdy"]

_WORD = re.compile(r"\S+")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_BITS = 64
# Words of the document times answers that are looked at together: the states then fit a cache.
_CELLS_AT_ONCE = 1 << 16


@dataclasses.dataclass(frozen=True)
class RougeRules:
    """Which spans make up Z.

    The argmax rule of the paper is the default: all spans with the best score. Its noisy variant
    is ``keep=5``: score at least that of the fifth best. Spans are counted, as in the released
    conversion, not texts and not scores: a text that occurs five times leaves no other in.

    Attributes:
        scorer: "lcs", F1 of the longest common subsequence of tokens; or "pltrdy", what the
            package ``rouge`` 1.0.1 computes, full stops and repeated words passed over (see
            `hardem_jax.solutions.rouge.score`). Of the answers, the one that scores best counts.
        keep: so many spans, the best ones; equal scores go by document order.
        ties: whether spans that score the same as the last one kept are kept as well.
        minimum: least score of any span.
        max_words: longest span.
    """

    scorer: Scorer = "lcs"
    keep: int = 1
    ties: bool = True
    minimum: float = 0.5
    max_words: int = 40

    def __post_init__(self):
        check_choice(self.scorer, Scorer, "scorer")
        require(self, "keep", "max_words", at_least=1)
        require(self, "minimum", above=0, at_most=1)


@dataclasses.dataclass(frozen=True)
class RougeSpans:
    """Z of a question.

    Attributes:
        spans: ``[Z, 2]`` int32, character start and exclusive end, in document order.
        scores: ``[Z]`` float64, ROUGE-L F with the nearest answer.
    """

    spans: np.ndarray
    scores: np.ndarray


def enumerate_rouge_spans(
    text: str, questions: Sequence[Sequence[str]], rules: RougeRules | None = None
) -> list[RougeSpans]:
    """Z of every question on a document.

    Args:
        text: the document, words separated by white space (W of them).
        questions: the answers of each question, tokenised like the text. One without an
            answer has an empty Z.
        rules: which spans; None for the argmax rule.

    Returns:
        As many as `questions`, in their order. Memory: 8 MiB, or about 35 bytes ("pltrdy": 75)
        for each of the ``W * max_words`` spans if that is more.

    Raises:
        TypeError: something is not a string, or a string stands in place of a list of answers.

    Example:
        >>> [z] = enumerate_rouge_spans("a b c a b", [["b c d"]], RougeRules(keep=2))
        >>> z.spans.tolist(), z.scores.tolist()  # "b c", and with 4/6: "a b c" and "b c a"
        ([[0, 5], [2, 5], [2, 7]], [0.6666666666666666, 0.8, 0.6666666666666666])
    """
    rules = rules or RougeRules()
    check_text(text, "text")
    check_many(questions, "questions", "lists of answers")
    golds = [
        [gold.lower() for gold in check_texts(answers, f"answers of question {number}")]
        for number, answers in enumerate(questions)
    ]
    words = [match.span() for match in _WORD.finditer(text)]
    offsets = np.array(words, np.int32).reshape(-1, 2)
    tokens = [text[start:end].lower() for start, end in words]
    legal = _legal(tokens, rules.max_words)
    if rules.scorer == "lcs":
        found = _by_lcs(tokens, golds, legal, rules)
    else:
        found = _by_package(tokens, golds, legal, rules)
    return [_to_characters(spans, scores, offsets) for spans, scores in found]


def lcs_lengths(
    words: Sequence[str], answers: Sequence[Sequence[str]], max_words: int
) -> np.ndarray:
    """LCS of every span of a document with every answer.

    Args:
        words: W words of the document.
        answers: A lists of words; one of more than 64 takes several machine words.
        max_words: K, longest span.

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
        # Beyond the end of the document there are no occurrences, and nothing changes.
        _advance(states, masks[:, :, k : k + num_words])
        ones = np.bitwise_count(states).sum(axis=0, dtype=np.uint16)
        lengths[:, k] = num_parts * _BITS - ones
    return lengths


def _occurrences(
    words: Sequence[str], answers: Sequence[Sequence[str]], max_words: int
) -> np.ndarray:
    """``[L, A, W + K]`` uint64: where each word of the document stands in each answer, as bits.

    The K words behind the end stand nowhere.
    """
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    num_parts = max(1, *(-(-len(answer) // _BITS) for answer in answers), 0)
    table = np.zeros((num_parts, len(answers), len(numbers) + 1), np.uint64)
    for a, answer in enumerate(answers):
        for i, word in enumerate(answer):
            if word in numbers:
                table[i // _BITS, a, numbers[word]] |= np.uint64(1 << i % _BITS)
    places = [numbers[word] for word in words] + [len(numbers)] * max_words
    return table[:, :, places]


def _advance(states: np.ndarray, masks: np.ndarray) -> None:
    """Reads one more word, in place: the L machine words of each state are one long number."""
    carry: np.ndarray | None = None
    for state, mask in zip(states, masks, strict=True):
        kept = state & mask
        total = state + kept
        if len(states) > 1:
            overflow = total < kept
            if carry is not None:
                total += carry
                # A sum that has overflown is at most 2^64 - 2: it cannot do so again.
                overflow |= total < carry
            carry = overflow.astype(np.uint64)
        np.bitwise_or(total, state - kept, out=state)


def _legal(tokens: Sequence[str], max_words: int) -> np.ndarray:
    """``[K, W]`` bool: whether the span of k + 1 words from s on is one, with a letter or digit."""
    starts = np.arange(len(tokens))
    says = np.array([bool(_LETTER_OR_DIGIT.search(token)) for token in tokens], bool)
    # The first word from s on that holds a letter or digit.
    first = np.minimum.accumulate(np.where(says, starts, len(tokens))[::-1])[::-1]
    last = starts + np.arange(max_words)[:, None]
    return (first <= last) & (last < len(tokens))


def _by_lcs(
    tokens: Sequence[str],
    questions: Sequence[Sequence[str]],
    legal: np.ndarray,
    rules: RougeRules,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    sizes = np.arange(1, rules.max_words + 1)[:, None]
    for some in _in_turn(questions, max(1, _CELLS_AT_ONCE // max(1, len(tokens)))):
        answers = list(dict.fromkeys(gold for golds in some for gold in golds))
        words = [answer.split() for answer in answers]
        lengths = dict(zip(answers, lcs_lengths(tokens, words, rules.max_words), strict=True))
        for golds in some:
            scores = np.zeros(legal.shape)
            for gold in golds:
                # One division, so that equal fractions are equal numbers.
                np.maximum(scores, 2.0 * lengths[gold] / (sizes + len(gold.split())), out=scores)
            candidates = np.argwhere((scores >= rules.minimum) & legal)
            yield _select(candidates, scores[tuple(candidates.T)], rules)


def _by_package(
    tokens: Sequence[str],
    questions: Sequence[Sequence[str]],
    legal: np.ndarray,
    rules: RougeRules,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    bounds = RougeBounds(tokens, rules.max_words)
    for golds in questions:
        bound = bounds.of(golds)
        candidates = np.argwhere((bound >= rules.minimum) & legal)
        upper = bound[tuple(candidates.T)]
        scored, scores = rescore(tokens, golds, candidates, upper, keep=rules.keep)
        enough = scores >= rules.minimum
        yield _select(scored[enough], scores[enough], rules)


def _in_turn(questions: Sequence[Sequence[str]], answers: int) -> Iterator[list[Sequence[str]]]:
    """The questions in order, so many together as have ``answers`` answers, one at least."""
    some: list[Sequence[str]] = []
    for golds in questions:
        if some and sum(map(len, some)) + len(golds) > answers:
            yield some
            some = []
        some.append(golds)
    if some:
        yield some


def _select(
    candidates: np.ndarray, scores: np.ndarray, rules: RougeRules
) -> tuple[np.ndarray, np.ndarray]:
    """The spans of Z among candidates that reach the minimum, in document order.

    Args:
        candidates: ``[N, 2]`` int, words - 1 and first word of each.
        scores: ``[N]`` float64.
    """
    best_first = np.lexsort((candidates[:, 0], candidates[:, 1], -scores))
    number = min(rules.keep, len(scores))
    if rules.ties and number:
        number = int(np.sum(scores >= scores[best_first[number - 1]]))
    chosen = best_first[:number]
    chosen = chosen[np.lexsort((candidates[chosen, 0], candidates[chosen, 1]))]
    return candidates[chosen], scores[chosen]


def _to_characters(spans: np.ndarray, scores: np.ndarray, offsets: np.ndarray) -> RougeSpans:
    first, last = spans[:, 1], spans[:, 0] + spans[:, 1]
    characters = np.stack([offsets[first, 0], offsets[last, 1]], axis=1)
    return RougeSpans(characters.astype(np.int32), scores)
