"""What every metric refuses: golds that are one string, and no questions."""

import pytest

from hardem_jax.documents.metrics import nq_open, quoref, rouge, squad, squad2, triviaqa
from hardem_jax.equations import metrics as drop
from hardem_jax.errors import InputError

METRICS = [nq_open, quoref, rouge, squad, squad2, triviaqa]
SCORES = [*(metric.exact_match for metric in METRICS)]
SCORES += [*(metric.f1 for metric in METRICS if metric is not rouge)]
SCORES += [rouge.rouge_l, rouge.rouge_l_0_3_2, rouge.lcs_f1]
SCORES += [lambda text, golds: quoref.score({}, {"q": golds})]


@pytest.mark.parametrize("score", SCORES)
def test_one_string_is_not_a_list_of_golds(score):
    with pytest.raises(TypeError, match="sequence of strings, found the string 'Ada'"):
        score("Ada", "Ada")


@pytest.mark.parametrize(
    "score",
    [
        *(metric.score for metric in [*METRICS, drop]),
        lambda texts, golds: squad2.best_thresholds(texts, golds, {}),
    ],
)
def test_a_score_of_nothing_is_an_error(score):
    with pytest.raises(InputError, match="no questions to score"):
        score({"q": "Ada"}, {})
