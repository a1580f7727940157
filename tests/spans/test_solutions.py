"""Z by ROUGE-L: equal to scoring every span, for every rule and answers of any length."""

import itertools
import random

import numpy as np
import pytest

from hardem_jax.documents.metrics.rouge import lcs_f1
from hardem_jax.spans.solutions import RougeRules, enumerate_rouge_spans, lcs_lengths

WORDS = ["a", "b", "c", "d", "x.y", "e.", ".f", ".", "..", ",", "--"]


def said(text):
    return {word for word in text.lower().split() if any(map(str.isalnum, word))}


def every_span(text, golds, rules):
    """(score, start, end) of every legal span, each scored on its own."""
    found = []
    ends = [i for i in range(1, len(text) + 1) if i == len(text) or text[i] == " "]
    for start in [0, *(end + 1 for end in ends[:-1])]:
        for end in [end for end in ends if end > start][: rules.max_words]:
            span = text[start:end]
            near = [gold for gold in golds if said(span) & said(gold)]
            if near:
                found.append((lcs_f1(span, near), start, end))
    return found


def by_brute_force(text, golds, rules):
    found = [span for span in every_span(text, golds, rules) if span[0] >= rules.minimum]
    ranked = sorted(found, key=lambda span: (-span[0], span[1:]))
    kept = ranked[: rules.keep]
    if rules.ties:
        kept += [span for span in ranked[rules.keep :] if span[0] == kept[-1][0]]
    return sorted(kept, key=lambda span: span[1:])


@pytest.mark.parametrize(("keep", "ties"), [(1, True), (5, True), (5, False), (1, False)])
def test_equals_scoring_every_span(keep, ties):
    rng = random.Random(keep)
    sizes = []
    for trial in range(25):
        rules = RougeRules(keep, ties, rng.choice([0.01, 0.5, 0.7]), rng.choice([1, 4, 9]))
        text = " ".join(rng.choices(WORDS, k=rng.randint(1, 24)))
        questions = [
            [" ".join(rng.choices([*WORDS, "z"], k=rng.randint(1, 6))) for _ in range(2)]
            for _ in range(3)
        ]
        for golds, z in zip(questions, enumerate_rouge_spans(text, questions, rules), strict=True):
            expected = by_brute_force(text, golds, rules)
            found = list(zip(z.scores.tolist(), *z.spans.T.tolist(), strict=True))
            assert found == expected, (trial, text, golds, rules)
            sizes.append(len(found))
    assert 0 in sizes and (max(sizes) > keep) == ties


@pytest.mark.parametrize("size", [1, 63, 64, 65, 128, 130])
def test_answers_of_several_machine_words(size):
    rng = np.random.default_rng(size)
    words = rng.choice(list("abc"), 90).tolist()
    answers = [rng.choice(list("abcd"), length).tolist() for length in (size, 1, size // 2 + 1)]
    lengths = lcs_lengths(words, answers, 80)
    assert lengths.shape == (3, 80, 90)
    for a, k in itertools.product(range(3), (0, 30, 79)):
        for start in (0, 3, 9, 70, 89):
            end = min(start + k + 1, 90)
            f1 = lcs_f1(" ".join(words[start:end]), [" ".join(answers[a])])
            assert lengths[a, k, start] == round(f1 * (end - start + len(answers[a])) / 2)


def test_a_carry_passes_a_machine_word_without_a_match():
    # "a" ends the first machine word, nothing matches in the second, "b" begins the third.
    lengths = lcs_lengths(["b", "a", "b"], [["x"] * 63 + ["a"] + ["z"] * 64 + ["b"]], 3)
    assert lengths[0].tolist() == [[1, 1, 1], [1, 2, 1], [2, 2, 1]]


def test_spans_are_whole_words_in_any_case_with_something_said():
    text = "Art , party ART  and\nart . , --"
    [z] = enumerate_rouge_spans(text, [["Art"]], RougeRules(minimum=0.9))
    assert [text[start:end] for start, end in z.spans][0] == "Art"
    assert {text[start:end].lower().strip(" .") for start, end in z.spans} == {"art"}
    assert z.spans.dtype == np.int32 and z.scores.dtype == np.float64


@pytest.mark.parametrize(
    ("text", "golds"),
    [
        *[("", ["a"]), (" \n", ["a"]), ("a", []), ("a", [""]), ("a", ["."]), (".", ["a"])],
        *[("b .", ["a ."]), (". b", [".", "?"]), ("--", ["--"])],  # only punctuation in common
    ],
)
def test_nothing_to_find(text, golds):
    [z] = enumerate_rouge_spans(text, [golds], RougeRules())
    assert z.spans.shape == (0, 2) and z.scores.shape == (0,)
    assert enumerate_rouge_spans(text, [], RougeRules()) == []


def test_the_noisy_rule_counts_spans():
    text = "red car . red car . red car . red cars and a red car or a blue car"
    questions = [["red car"]]
    [best] = enumerate_rouge_spans(text, questions)
    assert [text[start:end] for start, end in best.spans] == ["red car"] * 4
    [fifth] = enumerate_rouge_spans(text, questions, RougeRules(keep=5))
    assert set(fifth.scores) == {1.0, 2 * 2 / (3 + 2)}  # the fifth best has one word too many
    [five] = enumerate_rouge_spans(text, questions, RougeRules(keep=5, ties=False))
    assert len(five.spans) == 5 < len(fifth.spans)


@pytest.mark.parametrize(
    ("text", "questions", "message"),
    [
        ("a b", ["a b"], "answers of question 0: expected a list of strings, found the string"),
        ("a b", "a b", "questions: expected a list of lists of answers, found the string 'a b'"),
        (None, [["a"]], "text: expected a string, found None"),
    ],
)
def test_answers_are_lists_of_strings(text, questions, message):
    with pytest.raises(TypeError, match=f"^{message}"):
        enumerate_rouge_spans(text, questions)
