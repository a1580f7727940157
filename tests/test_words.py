"""Words of a text, in any script."""

import itertools
from unicodedata import normalize

import numpy as np
import pytest

from hardem_jax.words import cuts_word, search_terms, skip_combining_marks, split_words


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Le Corbusier", "Le| |Corbusier"), ("it's", "it|'|s"),
        ("foo_bar", "foo|_|bar"), ("1,000.5, 7.", "1,000.5|,| |7|."),
        ("3.10.1990", "3|.|10|.|1990"), ("1.2.2020.1", "1.2.2020.1"), ("1，000，5", "1，000|，|5"),
        ("1964,1965", "1964|,|1965"), ("v1.2a", "v1.2a"),
        ("１，０００．５， ７．", "１，０００．５|，| |７|．"), ("cafe\u0301s", "cafe\u0301s"),
        ("\u0301x", "\u0301|x"), ("東京x", "東|京|x"),
        ("\U00020000\U00020001", "\U00020000|\U00020001"), ("ป๒๓x", "ป|๒๓x"),
        ("서울x", "서|울|x"),
        (normalize("NFD", "서울"), "|".join(normalize("NFD", c) for c in "서울")),
        ("ที่ท", "ที่|ท"), ("co\u00adop \u200bx\u200b", "co\u00adop| |\u200b|x|\u200b"),
        ("\ud800a", "\ud800|a"), ("", ""),
    ],
)  # fmt: skip
def test_a_text_may_be_cut_between_words_only(text, pieces):
    cuts = cuts_word(text)
    assert cuts.shape == (len(text) + 1,) and not cuts[[0, -1]].any()
    free = [i for i in range(1, len(text)) if not cuts[i]]
    assert "|".join(text[a:b] for a, b in itertools.pairwise([0, *free, len(text)])) == pieces


@pytest.mark.parametrize("text", ["Việt Nam", "ṩ", "ǭx ộ", "\u0645\u064f\u062d\u0651\u064e\u0628"])
def test_words_are_the_same_however_many_marks_a_letter_is_written_with(text):
    for form in ("NFC", "NFD"):
        written = normalize(form, text)
        cuts = cuts_word(written)
        pieces = "".join(c + "|" * (not cut) for c, cut in zip(written, cuts[1:], strict=True))
        assert pieces.strip("|").replace("| |", " ") == written


@pytest.mark.parametrize(
    "letter", ["e\u0301", "\uff8a\uff9e", "\uff8a\uff9f", "\u1112\u1161\u11ab", "\u1112\ud7b0"]
)
def test_a_token_ends_with_the_marks_of_its_last_letter(letter):
    assert skip_combining_marks(f"a{letter}b", 2) == 1 + len(letter)


@pytest.mark.parametrize("seed", range(20))
def test_words_cover_every_letter_and_search_sees_the_same_ones(seed):
    rng = np.random.default_rng(seed)
    text = "".join(rng.choice([*"ab1. _\u00adé東๑서हि", "\u0301", "ที่", "\uff76\uff9e"], size=40))
    words = split_words(text)
    inside = np.zeros(len(text), bool)
    for start, end in words.spans:
        assert not inside[start:end].any() and end > start
        inside[start:end] = True
    assert all(inside[i] for i, char in enumerate(text) if char.isalnum())
    assert len(search_terms(text, join=False)) == len(words.forms)
