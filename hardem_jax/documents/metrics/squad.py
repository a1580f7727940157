"""Exact match and F1 of the official SQuAD v1.1 evaluator (Rajpurkar et al., 2016).

Min et al. (2019) report them for the open-domain tasks (NQ-open and TriviaQA-open).

SQuAD *deletes* ASCII punctuation; TriviaQA (`hardem_jax.documents.metrics.triviaqa`) replaces it
with a space, and so it does with three quotation marks that SQuAD keeps:

    text            SQuAD          TriviaQA
    "A.C. Clarke"   "ac clarke"    "c clarke"       (the lone "a" becomes an article)
    "spider-man"    "spiderman"    "spider man"
    "snake_case"    "snakecase"    "snake case"
    "O’Brien"       "o’brien"      "o brien"        (likewise for ‘ and ´)
    "`tis"          "tis"          "tis"            (the backtick is ASCII)

Edge cases, as in the official evaluator unless noted: a prediction and a gold answer that
both normalise to nothing ("" and "the") match exactly but have F1 0, since they share no
token. Without any gold answer the official code fails; here both scores are 0, so that the
question stays in the denominator of `score`.

Example:
    >>> exact_match("the Eiffel Tower!", ["Eiffel tower", "La tour Eiffel"])
    1.0
    >>> f1("in New York City", ["New York", "Big Apple"])
    0.6666666666666666
"""

from __future__ import annotations

from hardem_jax.metrics import StringMetrics
from hardem_jax.words import squad_form as normalize_answer

_METRICS = StringMetrics(normalize_answer)
exact_match, f1, score = _METRICS.exact_match, _METRICS.f1, _METRICS.score
