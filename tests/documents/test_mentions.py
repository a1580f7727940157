"""Z of span tasks: what is found, what is not, in which order."""

import itertools
from unicodedata import normalize

import numpy as np
import pytest

from hardem_jax.documents.mentions import (
    AliasMatcher,
    alias_forms,
    enumerate_spans,
    execute_span,
    trim_span,
)
from hardem_jax.words import split_words, squad_form

HINDI = "\u0939\u093f\u0928\u094d\u0926\u0940"


def mentions(text, *aliases):
    spans = enumerate_spans(split_words(text), AliasMatcher(aliases))
    return [execute_span(text, start, end) for start, end in spans]


@pytest.mark.parametrize(
    ("text", "aliases", "expected"),
    [
        ("Cher met CHER.", ["cher"], ["Cher", "CHER"]), ("The party of art.", ["art"], ["art"]),
        ("the Daily Herald", ["The Daily Herald", "daily herald"], ["Daily Herald"]),
        ("Lord of the Rings", ["lord of rings"], ["Lord of the Rings"]),
        ("Rubik's Cube", ["rubik s cube"], ["Rubik's Cube"]),
        ("A.C. Clarke wrote", ["c clarke"], ["C. Clarke"]),
        ("snake_case words", ["case words"], ["case words"]),
        ("Sebastião won", ["sebastião"], ["Sebastião"]), ("ﬁve ﬁles", ["five"], ["ﬁve"]),
        ("１，０００ ships", ["1,000"], ["１，０００"]),
        # In lower case, and only there, letter and mark are one character.
        ("J\u030cx", ["ǰx"], ["J\u030cx"]), ("ǰx", ["J\u030cx"], ["ǰx"]),
        ("H\u0331abaq", ["ẖabaq"], ["H\u0331abaq"]),
        # One alias inside another: both are mentions, the outer one does not hide the inner.
        ("flushing spaniel", ["spaniel", "flushing spaniel"], ["flushing spaniel", "spaniel"]),
        ("la la la", ["la la"], ["la la", "la la"]),
        # Tokenised answers and plain text, and the reverse.
        ("He Can't Change Me.", ["Ca n't Change Me"], ["Can't Change Me"]),
        ("He Ca n't Change Me.", ["Can\u2019t Change Me"], ["Ca n't Change Me"]),
        ("IT DIDN'T RAIN", ["did N'T rain"], ["DIDN'T RAIN"]),
        ("Crohn's disease", ["Crohn 's disease"], ["Crohn's disease"]),
        ('Nicholas "Nick" Bakay', ["Nicholas `` Nick '' Bakay"], ['Nicholas "Nick" Bakay']),
        # Decomposed letters: a mark belongs to the word, in the middle and at the end.
        ("Le cafe\u0301.", ["caf\u00e9"], ["cafe\u0301"]),
        ("Le caf\u00e9.", ["cafe\u0301"], ["caf\u00e9"]),
        ("Le cafe\u0301s.", ["cafe\u0301s"], ["cafe\u0301s"]),
        ("q\u0303a b", ["q\u0303a"], ["q\u0303a"]), (f"{HINDI} x", [HINDI], [HINDI]),
        # Scripts without spaces: a mention may begin and end at any letter.
        ("故宫位于北京市，1420年。", ["北京市", "1420年", "1420"], ["北京市", "1420", "1420年"]),
        ("私は東京タワーに行った。", ["東京タワー", "タワー"], ["東京タワー", "タワー"]),
        ("\uff76\uff9e\uff7d会社", ["ガス"], ["\uff76\uff9e\uff7d"]),
        ("他用iPhone打电话", ["iphone"], ["iPhone"]), ("ผมอยู่ที่กรุงเทพครับ", ["กรุงเทพ"], ["กรุงเทพ"]),
        ("พ.ศ. ๒๕๖๓", ["๒๕๖๓"], ["๒๕๖๓"]),
        # Korean particles follow without a space, written composed or not.
        ("서울에서 서울은", ["서울"], ["서울", "서울"]),
        (normalize("NFD", "서울에서"), ["서울"], [normalize("NFD", "서울")]),
        # What is not shown inside a word hides no mention, and at its ends is no part of it.
        ("The co\u00adop, \u200bco\u200bop\u200b.", ["coop"], ["co\u00adop", "co\u200bop"]),
        ("a co\u2060op", ["co\ufeffop"], ["co\u2060op"]),
        # A letter that is no article.
        ("A-levels and levels", ["A-levels"], ["A-levels"]),
        ("by A. A. Milne. D. Milne", ["A. A. Milne"], ["A. A. Milne"]),
        ("by A.A. Milne", ["A. A. Milne"], ["A.A. Milne", "Milne"]),
        ("Phố Hội An, Hội Lim", ["Hội An"], ["Hội An"]),
        ("A man of type A, a rarity. A cat.", ["A"], ["A"]),
        ("The U.S. won", ["The", "US"], ["U.S"]),
        ("He can't. Spider-Man can't.", ["spiderman can't"], ["Spider-Man can't"]),
        ("B型, 大型, A型", ["A型"], ["A型"]),  # no metric takes these letters for articles
        ("维生素C, 中国A股市场", ["维生素A", "中国股市"], []),
        ("vitamin A is a vitamin", ["vitamin A", "VITAMIN"], ["vitamin", "vitamin A", "vitamin"]),
        ("John A. Smith", ["John Smith"], ["John A. Smith"]),
        # Where words alone are not what evaluators compare.
        ("100 people paid £100.", ["£100"], ["£100"]), ("100 people", ["£100"], ["100"]),
        ("−5 °C and 5 °C", ["−5"], ["−5"]), ("قال «نعم» ثم نعم", ["«نعم»"], ["«نعم»"]),
        ("他说“好的”。好的", ["“好的”"], ["“好的”"]),
        ("The U.S. and Spider-Man", ["US", "spiderman"], ["U.S", "Spider-Man"]),
        ("The US, the U.S.", ["US"], ["US", "U.S"]), ("The U.S. sent us", ["US"], ["U.S", "us"]),
        ("in 1,000 ships", ["1000"], ["1,000"]),
        ("Zoé-The x", ["Zoé-The"], ["Zoé-The"]),
        # What is right for TriviaQA's metric alone.
        ("three levels by C. Clarke", ["A-levels"], ["levels"]),
        ("three levels by C. Clarke", ["A.C. Clarke"], ["C. Clarke"]),
        ("Pay in £, he said", ["£"], ["£"]),
        ("\U00020000\U00020001", ["\U00020001"], ["\U00020001"]),
        # Dates and lists are no numbers.
        ("Am 3.10.1990, 3.10", ["1990", "10"], ["10", "1990"]), ("03.10.1990.5", ["03"], []),
        ("他1964，2005年，1964,1965, 3，5", ["1964", "3"], ["1964", "1964", "3"]),
        ("In 1964, 1,000 ships. It was 1964.", ["1964", "1,000"], ["1964", "1,000", "1964"]),
        # A full stop at either end of the text separates no digits.
        (".5 of 7", ["5"], ["5"]), ("7 of 5.", ["5"], ["5"]),
    ],
)  # fmt: skip
def test_finds(text, aliases, expected):
    assert mentions(text, *aliases) == expected


@pytest.mark.parametrize(
    ("text", "alias"),
    [
        ("1,000 ships and 3.5 miles", "1"), ("1,000 ships and 3.5 miles", "5"),
        ("1,000 ships", "000"), ("１，０００ ships", "1"), ("３．５ miles", "5"),
        ("partly", "part"), ("anything", "The"), ("Le cafe\u0301.", "cafe"), ("ปี๒๕๖๓", "๖๓"),
        ("ที่", "ท"), ("It can't be.", "can't b"), ("anything", "?!"), ("", "x"),
        ("a man of a type", "a"),
        # Right for SQuAD's metric, and for no person.
        ("she'll come, he'd go", "Shell"), ("we're ill", "were"),
        ("2.5, 1-0, 1:30, 20/12, 3.14.[1][2]", "25"),
        ("2.5, 1-0, 1:30, 20/12, 3.14.[1][2]", "10"),
        ("2.5, 1-0, 1:30, 20/12, 3.14.[1][2]", "314"),
        ("water.[1][2]", "12"), ("10.00 and 1,00", "1000"), ("He saw André today", "Andréa"),
    ],
)  # fmt: skip
def test_does_not_find(text, alias):
    assert mentions(text, alias) == []


# From an article on, words whole, and words cut at their start and at their end.
TRIMMED = [(4, 16, (8, 16)), (8, 13, (8, 13)), (8, 16, (8, 16)), (0, 17, (0, 16)), (4, 7, (4, 7))]
TRIMMED += [(9, 16, (14, 16)), (9, 13, None), (8, 15, (8, 13)), (8, 12, None), (7, 14, (8, 13))]
TRIMMED += [(3, 4, None)]


@pytest.mark.parametrize(("start", "end", "expected"), TRIMMED)
def test_a_mention_is_trimmed_to_the_words_wholly_inside(start, end, expected):
    assert trim_span(split_words("See the Daily It."), start, end) == expected


def brute_force(text, aliases):
    """Every range of words that without some articles inside are an alias's, by trying them all."""
    words = split_words(text)
    targets = {alias_forms(alias) for alias in aliases}
    found = set()
    for i, target in itertools.product(range(len(words.forms)), targets):
        ends = (j for j in range(i, len(words.forms)) if _equal(words.forms[i : j + 1], target))
        if (j := next(ends, None)) is not None:
            found.add((int(words.spans[i, 0]), int(words.spans[j, 1])))
    return sorted(found)


def _equal(forms, target):
    inside = [k for k, form in enumerate(forms[1:-1], 1) if form in ("a", "the")]
    surplus = len(forms) - len(target)
    return any(
        tuple(form for k, form in enumerate(forms) if k not in left_out) == target
        for left_out in itertools.combinations(inside, max(surplus, 0))
    )


@pytest.mark.parametrize("seed", range(50))
def test_equals_brute_force_and_executes_to_the_answer(seed):
    rng = np.random.default_rng(seed)
    vocabulary = ["a", "The", "x", "Y", "y x", "7"]
    text = " ".join(rng.choice(vocabulary, 30))
    aliases = [" ".join(rng.choice(vocabulary, rng.integers(1, 4))) for _ in range(5)]
    aliases = [alias for alias in aliases if set(alias.split()) - {"a", "The"}]
    spans = enumerate_spans(split_words(text), AliasMatcher(aliases))
    assert [tuple(span) for span in spans.tolist()] == brute_force(text, aliases)
    answers = {squad_form(alias) for alias in aliases}
    for start, end in spans:
        assert squad_form(execute_span(text, start, end)) in answers


@pytest.mark.parametrize(("start", "end"), [(-3, -1), (2, 2), (3, 1), (0, 6)])
def test_a_span_lies_inside_its_text(start, end):
    with pytest.raises(ValueError, match="expected a part of 5 characters"):
        execute_span("Cher.", start, end)
