"""Exact match and F1 of the official DROP evaluator (Dua et al., 2019).

Min et al. (2019) report exact match on the questions whose answer is a number (section 5.2).

A gold answer is one annotator's answer as in the data file, an object with "number", "spans"
and "date"; the first of these that is filled in counts. A question's score is the best over its
gold answers. Unlike SQuAD's, the metric supports numbers and multiple spans:

    text                normalised          why
    "1,000"             "1000.0"            numbers are compared as floats
    "$5"                "5.0"               ... once ASCII punctuation is deleted
    "-0.5"              "0.5"               a hyphen separates words
    "41-yard"           "41.0 yard"
    "two"               "two"               number words are not numbers

Words are separated by blanks and hyphens. F1 compares *sets* of words, span by span, under the
best assignment of predicted to gold spans; unmatched spans on either side score 0. A pair of
spans also scores 0 if the gold span has numbers but the predicted span has none of them. F1 is
rounded to two decimals for each question.

Edge cases, as in the official evaluator unless noted: two empty sets of words have F1 1; a gold
answer whose first text is blank is skipped, and so is one without number, spans and date (for
which the official code fails). Without any gold answer both scores are 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hardem_jax.metrics import bags, corpus_score

Answer = Mapping[str, Any]


def answer_texts(answer: Answer) -> tuple[str, ...]:
    """The texts of an annotator's answer: its number, else its spans, else its date.

    Returns:
        One or several texts; empty if the answer is blank.

    Example:
        >>> date = {"day": "3", "month": "May", "year": ""}
        >>> answer_texts({"number": "", "date": date, "spans": []})
        ('3 May ',)
    """
    if answer.get("number"):
        return (str(answer["number"]),)
    if answer.get("spans"):
        return tuple(answer["spans"])
    if "date" in answer:
        return (" ".join(str(answer["date"][part]) for part in ("day", "month", "year")),)
    return ()


def exact_match(prediction: str | Sequence[str], golds: Sequence[Answer]) -> float:
    """1.0 if the normalised texts of the prediction equal those of any gold, else 0.0.

    Args:
        prediction: one text, or several spans.
        golds: annotators' answers.

    Raises:
        TypeError: `golds` is not a sequence of answers.

    Example:
        >>> exact_match("$1,000", [{"number": "7"}, {"number": "1000"}])
        1.0
    """
    return bags.exact_match(prediction, _gold_texts(golds))


def f1(prediction: str | Sequence[str], golds: Sequence[Answer]) -> float:
    """F1 in [0, 1] of sets of normalised words, rounded to two decimals; the best over `golds`.

    Raises:
        TypeError: `golds` is not a sequence of answers.

    Example:
        >>> f1("field goal", [{"spans": ["long field goal"]}]), f1("goal 3", [{"number": "4"}])
        (0.8, 0.0)
    """
    return bags.f1(prediction, _gold_texts(golds))


def score(
    predictions: Mapping[str, str | Sequence[str]], golds: Mapping[str, Sequence[Answer]]
) -> dict[str, float | int]:
    """Mean scores of a data set over all questions of `golds`.

    Args:
        predictions: question id -> predicted text, or texts of several spans.
        golds: question id -> annotators' answers.

    Returns:
        `em` and `f1` in percent; counts `questions`, `missing` (questions without a
        prediction, which score 0) and `unknown` (predictions for other questions).

    Raises:
        InputError: `golds` is empty.

    Example:
        >>> score({"q1": "3.0", "q9": "?"}, {"q1": [{"number": "3"}], "q2": [{"number": "4"}]})
        {'em': 50.0, 'f1': 50.0, 'questions': 2, 'missing': 1, 'unknown': 1}
    """
    # `corpus_score` is annotated for golds that are strings, but only passes them to the metrics.
    score_corpus: Any = corpus_score
    return score_corpus(exact_match, f1, predictions, golds)


def _gold_texts(golds: Sequence[Answer]) -> list[tuple[str, ...]]:
    if isinstance(golds, (str, Mapping)) or not all(isinstance(gold, Mapping) for gold in golds):
        raise TypeError(f"golds must be a sequence of answers, found {golds!r}")
    return [answer_texts(gold) for gold in golds]
