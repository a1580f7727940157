"""ROUGE-L of short answers, as reported for NarrativeQA (Min et al., 2019, section 4.1).

A question scores the maximum over its gold answers. Both sides are lower-cased and split at white
space, and must be tokenised alike, as in the ``*_tokenized`` columns of NarrativeQA
("scott 's knife .").

`rouge_l`, the main one, is what the Python package ``rouge`` (pltrdy/rouge) has computed since
version 1.0; public scores on NarrativeQA use it. It is not the ROUGE-L of Lin (2004):

- texts are split at every full stop, even inside "u.s." or "1.5", and full stops are not words;
  a sentence of only white space between two full stops counts as one empty word;
- repeated words count once, in the overlap and in both lengths;
- the overlap is the union, over all pairs of sentences, of the words on *one* longest common
  subsequence of the pair; which one (ties) can change the number of distinct words;
- 1e-8 in the denominator keeps F of equal texts just below 1.

`rouge_l_0_3_2` has the same precision and recall, but the F of the versions before December 2019:
beta = P / R instead of 1, which brings F close to the smaller of the two when they differ. The
scores of Min et al. (2019) date from that time: do not compare the two. `lcs_f1` is the plain F1 of
the longest common subsequence of two lists of tokens, including punctuation.

A text without words scores 0 (the package raises an error).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from hardem_jax.metrics import best_over_golds, corpus_score

_SMALL_1_0_1 = 1e-8
_SMALL_0_3_2 = 1e-12


def rouge_l(prediction: str, golds: Sequence[str]) -> float:
    """F in [0, 1] of the package ``rouge`` 1.0.1, the maximum over `golds`.

    Raises:
        TypeError: `golds` is a single string.

    Example:
        >>> rouge_l("In Scott 's hand .", ["the knife", "in scott 's knife ."])
        0.749999995
        >>> rouge_l("", ["the knife"])
        0.0
    """
    return _best(_f_1_0_1, prediction, golds)


def rouge_l_0_3_2(prediction: str, golds: Sequence[str]) -> float:
    """F in [0, 1] of the package ``rouge`` 0.3.2 (before December 2019), maximum over `golds`.

    Raises:
        TypeError: `golds` is a single string.

    Example:
        >>> round(rouge_l_0_3_2("in scott 's left hand", ["scott"]), 3)
        0.206
    """
    return _best(_f_0_3_2, prediction, golds)


def lcs_f1(prediction: str, golds: Sequence[str]) -> float:
    """F1 in [0, 1] of the longest common subsequence of tokens, the maximum over `golds`.

    Raises:
        TypeError: `golds` is a single string.

    Example:
        >>> lcs_f1("The knife .", ["the long knife ."]) == 2 * 3 / (3 + 4)
        True
    """
    return _best(_plain_f1, prediction, golds)


def exact_match(prediction: str, golds: Sequence[str]) -> float:
    """1.0 if the words equal those of any gold in order, ignoring full stops, else 0.0.

    Raises:
        TypeError: `golds` is a single string.

    Example:
        >>> exact_match("Scott 's knife", ["scott 's knife ."]), exact_match("", ["."])
        (1.0, 0.0)
    """
    return _best(_same_words, prediction, golds)


def score(
    predictions: Mapping[str, str], golds: Mapping[str, Sequence[str]]
) -> dict[str, float | int]:
    """Scores of a data set over all questions of `golds` (see `corpus_score`).

    Args:
        predictions: question id -> predicted answer text.
        golds: question id -> accepted answer texts.

    Returns:
        `rouge_l`, `rouge_l_0_3_2`, `lcs_f1` and `em` in percent; counts `questions`, `missing`
        (questions without a prediction, which score 0) and `unknown` (predictions for others).

    Raises:
        InputError: `golds` is empty.

    Example:
        >>> scores = score({"q1": "Rome ."}, {"q1": ["rome"], "q2": ["oslo"]})
        >>> round(scores["rouge_l"], 6), round(scores["lcs_f1"], 6), scores["em"], scores["missing"]
        (50.0, 33.333333, 50.0, 1)
    """
    total: dict[str, float | int] = {}
    for metric in (rouge_l, rouge_l_0_3_2, lcs_f1):
        scores = corpus_score(exact_match, metric, predictions, golds)
        total[metric.__name__] = scores.pop("f1")
        total |= {name: value for name, value in scores.items() if name not in total}
    return total


def _best(variant: Callable[[str, str], float], prediction: str, golds: Sequence[str]) -> float:
    text = prediction.lower()
    return best_over_golds(lambda _, gold: variant(text, gold.lower()), prediction, golds)


def _same_words(prediction: str, gold: str) -> float:
    words, others = (
        [word for sentence in _sentences(text) for word in sentence if word]
        for text in (prediction, gold)
    )
    return float(bool(words) and words == others)


def _sentences(text: str) -> list[list[str]]:
    """Splits a text into sentences and words as the package does."""
    return [piece.split() or [""] for piece in text.split(".") if piece]


def _f_1_0_1(prediction: str, gold: str) -> float:
    """F of the package ``rouge``, version 1.0.1."""
    precision, recall = _precision_and_recall(prediction, gold)
    # The order of operations is the package's, to the last bit.
    return 2.0 * ((precision * recall) / (precision + recall + _SMALL_1_0_1))


def _f_0_3_2(prediction: str, gold: str) -> float:
    """F of the package ``rouge``, version 0.3.2, with beta = P / R."""
    precision, recall = _precision_and_recall(prediction, gold)
    beta = precision / (recall + _SMALL_0_3_2)
    numerator = (1 + (beta**2)) * recall * precision
    return numerator / (recall + ((beta**2) * precision) + _SMALL_0_3_2)


def _precision_and_recall(prediction: str, gold: str) -> tuple[float, float]:
    """Of the distinct words that the two share in order."""
    predicted, known = _sentences(prediction), _sentences(gold)
    shared: set[str] = set()
    for reference, sentence in itertools.product(known, predicted):
        shared |= _lcs_words(reference, sentence)
    if not (predicted and known):
        return 0.0, 0.0
    sizes = [len(set(itertools.chain(*sentences))) for sentences in (predicted, known)]
    return len(shared) / sizes[0], len(shared) / sizes[1]


def _plain_f1(prediction: str, gold: str) -> float:
    """F1 of the longest common subsequence of the two lists of tokens."""
    predicted, tokens = prediction.split(), gold.split()
    known = set(tokens)
    shared = _lcs_table(tokens, [word for word in predicted if word in known])[-1][-1]
    # A single division, so that equal fractions give equal floats.
    return 2 * shared / (len(predicted) + len(tokens)) if shared else 0.0


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
