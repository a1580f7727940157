"""Exact match and F1 as the official TriviaQA evaluator computes them (Joshi et al., 2017).

Min et al. (2019) report F1 of this evaluator for TriviaQA (section 4.1). The golds it
compares with are `NormalizedAliases` plus the normalised `HumanAnswers`; the reader
`hardem_jax.data.readers.triviaqa` supplies exactly those.

The normalisation differs from SQuAD's: punctuation becomes a space instead of
vanishing, and the quotation marks ‘ ’ ´ count as punctuation. The table of
examples and the handling of empty strings and empty golds, which is the same here,
stand in `hardem_jax.metrics.squad`.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence

from hardem_jax.metrics.text import best_over_golds, corpus_score, token_f1

# The backtick and the underscore, which the official code names apart, are in string.punctuation.
_SPACE_FOR_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + "‘’´", " "))
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def normalize_answer(text: str) -> str:
    """Lower case, punctuation and ‘ ’ ´ as spaces, no articles (a, an, the), single spaces.

    Example:
        >>> normalize_answer("The  Spider-Man's web.")
        'spider man s web'
    """
    words = text.lower().translate(_SPACE_FOR_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", words).split())


def exact_match(prediction: str, golds: Sequence[str]) -> float:
    """1.0 if the normalised prediction equals any normalised gold, else 0.0.

    Raises:
        TypeError: `golds` is a single string.

    Example:
        >>> exact_match("Spider-Man", ["spider man", "peter parker"])
        1.0
        >>> exact_match("Spider-Man", [])
        0.0
    """
    found = normalize_answer(prediction)
    return best_over_golds(lambda _, gold: found == normalize_answer(gold), prediction, golds)


def f1(prediction: str, golds: Sequence[str]) -> float:
    """Token F1 in [0, 1] of the normalised strings, the maximum over `golds`.

    Raises:
        TypeError: `golds` is a single string.

    Example:
        >>> f1("The Amazing Spider-Man", ["spider man", "peter parker"])
        0.8
    """
    found = normalize_answer(prediction).split()
    return best_over_golds(
        lambda _, gold: token_f1(found, normalize_answer(gold).split()), prediction, golds
    )


def score(
    predictions: Mapping[str, str], golds: Mapping[str, Sequence[str]]
) -> dict[str, float | int]:
    """Scores of a whole data set, over all questions of `golds` (see `corpus_score`).

    Args:
        predictions: question id -> predicted answer text.
        golds: question id -> accepted answer texts.

    Returns:
        `em` and `f1` in percent; counts `questions`, `missing` (questions without a
        prediction, which score 0) and `unknown` (predictions for other questions).

    Raises:
        InputError: `golds` is empty.

    Example:
        >>> score({"q1": "Spider-Man", "q9": "?"}, {"q1": ["spider man"], "q2": ["rome"]})
        {'em': 50.0, 'f1': 50.0, 'questions': 2, 'missing': 1, 'unknown': 1}
    """
    return corpus_score(exact_match, f1, predictions, golds)
