"""Exact match and F1 of the official TriviaQA evaluator (Joshi et al., 2017).

Min et al. (2019) report F1 of this evaluator for TriviaQA (section 4.1). Its gold answers
are `NormalizedAliases` plus the normalised `HumanAnswers`; the reader
`hardem_jax.spans.readers.triviaqa` supplies exactly those.

Unlike in SQuAD, punctuation becomes a space instead of being deleted, and the quotation marks
‘ ’ ´ count as punctuation. `hardem_jax.documents.metrics.squad` has a table of examples, and
describes the handling of empty strings and missing gold answers, which is the same here.

Example:
    >>> exact_match("Spider-Man", ["spider man", "peter parker"])
    1.0
    >>> f1("The Amazing Spider-Man", ["spider man", "peter parker"])
    0.8
"""

from __future__ import annotations

from hardem_jax.metrics import StringMetrics
from hardem_jax.words import triviaqa_form as normalize_answer

_METRICS = StringMetrics(normalize_answer)
exact_match, f1, score = _METRICS.exact_match, _METRICS.f1, _METRICS.score
