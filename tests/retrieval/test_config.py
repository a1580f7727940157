"""Terms of passages and questions."""

import pytest

from hardem_jax.retrieval.config import stop_words, words, words_and_bigrams


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Beyoncé_song's №１", ["beyonc", "song", "no1"]), ("don't I'll", []),
        ("U.S. vitamin C", ["u", "vitamin", "c"]), ("ﬁne İstanbul", ["fine", "istanbul"]),
        # A mark belongs to the letter before it, also where it is no accent.
        ("हिन्दी, हिन्दी", ["हिनदी", "हिनदी"]),
        ("黑豹队 308分, 苹", ["黑豹", "豹队", "黑豹队", "308", "分", "苹"]),
        ("서울은 ﾃﾞｰﾀ", ["서울", "울은", "서울은", "デー", "ータ", "データ"]),
        ("co\u00adop", ["coop"]), ("", []),
    ],
)  # fmt: skip
def test_words(text, expected):
    assert words(text) == expected


def test_composed_and_decomposed_letters_are_the_same():
    assert words("caf\u00e9") == words("cafe\u0301") == ["cafe"]


def test_terms_are_stems_of_words_that_say_something():
    assert words("To be kings of cities") == ["king", "citi"]
    assert {"the", "who", "t", "don"} <= stop_words() and "first" not in stop_words()


def test_bigrams_do_not_reach_over_stop_words():
    assert words_and_bigrams("kings of old cities") == ["king", "old", "citi", "old citi"]
    assert words_and_bigrams("黑豹") == ["黑", "豹", "黑 豹"]
