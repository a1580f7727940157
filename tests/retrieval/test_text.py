"""Terms of passages and questions."""

import pytest

from hardem_jax.retrieval.text import TermConfig, stop_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The Beyoncé_song's №１", ["beyonce", "song", "no1"]),
        ("don't I'll", []),
        ("U.S. vitamin C", ["u", "vitamin", "c"]),
        ("ﬁne İstanbul", ["fine", "istanbul"]),
        ("", []),
    ],
)
def test_words(text, words):
    assert TermConfig(stem=False).words(text) == words


def test_composed_and_decomposed_letters_are_the_same():
    assert TermConfig().words("caf\u00e9") == TermConfig().words("cafe\u0301") == ["cafe"]


def test_stop_words_can_be_kept():
    assert TermConfig(stem=False, stop_words=False).words("To be") == ["to", "be"]
    assert {"the", "who", "t", "don"} <= stop_words() and "first" not in stop_words()


def test_bigrams_do_not_reach_over_stop_words():
    config = TermConfig(stem=True)
    assert config.words_and_bigrams("kings of old cities") == ["king", "old", "citi", "old citi"]
    every = TermConfig(stem=False, stop_words=False)
    assert every.words_and_bigrams("kings of") == ["kings", "of", "kings of"]
