"""ROUGE-L: literal tables, edge cases, and the answers of the package ``rouge`` 1.0.1."""

import json

import pytest

from hardem_jax.documents.metrics import rouge


def f_of(shared, predicted, gold):
    """F of version 1.0.1, in its order of operations."""
    precision, recall = shared / predicted, shared / gold
    return 2.0 * ((precision * recall) / (precision + recall + 1e-8))


@pytest.mark.parametrize(
    ("prediction", "gold", "counts"),
    [
        ("maggie eagle bear", "maggie eagle bear", (3, 3, 3)),
        ("a total of five .", "five", (1, 4, 1)),  # a full stop is no word
        ("b a", "a b", (1, 2, 2)),  # order counts
        ("to be or not to be", "to be", (2, 4, 2)),  # words count once
        ("the u.s. army", "the us army", (2, 4, 3)),  # "u" and "s" are sentences of their own
        ("a b . c d", "c d a b", (4, 4, 4)),  # a union over sentences, whatever their order
        ("a . b", "b . a", (2, 2, 2)),
        ("a . . b", "a b", (2, 3, 2)),  # between two full stops: an empty word
        ("a . . b", "c . . d", (1, 3, 3)),  # which can even be shared
        ("a b\t", "a b", (2, 2, 2)),  # white space at the end of a sentence is none
        ("a b .\t", "a b", (2, 3, 2)),  # behind its full stop it is an empty word
        # "a b" and "a a" are both longest; the way back from the end of the gold meets one.
        ("a b a", "a a b", (2, 2, 2)),
        ("a a b", "a b a", (1, 2, 2)),
    ],
)
def test_what_the_package_counts(prediction, gold, counts):
    assert rouge.rouge_l(prediction, [gold]) == f_of(*counts)


def test_the_older_f_has_beta_equal_to_p_over_r():
    precision, recall = 2 / 8, 2 / 3
    beta = precision / recall
    expected = (1 + beta**2) * precision * recall / (recall + beta**2 * precision)
    found = rouge.rouge_l_0_3_2("a b c d e f g h", ["b d z"])
    assert found == pytest.approx(expected, abs=1e-9)
    assert found < rouge.rouge_l("a b c d e f g h", ["b d z"])
    assert 1 - 1e-12 < rouge.rouge_l_0_3_2("a b", ["a b"]) < 1  # never quite 1
    # Where precision and recall are equal, so are the two.
    assert rouge.rouge_l_0_3_2("a b c", ["a d b"]) == pytest.approx(2 / 3, abs=1e-7)


METRICS = [rouge.rouge_l, rouge.rouge_l_0_3_2, rouge.lcs_f1, rouge.exact_match]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("prediction", "golds"),
    [("", ["rome"]), (" ", ["rome"]), ("..", ["rome"]), ("rome", [""]), ("rome", ["."])]
    + [("rome", []), ("", []), ("", [""])],
)
def test_without_words_there_is_no_score(metric, prediction, golds):
    assert metric(prediction, golds) == 0.0


def test_exact_match_passes_over_full_stops_alone():
    assert rouge.exact_match("in rome .", ["In Rome"]) == 1
    assert rouge.exact_match("in , rome", ["in rome"]) == 0
    assert rouge.exact_match("ß", ["SS"]) == 0  # alike in upper case only


def test_score_divides_by_all_questions():
    golds = {"hit": ["rome ."], "half": ["new york"], "missing": ["paris"]}
    predictions = {"hit": "rome", "half": "york", "elsewhere": "y"}
    assert rouge.score(predictions, golds) == {
        "rouge_l": pytest.approx(100 * (f_of(1, 1, 1) + f_of(1, 1, 2)) / 3),
        "rouge_l_0_3_2": pytest.approx(
            100 * (1 + rouge.rouge_l_0_3_2("york", ["new york"])) / 3, abs=1e-6
        ),
        "lcs_f1": pytest.approx(100 * (2 / 3 + 2 / 3) / 3),
        "em": pytest.approx(100 / 3),
        "questions": 3,
        "missing": 1,
        "unknown": 1,
    }
    assert next(iter(rouge.score(predictions, golds))) == "rouge_l"


def test_equals_the_package(shared_dir):
    file = shared_dir / "vectors/rouge_l_pltrdy_1_0_1.jsonl"
    vectors = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(vectors) == 1439
    for vector in vectors:
        # To the last bit.
        assert rouge.rouge_l(vector["prediction"], vector["golds"]) == vector["max_f"]
