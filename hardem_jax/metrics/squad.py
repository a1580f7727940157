"""Exact match and F1 as the official SQuAD v1.1 evaluator computes them (Rajpurkar et al., 2016).

Min et al. (2019) report them for the open-domain tasks (NQ-open and TriviaQA-open).

SQuAD *deletes* ASCII punctuation, TriviaQA (`hardem_jax.metrics.triviaqa`) turns it
into a space, and also does so with four quotation marks that SQuAD keeps:

    text            SQuAD          TriviaQA
    "A.C. Clarke"   "ac clarke"    "c clarke"       (the lone "a" becomes an article)
    "spider-man"    "spiderman"    "spider man"
    "snake_case"    "snakecase"    "snake case"
    "O’Brien"       "o’brien"      "o brien"        (likewise for ‘ and ´)
    "`tis"          "tis"          "tis"            (the backtick is ASCII)

Edge cases, as in the official evaluator unless noted: a prediction and a gold that
both normalise to nothing ("" and "the") match exactly but have F1 0, since they
share no token. With no golds at all the official code fails; here both scores are 0,
so that the question stays in the denominator of `score`.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence

from hardem_jax.metrics.text import best_over_golds, corpus_score, token_f1

_DELETE_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def normalize_answer(text: str) -> str:
    """Lower case, no ASCII punctuation, no articles (a, an, the), single spaces.

    Example:
        >>> normalize_answer("The  Spider-Man's web.")
        'spidermans web'
    """
    letters = text.lower().translate(_DELETE_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", letters).split())


def exact_match(prediction: str, golds: Sequence[str]) -> float:
    """1.0 if the normalised prediction equals any normalised gold, else 0.0.

    Raises:
        TypeError: `golds` is a single string.

    Example:
        >>> exact_match("the Eiffel Tower!", ["Eiffel tower", "La tour Eiffel"])
        1.0
        >>> exact_match("Eiffel", [])
        0.0
    """
    found = normalize_answer(prediction)
    return best_over_golds(lambda _, gold: found == normalize_answer(gold), prediction, golds)


def f1(prediction: str, golds: Sequence[str]) -> float:
    """Token F1 in [0, 1] of the normalised strings, the maximum over `golds`.

    Raises:
        TypeError: `golds` is a single string.

    Example:
        >>> f1("in New York City", ["New York", "Big Apple"])
        0.6666666666666666
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
        >>> score({"q1": "1984", "q9": "?"}, {"q1": ["1984"], "q2": ["Rome"]})
        {'em': 50.0, 'f1': 50.0, 'questions': 2, 'missing': 1, 'unknown': 1}
    """
    return corpus_score(exact_match, f1, predictions, golds)
