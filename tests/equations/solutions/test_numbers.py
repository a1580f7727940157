"""Numbers of a text: values, places, options, and what is no number."""

import math

import pytest

from hardem_jax.equations.solutions.numbers import NumberConfig, find_numbers

EVERYTHING = NumberConfig(words="all", scales=True, ordinals=True, fractions=True)


def values(text, **options):
    return [mention.value for mention in find_numbers(text, NumberConfig(**options))]


def pairs(text, config):
    """(value, the text it stands for) of every mention."""
    return [(m.value, text[m.start : m.end]) for m in find_numbers(text, config)]


@pytest.mark.parametrize(
    ("text", "default", "options", "with_options"),
    [
        ("1,000,000", [1e6], {"commas": False}, [1, 0, 0]),
        ("1,000.5", [1000.5], {"commas": False}, [1, 0.5]),
        ("1,000.5", [1000.5], {"decimals": False}, [1000, 5]),
        ("12.5", [12.5], {"decimals": False}, [12, 5]),
        (".5 of $.75", [0.5, 0.75], {"decimals": False}, [5, 75]),
        ("55%, ５５％ 55٪", [55] * 3, {"percent": "hundredth"}, [55 / 100] * 3),
        ("55 percent, 6 per cent", [55, 6], {"percent": "hundredth"}, [55 / 100, 6 / 100]),
        ("55% of 5 percentiles", [55, 5], {"percent": "skip"}, [5]),
        ("ten percent", [10], {"percent": "skip"}, []),
        ("$5, € 6, ￥5, ＄５ and 7", [5, 6, 5, 5, 7], {"currency": False}, [7]),
        ("US$5, 6", [5, 6], {"currency": False}, [6]),
        ("41-yard F-15 3-1 8", [41, 15, 3, 1, 8], {"hyphenated": False}, [8]),
        ("five-yard, six", [5, 6], {"hyphenated": False}, [6]),
        ("10km 1990s 7", [10, 1990, 7], {"glued": False}, [7]),
        ("Two, nineteen, zero", [2, 19, 0], {"words": "none"}, []),
        ("TWENTY-ONE, forty", [], {"words": "all"}, [21, 40]),
        ("twenty", [], {"words": "all"}, [20]),
        ("two hundred and five", [], {"words": "all"}, [205]),
        ("3.2 million, $5 thousand", [3.2, 5], {"scales": True}, [3.2e6, 5e3]),
        ("2 hundred thousand", [2], {"scales": True}, [2e5]),
        ("1st 22nd 3RD 11th second", [], {"ordinals": True}, [1, 22, 3, 11, 2]),
        ("twenty-first, third", [], {"ordinals": True}, [21, 3]),
        ("two-thirds, three quarters", [2, 3], {"fractions": True}, [2 / 3, 3 / 4]),
        ("one third, half, ½ or ¼", [1], {"fractions": True}, [1 / 3, 1 / 2, 1 / 2, 1 / 4]),
        ("3½, 3 1/2, 3 ½", [3, 1, 2], {"fractions": True}, [3.5, 3.5, 3.5]),
        ("1/2", [1, 2], {"fractions": True}, [0.5]),
        ("1/2/1990, 5/2, 1990/91", [1, 2, 1990, 5, 2, 1990, 91], {"fractions": True}, ...),
        ("25/5/12, 1990/5/12", [25, 5, 12, 1990, 5, 12], {"fractions": True}, ...),
    ],
)
def test_options(text, default, options, with_options):
    assert values(text) == default
    assert values(text, **options) == (default if with_options is ... else with_options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("no number", []),
        ("F15 B2 a1 _3 x_4", []),
        ("RM1,000 Rs5,000 F15,000.5 v2.5 _3.5", []),
        ("No.2 a,2 B2. 5 F15-7", [2, 2, 5, 7]),
        ("often, anyone, tens, sixth-former, weights", []),
        ("12.5.1990", [12, 5, 1990]),
        ("10\u00a0000 1\u202f234\u202f567.5 5\u00a010", [10000, 1234567.5, 5, 10]),
        ("31\u00a02019 and 1,2,345", [31, 2019, 1, 2, 345]),
        # Letters that are words of their own end no number, and digits are those of any script.
        ("他有12个苹果和2个梨", [12, 2]),
        ("서울은 3월 12일, 第1,000名 two个", [3, 12, 1000, 2]),
        ("１２ ３，０００ ．５ ๒๕๖๓บาท", [12, 3000, 0.5, 2563]),
        ("١٢ ١٬٠٠٠ ٣٫٥ १२", [12, 1000, 3.5, 12]),
        ("1990,1991", [1990, 1991]), ("12,34,567", [1234567]), ("1,2,3", [1, 2, 3]),
        ("2005-2009", [2005, 2009]), ("28–7", [28, 7]), ("In 1990. Then 5, 6.", [1990, 5, 6]),
        ("No.5", [5]), ("007", [7]),
        ("5 and 5 and five", [5, 5, 5]),  # each is a number of its own
        ("٣ ²", [3]),  # a superscript is no digit
        ("-5 °C", [5]),
        # Letters that only Unicode folds to those of a number word.
        ("SİX fıve ſix, Two", [2]),
    ],
)  # fmt: skip
def test_default(text, expected):
    assert values(text) == expected


def test_places_are_those_of_the_number_alone():
    text = "Élan: $1,250.5, 55% of twenty-one 41-yard, 3 1/2, 3.2 million, 21st"
    expected = ["1,250.5", "55", "twenty-one", "41", "3 1/2", "3.2 million", "21"]
    assert [found for _, found in pairs(text, EVERYTHING)] == expected
    mentions = find_numbers(text, EVERYTHING)
    assert all(a.end <= b.start for a, b in zip(mentions, mentions[1:], strict=False))
    assert all(type(m.value) is float for m in mentions)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("between two hundred and three hundred", [200, 300]),
        ("two thousand and three thousand", [2000, 3000]),
        ("one hundred and two thousand", [102_000]), ("two and three", [2, 3]),
        ("twenty and three", [20, 3]), ("one two three", [1, 2, 3]), ("twenty eleven", [20, 11]),
        ("twenty zero", [20, 0]), ("a hundred, a thousand", [100, 1000]),
        ("nineteen hundred and five", [1905]),
        ("two million five hundred thousand and six", [2_500_006]),
        ("two thousand million", [2000, 1_000_000]), ("one thousand two thousand", [1000, 2000]),
        ("two thousand three hundred", [2300]), ("thirty hundred", [30, 100]),
        ("one hundred and", [100]), ("five hundredth", []),
    ],
)  # fmt: skip
def test_compounds(text, expected):
    assert values(text, words="all") == expected


def test_every_cardinal_is_read_whole():
    small = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    small = [*small.split(), *"fifteen sixteen seventeen eighteen nineteen".split()]
    tens = "twenty thirty forty fifty sixty seventy eighty ninety".split()

    def spell(n):
        if n < 20:
            return small[n]
        if n < 100:
            return tens[n // 10 - 2] + (f"-{small[n % 10]}" if n % 10 else "")
        if n < 1000:
            return f"{small[n // 100]} hundred" + (f" and {spell(n % 100)}" if n % 100 else "")
        rest = n % 1000
        return f"{spell(n // 1000)} thousand" + (f" {spell(rest)}" if rest else "")

    for n in [*range(1100), *range(1100, 1_000_000, 9973)]:
        assert values(spell(n), words="all") == [n], spell(n)


def test_numbers_too_large_for_float64():
    large = "9" * 400
    text = f"5 {large} {'1,' + ','.join(['000'] * 110)} 6"
    assert values(text) == [5, 6]
    assert values("9" * 300) == [float("9" * 300)]
    assert all(math.isfinite(value) for value in values(text))


def test_long_text_takes_linear_time():
    # Quadratic scans would take minutes.
    assert len(values("1,2.3 hundred and " * 2_000, words="all")) == 3 * 2_000
    assert len(values("one " * 20_000, words="all")) == 20_000
