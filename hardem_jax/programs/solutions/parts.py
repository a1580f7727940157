r"""Parts of cells: what a cell holds besides its text, such as numbers, dates or a list.

A cell of a table is a text, a number or NULL. NULL and texts that stand for nothing ("", "-",
"n/a", ...) have no parts. A number has only the part "number". Of a text:

    text           the whole cell; its key is `text_key`
    item           its pieces between ", ", ";", "/", "&", "+", "|", bullets and " and "
    first, second  its halves at the first bracket, else at " / ", " - ", ": ", "; ", the last ", "
                   or between words and a number ("w 13-0"); without one, "first" is the whole cell
    date           the first date in it ("july 6, 2010", "6 jul", "march 1983", "2010-07-06",
                   "7/6/2010", "6.7.2010"), in days; month and day 1, year 4 if unknown
    month, day     of this date
    year           of this date, else the first number from 1000 to 2100 without commas or decimals
    last year      the last other year: "1990-94", "1999-00", "1990-1994", "may 1990 - june 1994"
    time           seconds of the first ("2:35.4", "1:02:03", "6:00 pm", "1h 20m", "5 min 3 s")
    number, second number
                   the first and second number outside the date and the time, times a following
                   "thousand", "million", "mil" or "billion"; a sign counts only after a blank or
                   "("; "6½" is 6.5
    count          the number of its items

Footnote marks ("[2]", "*", "†") belong to no part except the cell shown for "text". Superscript
digits are notes ("8²"), parts of units ("km²") or exponents; they are shown, but are left out of
every key: "10⁶" has the number 10.
"""

from __future__ import annotations

import datetime
import functools
import math
import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from hardem_jax.programs.solutions.types import PARTS
from hardem_jax.tables.cell_values import MONTH_NUMBERS, MONTHS
from hardem_jax.tables.table import MAX_WHOLE, Cell

Key = str | float


class Value(NamedTuple):
    """A value of a part: the key that is compared and the cell that is shown."""

    key: Key
    shown: str | float


_NOTHING = {"", "--", "---", "...", "n/a", "na", "none", "null", "tba", "tbd", "unknown", "nil"}
_ASCII = str.maketrans(
    dict.fromkeys("‘’´`", "'") | dict.fromkeys("“”", '"') | dict.fromkeys("‐‑‒–—―−", "-")
)
# Letters that Unicode does not decompose.
_LETTERS = str.maketrans(dict(zip("øłđðı", "olddi", strict=True)) | {"æ": "ae", "ß": "ss"})
# Classes of marks without which a word is the same: Hebrew points, Arabic vowels, accents.
_OPTIONAL = {*range(10, 36), *range(200, 256)}
_COMBINING = "".join(c for c in map(chr, range(0x20000)) if unicodedata.category(c)[0] == "M")
# The lookahead is for speed: text in ASCII takes a quarter of the time.
_WORD = rf"[^\W\d_]+(?:(?=[^\x00-\x7f])[{_COMBINING}]+[^\W\d_]*)*"
_MARKS = re.compile(r"\[[^\[\]]{1,20}\](?=\s|\[|$|[,;)])|[*†‡♦•#^§]+$|(?<=\w)[*†‡§^]+")
_VULGAR = re.compile(r"(?:(?<!\d)(\d+)\s?)?([¼½¾⅐-⅞])")
_UNREAD = re.compile(r"(?<=[^\s⁰¹²³⁴-⁹])[⁰¹²³⁴-⁹]+|[\u034f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_TOKEN = re.compile(rf"(?:(?<![^\s(])[+-])?(?:\d+(?:\.\d+)?|(?<![^\s(])\.\d+)|{_WORD}")
_INSIDE = re.compile(r"(?<=\d),(?=(?:\d\d,)*\d{3}(?!\d))|(?<=\d)(?:st|nd|rd|th)\b")  # "1,234th"

_UNITS_IN_WORDS = "zero one two three four five six seven eight nine ten eleven twelve thirteen"
_UNITS_IN_WORDS += " fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS_IN_WORDS = "twenty thirty forty fifty sixty seventy eighty ninety hundred"
_ORDINALS = "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh"
_ORDINALS += " twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth"
_OTHER_WORDS = (
    {word: str(n) for n, word in enumerate(_UNITS_IN_WORDS.split())}
    | {word: str(n) for n, word in enumerate(_ORDINALS.split())}
    | {word: str(10 * n) for n, word in enumerate(_TENS_IN_WORDS.split(), 2)}
    | {"twentieth": "20", "thirtieth": "30", "twice": "2"}
    | dict.fromkeys("w win wins won winner winners winning victory victories".split(), "win")
    | dict.fromkeys("l lose loses lost loser losers losing loss losses defeat".split(), "lose")
)
_MONTH = r"(?P<month>" + "|".join(sorted(MONTH_NUMBERS, key=len, reverse=True)) + r")\b\.?"
_DAY = r"(?<![\d:.])(?P<day>\d{1,2})(?:st|nd|rd|th)?(?![\d:])"
_YEAR = r"(?P<year>1\d{3}|20\d\d|2100)(?!\d)"
_DATES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?<![\d-]){_YEAR}(?P<sep>[-/])(?P<month>\d\d)(?P=sep)(?P<day>\d\d)(?!\d)",
        rf"\b{_MONTH} ?{_DAY}(?:,? ?{_YEAR})?",
        rf"{_DAY}[ -](?:of )?{_MONTH}(?:,?[ -]?{_YEAR})?",
        rf"\b{_MONTH},? ?{_YEAR}",
        rf"(?<![\d/])(?P<month>\d\d?)/(?P<day>\d\d?)/{_YEAR}",
        rf"(?<![\d.])(?P<day>\d\d?)\.(?P<month>\d\d?)\.{_YEAR}",
        rf"^{_MONTH}$",
    )
)
# "1990-91", "1990/91", but of "2010-12-25" the year alone.
_YEARS = re.compile(
    r"(?<![\d.,:])(1\d{3}|20\d\d|2100)(?![\d:]|[.,]\d)"
    r"(?:(?!([-/])(?:0\d|1[0-2])\2\d\d(?!\d))\s?[-/]\s?(?P<last>\d\d)(?!\d))?"
)
_CLOCK = re.compile(
    r"(?<![\d:.])(\d{1,3}):([0-5]\d)(?::([0-5]\d))?(\.\d+)?(?![\d:])(?:\s?([ap])\.?m\b)?"
)
_UNITS = re.compile(
    r"(?<![\d:.])(?:(?P<h>\d+)\s?h(?:(?:ou)?rs?)?\b[\s,]*)?"
    r"(?:(?P<m>\d+)\s?m(?:in(?:ute)?s?)?\b[\s,]*)?(?:(?P<s>\d+(?:\.\d+)?)\s?s(?:ec(?:ond)?s?)?\b)?"
)
_NUMBER = re.compile(
    r"(?:(?<![^\s(])(?P<sign>[+-])\s?[$€£¥]?)?"
    r"(?P<digits>(?:\d{1,3}(?:,\d{3})+|\d{1,2}(?:,\d\d)+,\d{3})(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|(?<!\d)\.\d+)"
    r"(?:\s?(?P<scale>thousand|million|billion|mil(?!s))s?\b)?"
)
_SCALES = {"thousand": 1e3, "million": 1e6, "mil": 1e6, "billion": 1e9}
_ITEMS = re.compile(r"\s*(?:,\s|;|\s?/\s?|&|\s\+\s|\||•|·|\band\b)\s*(?![^(]*\))")
_BRACKET = re.compile(r"([^(]*[^(\s])\s*\((.+?)\)?\s*")
_HALVES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(.+?)\s+/\s+(.+)",
        r"(.+?)\s+-+\s+(.+)",
        r"(.+?)\s*:\s+(.+)",
        r"(.+?)\s*;\s*(.+)",
        r"(.+),\s+(.+)",
        r"([^\W\d][^\d(]*?)\s+(#?\d.*)",
    )
)


@functools.lru_cache(maxsize=1 << 17)
def text_key(text: str) -> str:
    """The words of a text as they are compared, joined by blanks.

    Letters lose case and accents, words their plural -s; punctuation, footnote marks and the commas
    in numbers go; number words and ordinals become digits, words for winning and losing "win" and
    "lose". A sign between blank and number stays. A text without letters and digits is its own key.
    """
    plain = _plain(text)
    words = _TOKEN.findall(_INSIDE.sub("", plain))
    return " ".join(map(_normal_word, words)) or " ".join(plain.split()) or text


@functools.lru_cache(maxsize=1 << 17, typed=True)
def read_cell(cell: Cell) -> dict[int, tuple[Value, ...]]:
    """The values of every part that a cell has, by index in `PARTS`."""
    if cell is None or is_nothing(cell):
        return {}
    if isinstance(cell, int) and MAX_WHOLE < abs(cell) < 2**63:
        cell = str(cell)  # shows all digits
    if not isinstance(cell, str):
        number = _finite(cell)
        return {} if number is None else {_PART["number"]: (_plain_value(number),)}
    found: dict[str, tuple[Value, ...]] = {"text": (Value(text_key(cell), cell),)}
    text = _marks_removed(cell) or cell
    whole_date = (date := _find_date(_plain(text))) and date.end - date.start == len(_plain(text))
    items = () if whole_date else tuple(_texts(_ITEMS.split(text)))
    items = items or (Value(text_key(text), text),)
    first, second = (text, "") if whole_date else _halves(text)
    found |= {"item": items, "first": tuple(_texts([first])), "second": tuple(_texts([second]))}
    found |= {part: (value,) for part, value in read_numbers(text).items()}
    found["count"] = (_plain_value(float(len(items))),)
    return {n: found[part] for n, part in enumerate(PARTS) if found.get(part)}


def is_nothing(cell: Cell) -> bool:
    """Whether a cell is NULL or a text that stands for nothing."""
    if not isinstance(cell, str):
        return cell is None
    text = _plain(cell).strip()
    return text in _NOTHING or text.strip("-?.* ") == ""


@functools.lru_cache(maxsize=1 << 16)
def read_numbers(text: str) -> dict[str, Value]:
    """The values of the number parts of a text, by name, except "count"."""
    text = left = _plain(text)
    values: dict[str, Value] = {}
    if date := _find_date(text):
        values |= date.values
        left = _blank(left, date.start, date.end)
    if time := _find_time(left):
        seconds, start, end = time
        values["time"] = _plain_value(seconds)
        left = _blank(left, start, end)
    if years := list(_find_years(text)):
        values.setdefault("year", _plain_value(years[0]))
        if years[-1] != values["year"].key:
            values["last year"] = _plain_value(years[-1])
    found = (
        float(match["digits"].replace(",", ""))
        * _SCALES.get(match["scale"], 1)
        * (-1 if match["sign"] == "-" else 1)
        for match in _NUMBER.finditer(left)
    )
    numbers = filter(math.isfinite, found)
    for part, number in zip(("number", "second number"), numbers, strict=False):
        values[part] = _plain_value(number)
    return values


class _Date(NamedTuple):
    values: dict[str, Value]
    start: int
    end: int


def _find_date(text: str) -> _Date | None:
    for pattern in _DATES:
        for match in pattern.finditer(text):
            groups = match.groupdict()
            year, month, day = (groups.get(name) for name in ("year", "month", "day"))
            assert month is not None
            number = int(month) if month.isdigit() else MONTH_NUMBERS[month]
            try:
                date = datetime.date(int(year or 4), number, int(day or 1))
            except ValueError:  # not in the calendar
                continue
            shown = f"{year or 'xxxx'}-{number:02}-{f'{int(day):02}' if day else 'xx'}"
            values = {"date": Value(float(date.toordinal()), shown)}
            values["month"] = Value(float(number), MONTHS[number - 1])
            if year:
                values["year"] = _plain_value(float(year))
            if day:
                values["day"] = _plain_value(float(day))
            return _Date(values, match.start(), match.end())
    return None


def _finite(cell: float) -> float | None:
    """A number as float64; None if it is too large or none at all."""
    try:
        number = float(cell)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _plain_value(number: float) -> Value:
    return Value(number, number)


def _find_time(text: str) -> tuple[float, int, int] | None:
    for match in _CLOCK.finditer(text):
        high, low, seconds, fraction, half = match.groups()
        if half and 1 <= int(high) <= 12:
            hours = int(high) % 12 + 12 * (half == "p")
            return 3600.0 * hours + 60 * int(low) + int(seconds or 0), match.start(), match.end()
        total = 60 * int(high) + int(low)
        total = 60 * total + int(seconds) if seconds else total
        return total + float(fraction or 0), match.start(), match.end()
    for match in _UNITS.finditer(text):
        hours, minutes, seconds = match["h"], match["m"], match["s"]
        if (hours, minutes, seconds).count(None) < 2:
            total = 3600 * float(hours or 0) + 60 * float(minutes or 0) + float(seconds or 0)
            if math.isfinite(total):
                return total, match.start(), match.end()
    return None


def _find_years(text: str) -> Iterator[float]:
    for match in _YEARS.finditer(text):
        year = int(match[1])
        yield float(year)
        if not (last := match["last"]):
            continue
        if last == "00" and year % 100 == 99:
            yield float(year + 1)
        elif int(last) > year % 100:  # "1990-94", not "2010-07"
            yield float(year - year % 100 + int(last))


def _halves(text: str) -> tuple[str, str]:
    plain = text.translate(_ASCII)
    for pattern in (_BRACKET, *_HALVES):
        if match := pattern.fullmatch(plain):
            return text[slice(*match.span(1))], text[slice(*match.span(2))]
    return text, ""


def _texts(texts) -> Iterator[Value]:
    for text in texts:
        text = text.strip(" ,;\"'")
        if text.strip("-–—?.* "):
            yield Value(text_key(text), text)


@functools.lru_cache(maxsize=1 << 16)
def _plain(text: str) -> str:
    """Lower case, ASCII quotes and dashes, decimal fractions; no accents, no footnote marks."""
    if not text.isascii():
        # Before they are decomposed: "6½" would become "61⁄2", "10⁶" would become "106".
        text = _UNREAD.sub("", _VULGAR.sub(_decimal, text))
        decomposed = unicodedata.normalize("NFKD", text.translate(_ASCII))
        text = "".join(c for c in decomposed if unicodedata.combining(c) not in _OPTIONAL)
    return _marks_removed(text.lower().translate(_LETTERS))


def _decimal(match: re.Match[str]) -> str:
    """A vulgar fraction, with the whole number before it if there is one."""
    return f"{match[1] or 0}{f'{unicodedata.numeric(match[2]):.6g}'.removeprefix('0')}"


def _marks_removed(text: str) -> str:
    return _MARKS.sub("", text).strip() if len(text) > 1 else text


def _normal_word(word: str) -> str:
    if (other := _OTHER_WORDS.get(word)) is not None:
        return other
    if len(word) < 3 or not word.endswith("s") or word.endswith("ss"):
        return word
    return word[:-3] + "y" if word.endswith("ies") and len(word) > 4 else word[:-1]


def _blank(text: str, start: int, end: int) -> str:
    # No blank, or the hyphen of "june 5-7" would be the sign of a number.
    return text[:start] + "\0" * (end - start) + text[end:]


_PART = {name: number for number, name in enumerate(PARTS)}
