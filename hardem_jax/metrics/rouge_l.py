"""ROUGE-L of one prediction and one gold text, in three variants.

`rouge_l_1_0_1` is what the Python package ``rouge`` (pltrdy/rouge) has computed since version 1.0;
public scores on NarrativeQA use it. It is not the ROUGE-L of Lin (2004):

- texts are split at every full stop, even inside "u.s." or "1.5", and full stops are not words;
  a sentence of only white space between two full stops counts as one empty word;
- repeated words count once, in the overlap and in both lengths;
- the overlap is the union, over all pairs of sentences, of the words on *one* longest common
  subsequence of the pair; which one (ties) can change the number of distinct words;
- 1e-8 in the denominator keeps F of equal texts just below 1.

`rouge_l_0_3_2` has the same precision and recall, but the F of the versions before December 2019:
beta = P / R instead of 1, which brings F close to the smaller of the two when they differ. The
scores of Min et al. (2019) date from that time.

`lcs_f1` is the plain F1 of the longest common subsequence of two lists of tokens, including
punctuation.

All three compare words verbatim; a text without words scores 0 (the package raises an error).
"""

from __future__ import annotations

from collections.abc import Sequence

from hardem_jax.errors import check_text

Sentences = Sequence[Sequence[str]]

_SMALL_1_0_1 = 1e-8
_SMALL_0_3_2 = 1e-12


def split_sentences(text: str) -> list[list[str]]:
    """Splits a text into sentences and words as the package does."""
    check_text(text, "text")
    return [piece.split() or [""] for piece in text.split(".") if piece]


def overlap(prediction: Sentences, gold: Sentences) -> tuple[int, int, int]:
    """The distinct words that the two share in order, and those of each."""
    shared: set[str] = set()
    for reference in gold:
        for sentence in prediction:
            shared |= _lcs_words(reference, sentence)
    return len(shared), _num_distinct(prediction), _num_distinct(gold)


def rouge_l_1_0_1(prediction: str, gold: str) -> float:
    """F of the package ``rouge``, version 1.0.1."""
    precision, recall = _precision_and_recall(prediction, gold)
    # The order of operations is the package's, to the last bit.
    return 2.0 * ((precision * recall) / (precision + recall + _SMALL_1_0_1))


def rouge_l_0_3_2(prediction: str, gold: str) -> float:
    """F of the package ``rouge``, version 0.3.2, with beta = P / R."""
    precision, recall = _precision_and_recall(prediction, gold)
    beta = precision / (recall + _SMALL_0_3_2)
    numerator = (1 + (beta**2)) * recall * precision
    return numerator / (recall + ((beta**2) * precision) + _SMALL_0_3_2)


def _precision_and_recall(prediction: str, gold: str) -> tuple[float, float]:
    shared, predicted, known = overlap(split_sentences(prediction), split_sentences(gold))
    return (shared / predicted, shared / known) if predicted and known else (0.0, 0.0)


def lcs_f1(prediction: str, gold: str) -> float:
    """F1 of the longest common subsequence of the two lists of tokens."""
    check_text(prediction, "prediction")
    check_text(gold, "gold")
    predicted, tokens = prediction.split(), gold.split()
    known = set(tokens)
    shared = _lcs_table(tokens, [word for word in predicted if word in known])[-1][-1]
    # A single division, so that equal fractions give equal floats.
    return 2 * shared / (len(predicted) + len(tokens)) if shared else 0.0


def _num_distinct(sentences: Sentences) -> int:
    return len({word for sentence in sentences for word in sentence})


def _lcs_table(x: Sequence[str], y: Sequence[str]) -> list[list[int]]:
    """``table[i][j]``: length of the longest common subsequence of ``x[:i]`` and ``y[:j]``."""
    table = [[0] * (len(y) + 1)]
    for word in x:
        above, row = table[-1], [0]
        for j, other in enumerate(y):
            row.append(above[j] + 1 if word == other else max(above[j + 1], row[j]))
        table.append(row)
    return table


def _lcs_words(reference: Sequence[str], sentence: Sequence[str]) -> set[str]:
    """The words on the longest common subsequence that the package's backtracking finds."""
    # A word that is not in the reference repeats the previous column of the table, and there
    # backtracking steps left: leaving such words out changes nothing.
    known = set(reference)
    sentence = [word for word in sentence if word in known]
    if not sentence:
        return set()
    table = _lcs_table(reference, sentence)
    i, j = len(reference), len(sentence)
    words = set()
    while i and j:
        if reference[i - 1] == sentence[j - 1]:
            words.add(reference[i - 1])
            i, j = i - 1, j - 1
        elif table[i - 1][j] > table[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return words
