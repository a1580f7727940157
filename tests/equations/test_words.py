"""Words with offsets, vocabularies, and word vectors from a file that may be damaged."""

import numpy as np
import pytest

from hardem_jax.equations.words import (
    Vocabulary,
    build_vocabularies,
    char_ids,
    load_word_vectors,
    split_words,
    words_at,
)
from hardem_jax.errors import InputError

# fmt: off
TABLE = [
    ("a 41-yard kick.",        ["a", "41", "-", "yard", "kick", "."]),
    ("2,582.5 in 1990s",       ["2,582.5", "in", "1990s"]),
    ("45%, $3.7 (1,000)",      ["45", "%", ",", "$", "3.7", "(", "1,000", ")"]),
    ("the U.S. Army. End",     ["the", "U.S.", "Army", ".", "End"]),
    ("didn't DON’T cannot",    ["did", "n't", "DO", "N’T", "cannot"]),
    ("the team's we'll 'st",   ["the", "team", "'s", "we", "'ll", "'", "st"]),
    ("1914–18 und 5_6",        ["1914", "–", "18", "und", "5", "_", "6"]),
    ("Škoda\u00a0café\n\t東京",  ["Škoda", "café", "東", "京"]),
    ("他有12个, ๒๕x",           ["他", "有", "12", "个", ",", "๒๕x"]),
    ("twenty-two",             ["twenty", "-", "two"]),
    ("7.",                     ["7", "."]),
    (" \n ",                   []),
    ("",                       []),
]
# fmt: on


@pytest.mark.parametrize(("text", "expected"), TABLE)
def test_words(text, expected):
    words = split_words(text)
    assert list(words.texts) == expected
    assert words.offsets.dtype == np.int32 and words.offsets.shape == (len(expected), 2)


def check_cover(text):
    """Words are where they claim to be, in order, and hold everything but whitespace."""
    words = split_words(text)
    assert [text[a:b] for a, b in words.offsets] == list(words.texts)
    assert "".join(words.texts) == "".join(text.split())
    assert np.all(words.offsets[1:, 0] >= words.offsets[:-1, 1])
    assert not any(char.isspace() for word in words.texts for char in word)


def test_every_character_belongs_to_one_word():
    rng = np.random.default_rng(0)
    alphabet = list("ab1.,-'’nt _\n\u2003é%U")
    for _ in range(300):
        check_cover("".join(rng.choice(alphabet, rng.integers(0, 30))))


def test_word_of_a_character():
    words = split_words("kick, 41-yard")
    for index, (start, end) in enumerate(words.offsets):
        assert words_at(words, np.arange(start, end)).tolist() == [index] * (end - start)
    # Between words: the next one; after the last: T.
    assert words_at(words, [5, 13, 99]).tolist() == [2, 5, 5]


def test_vocabularies_count_and_order():
    texts = [split_words("The cat the CAT"), split_words("a dog the")]
    words, chars = build_vocabularies(texts)
    assert words.entries == ("the", "cat", "a", "dog")
    assert words.ids(["THE", "dog", "bird"]).tolist() == [2, 5, 1]
    assert chars.entries[:3] == ("e", "h", "t")  # 3 each; "T" is another character
    assert len(chars) == 2 + len(set("ThecatCATadog"))
    assert build_vocabularies(texts[::-1]) == (words, chars)
    words, chars = build_vocabularies(texts, min_words=2, min_chars=3)
    assert words.entries == ("the", "cat")
    assert chars.entries == ("e", "h", "t")


def test_vocabulary_round_trip(tmp_path):
    vocabulary = Vocabulary(("é", "\u2028", '"', "東"), lower=False)
    vocabulary.save(tmp_path / "words.json")
    assert Vocabulary.load(tmp_path / "words.json") == vocabulary


def test_characters_are_cut_and_padded():
    vocabulary = Vocabulary(tuple("abcd"), lower=False)
    assert char_ids(split_words("abcda A"), vocabulary, length=3).tolist() == [[2, 3, 4], [1, 0, 0]]
    assert char_ids(split_words(""), vocabulary).shape == (0, 16)


WORDS = Vocabulary(("the", "kick", "teh", "nbsp", ". ."), lower=True)


def load(tmp_path, content, size=3, words=WORDS):
    file = tmp_path / "vectors.txt"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load_word_vectors(file, words, size=size)


def test_vectors_of_wanted_words(tmp_path):
    lines = [
        "kick 1 2 3",
        "other x y z",  # not wanted: only its width is looked at
        ". . 4 5 6",  # a word with a space
        "strange\u2028\x85\rword 0 0 0",  # line separators that are none here
        "kick 9 9 9",  # the first one counts
        "the -1e0 .5 0 ",  # trailing space, as some writers leave it
    ]
    found, vectors = load(tmp_path, "\n".join(lines))
    expected = np.array([[-1, 0.5, 0], [1, 2, 3], [4, 5, 6]], np.float32)
    assert found == Vocabulary(("the", "kick", ". ."), lower=True)
    assert vectors.dtype == np.float32 and len(vectors) == len(found)
    np.testing.assert_array_equal(vectors[2:], expected)
    np.testing.assert_array_equal(vectors[found.ids(["Kick"])[0]], [1, 2, 3])
    np.testing.assert_array_equal(vectors[0], 0)
    np.testing.assert_allclose(vectors[1], expected.mean(axis=0))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("kick 1 2 3\nthe 1 2\n", r"line 2: expected a word and 3 numbers, found 2 numbers"),
        ("other 1 2 3 4\n", r"line 1: expected a word and 3 numbers, found 4 numbers"),
        ("kick 1 2 3\n\n", r"line 2: .* found 0 numbers"),
        ("kick 1 x 3\n", r"line 1: 'kick': expected numbers"),
        ("kick 1 nan 3\n", r"line 1: 'kick': expected finite numbers, found nan"),
        ("kick 1 2 1e99\n", r"line 1: 'kick': expected finite numbers, found 1e99"),
        ("other 1 2 3\n", r"expected vectors of some of 5 words, found none"),
        (b"kick 1 2 3\n\xff 1 2 3\n", r"expected word vectors as UTF-8 text"),
        (None, "expected a file, found nothing of that name"),
    ],
)
def test_broken_vectors(tmp_path, content, message):
    with pytest.raises(InputError, match=r"vectors\.txt: " + message) as error:
        load(tmp_path, content)
    assert "\n" not in str(error.value)
