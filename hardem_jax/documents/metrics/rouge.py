"""ROUGE-L of short answers, as reported for NarrativeQA (Min et al., 2019, section 4.1).

A question scores the maximum over its gold answers. Both sides are lower-cased and split at white
space, and must be tokenised alike, as in the ``*_tokenized`` columns of NarrativeQA
("scott 's knife ."). `hardem_jax.metrics.rouge_l` describes the three variants; the main one,
`rouge_l`, is the package ``rouge`` 1.0.1. Scores from 2019 use the older F, `rouge_l_0_3_2`, which
is lower: do not compare the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hardem_jax.metrics import best_over_golds, corpus_score
from hardem_jax.metrics import rouge_l as rouge_score


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
    return _best(rouge_score.rouge_l_1_0_1, prediction, golds)


def rouge_l_0_3_2(prediction: str, golds: Sequence[str]) -> float:
    """F in [0, 1] of the package ``rouge`` 0.3.2 (before December 2019), maximum over `golds`.

    Raises:
        TypeError: `golds` is a single string.

    Example:
        >>> round(rouge_l_0_3_2("in scott 's left hand", ["scott"]), 3)
        0.206
    """
    return _best(rouge_score.rouge_l_0_3_2, prediction, golds)


def lcs_f1(prediction: str, golds: Sequence[str]) -> float:
    """F1 in [0, 1] of the longest common subsequence of tokens, the maximum over `golds`.

    Raises:
        TypeError: `golds` is a single string.

    Example:
        >>> lcs_f1("The knife .", ["the long knife ."]) == 2 * 3 / (3 + 4)
        True
    """
    return _best(rouge_score.lcs_f1, prediction, golds)


def exact_match(prediction: str, golds: Sequence[str]) -> float:
    """1.0 if the words equal those of any gold in order, ignoring full stops, else 0.0.

    Raises:
        TypeError: `golds` is a single string.

    Example:
        >>> exact_match("Scott 's knife", ["scott 's knife ."]), exact_match("", ["."])
        (1.0, 0.0)
    """
    words = _words(prediction)
    return best_over_golds(lambda _, gold: bool(words) and words == _words(gold), prediction, golds)


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
    for name, metric in (
        ("rouge_l", rouge_l),
        ("rouge_l_0_3_2", rouge_l_0_3_2),
        ("lcs_f1", lcs_f1),
    ):
        scores = corpus_score(exact_match, metric, predictions, golds)
        total[name] = scores.pop("f1")
        total |= {name: value for name, value in scores.items() if name not in total}
    return total


def _best(variant, prediction: str, golds: Sequence[str]) -> float:
    return best_over_golds(
        lambda text, gold: variant(text.lower(), gold.lower()), prediction, golds
    )


def _words(text: str) -> list[str]:
    sentences = rouge_score.split_sentences(text.lower())
    return [word for sentence in sentences for word in sentence if word]
