"""What is read out of a cell: numbers, dates, times, lists, halves, and keys of texts."""

import re

import pytest

from hardem_jax.programs.solutions.parts import is_nothing, read_cell, text_key
from hardem_jax.programs.solutions.types import PARTS, TEXT_PARTS


def shown(cell):
    found = read_cell(cell)
    return {PARTS[part]: [value.shown for value in values] for part, values in found.items()}


NUMBERS = {"w 13–0": (13, 0), "27-21 (ot)": (27, 21), "629 / 192": (629, 192)}
NUMBERS |= {"323 ft (98 m)": (323, 98), "-3": (-3, None), "−3": (-3, None), "+12 (-5)": (12, -5)}
NUMBERS |= {"u-15": (15, None), "1,234,567.5 km": (1234567.5, None), "5,5": (5, 5)}
NUMBERS |= {"12,34": (12, 34), "4.19%": (4.19, None), ".500": (0.5, None)}
NUMBERS |= {"$2.5 million": (2.5e6, None), "1.2 billion (3 thousand)": (1.2e9, 3000)}
NUMBERS |= {"3rd": (3, None), "t-5th": (5, None), "at #13 michigan": (13, None)}
NUMBERS |= {"12[3]": (12, None), "12*": (12, None), "march 3, 1990 (14)": (14, None)}
NUMBERS |= {"2:05.5 (3)": (3, None), "1990-91": (1990, 91), "none at all": (None, None)}
NUMBERS |= {"6½": (6.5, None), "½": (0.5, None), "1,034¼": (1034.25, None), "2 ½ doz.": (2.5, None)}
NUMBERS |= {"4 ft 8½ in": (4, 8.5), "section ½": (0.5, None), "-3⅓": (-3.333333, None)}
NUMBERS |= {"10⁶": (10, None), "8²": (8, None), "5.3 km² (x³)": (5.3, None), "210 (6%)²": (210, 6)}
NUMBERS |= {"12 millionaires": (12, None), "june 5-7, 1990": (7, 1990)}
NUMBERS |= {"may 1990-1994": (1994, None), "14 november 1889– 27 may 1964": (27, 1964)}
NUMBERS |= {"8:12–15": (15, None), "5 may 1990 -3": (-3, None), "5 may 1990 (-3)": (-3, None)}
NUMBERS |= {"3 thousandths": (3, None), "3 millions": (3e6, None), "$2.4 mil": (2.4e6, None)}
NUMBERS |= {"1,23,456.5": (123456.5, None), "5 mils": (5, None), "-$5": (-5, None)}
NUMBERS |= {"-€5": (-5, None), "-£4.5 million": (-4.5e6, None), "(-¥5)": (-5, None)}
NUMBERS |= {7.5: (7.5, None), 7: (7, None)}


@pytest.mark.parametrize("cell", NUMBERS)
def test_numbers(cell):
    found = shown(cell)
    number, second = [None if x is None else [x] for x in NUMBERS[cell]]
    assert (found.get("number"), found.get("second number")) == (number, second)


DATES = {"july 6, 2010": ("2010-07-06", [2010]), "6 july 2010": ("2010-07-06", [2010])}
DATES |= {"6 jul": ("xxxx-07-06", []), "Sept. 9th": ("xxxx-09-09", [])}
DATES |= {"march 1983": ("1983-03-xx", [1983]), "march": ("xxxx-03-xx", [])}
DATES |= {"2010-07-06": ("2010-07-06", [2010]), "11/09/2013*": ("2013-11-09", [2013])}
DATES |= {"friday, may 3, 1990": ("1990-05-03", [1990])}
DATES |= {"may 1990 - june 1994": ("1990-05-xx", [1990, 1994]), "february 29, 2011": (None, [2011])}
DATES |= {"1990–94": (None, [1990, 1994]), "1990-1994": (None, [1990, 1994])}
DATES |= {"1999/00": (None, [1999, 2000]), "1999–00": (None, [1999, 2000])}
DATES |= {"1899-00": (None, [1899, 1900]), "1998-00": (None, [1998]), "1999-99": (None, [1999])}
DATES |= {"1990": (None, [1990]), "12,345": (None, []), "mayor 5": (None, [])}
DATES |= {"2010-12-25": ("2010-12-25", [2010]), "2010/12/25": ("2010-12-25", [2010])}
DATES |= {"1990-91/92": (None, [1990, 1991]), "1861-65-70": (None, [1861, 1865])}
DATES |= {"31/31/2010": (None, [2010]), "6.7.2010": ("2010-07-06", [2010])}


@pytest.mark.parametrize("cell", DATES)
def test_dates(cell):
    (date, years), found = DATES[cell], shown(cell)
    assert found.get("date") == (date and [date])
    assert found.get("year", []) + found.get("last year", []) == years
    if date:
        _, month, day = date.split("-")
        names = "january february march april may june july august september october november"
        assert found["month"] == [(names.split() + ["december"])[int(month) - 1]]
        assert found.get("day") == (None if day == "xx" else [float(day)])


def test_dates_are_ordered_by_days():
    texts = ("march 1983", "2 march 1983", "december 31, 1983", "january 1, 1984")
    keys = [float(read_cell(text)[PARTS.index("date")][0].key) for text in texts]
    assert keys[1] - keys[0] == 1 and keys[3] - keys[2] == 1 and keys[3] - keys[0] == 306


TIMES = {"2:35.4": 155.4, "1:02:03": 3723, "6:00 pm": 64800, "12:30 a.m.": 1800, "1h 20m": 4800}
TIMES |= {"5 min 3 s": 303, "2 hours 5 minutes": 7500, "+1:20.3": 80.3, "1:05½": 65.5}
# Hours beyond float64, and beyond int.
TIMES |= dict.fromkeys(("9" * 400 + " h 5 min", "9" * 5000 + " h 5 min"))
TIMES |= dict.fromkeys(("2:1", "70 minutes", "7-6(4)", "1:75"))


def test_times():
    for cell, seconds in TIMES.items():
        assert shown(cell).get("time") == (seconds and [pytest.approx(seconds)]), cell


ITEMS = {"jp, na": ["jp", "na"], "FC/NES": ["FC", "NES"]}
ITEMS |= {"ann; bo and cy & di": ["ann", "bo", "cy", "di"], "a • b": ["a", "b"]}
ITEMS |= {"team (x, y)": ["team (x, y)"], "july 6, 2010": ["july 6, 2010"], "1,234": ["1,234"]}
ITEMS |= {"sandy": ["sandy"]}


def test_items():
    for cell, items in ITEMS.items():
        assert shown(cell)["item"] == items and shown(cell)["count"] == [len(items)], cell


HALVES = {"John (Canada)": ("John", "Canada"), "new york, usa": ("new york", "usa")}
HALVES |= {"a, b, c": ("a, b", "c"), "x - y": ("x", "y"), "x / y": ("x", "y")}
HALVES |= {"goal: ann": ("goal", "ann"), "w 13–0": ("w", "13–0"), "co-op": ("co-op", None)}
HALVES |= {"july 6, 2010": ("july 6, 2010", None)}


def test_halves():
    for cell, (first, second) in HALVES.items():
        assert shown(cell)["first"] == [first], cell
        assert shown(cell).get("second") == (second and [second]), cell


def test_nothing():
    for cell in (None, "", "-", "–", "—", "?", "...", "n/a", "N/A", "tba", "[1]"):
        assert is_nothing(cell) and read_cell(cell) == {}, cell
    assert not any(map(is_nothing, ["no", "0", "x", "✓", "†", float("inf"), "n"]))


def test_numbers_that_are_not_finite_have_no_parts():
    assert read_cell(float("inf")) == {} and read_cell(float("nan")) == {}
    assert "number" not in shown("9" * 400)
    assert read_cell(10**400) == read_cell(-(10**400)) == {}
    assert read_cell(2**53 + 1) == read_cell(str(2**53 + 1)) != read_cell(2**53)


@pytest.mark.parametrize("cell", ["\u0301/a", "\u0301, ††", "✓ / ✗", "\ud800/b", "٣ & ²", "(²)"])
def test_no_text_has_an_empty_key(cell):
    found = read_cell(cell)
    for part in TEXT_PARTS:
        assert all(value.key for value in found.get(PARTS.index(part), ()))


SAME = """
Beyoncé[4] = beyonce | Tromsø = tromso | usl a-league = USL A League | 1,234 = 1234 | cities = city
Dogs = dog | Third place = 3rd place | twenty = 20 | won = W | “x” = x | a–b = a-b | № 5 = no 5
O'Neil = o’neil | 6½ = 6.5 | 2 ½ = 2.5 | 8² = 8 | km² = km | CO₂ = co2
Ёлка = елка | ήλιος = ηλιος | שָׁלוֹם = שלום | مُحَمَّد = محمد | Việt = viet | ✔\ufe0f = ✔ | ﾊﾟﾘ = パリ
"""
DIFFERENT = """
-3 = 3 | 2.5 = 25 | 1.5 = 1 5 | ✓ = x | bo = bob | 1,23 = 123 | 6½ = 61 2 | 10⁶ = 106
कुल = कल | काल = कील | パリ = ハリ | ガス = カス | ปี = ปู | ไก่ = ไก้ | কি = ক | கொ = க | 1 = 1 कि
"""


def test_keys_of_texts():
    for pairs, same in ((SAME, True), (DIFFERENT, False)):
        for left, right in (pair.split(" = ") for pair in re.split(" [|] |\n", pairs.strip())):
            assert (text_key(left) == text_key(right)) == same and text_key(left), left
