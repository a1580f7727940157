"""Parses numbers and dates from answers and cells (Pasupat and Liang, 2015).

Answers of WikiTableQuestions are texts. If a whole text is a number or a date, the official
evaluator also compares its value:

    "2004", "12,467", "-.5"                   numbers: commas are ignored anywhere
    "10 years", "89.7 FM"                     the numbers 10 and 89.7, each with a unit
    "July 6, 2010", "6 Jul 2010", "7/6/2010"  dates
    "March 1983", "July 9", "2004-05"         dates without day, without year, without day
    "$5", "5%", "+5", "1st", "2:47", "1997/98", "ten", "2 hours 5 minutes"    neither

The evaluator reads these values from files that CoreNLP produced. Numbers are parsed by the rules
that produced them; dates match CoreNLP's in the forms above, the usual ones.
"""

from __future__ import annotations

import re

# Month is 1 to 12, day 1 to 31; None if unspecified.
Date = tuple[int | None, int | None, int | None]

_NUMBER = re.compile(r"-?(?=[,\d.]*\d)(?:,*\d)*(?:\.\d*)?(?:E-?\d+)?", re.ASCII)

MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august")
MONTHS += ("september", "october", "november", "december")
#: Months by name, also abbreviated.
MONTH_NUMBERS = {
    name[:length]: n for n, name in enumerate(MONTHS, 1) for length in (3, len(name))
} | {"sept": 9}

_WEEKDAY = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day,? )?"
_MONTH = r"(?P<month>" + "|".join(sorted(MONTH_NUMBERS, key=len, reverse=True)) + r")\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})"
_DATES = [
    re.compile(pattern, re.ASCII | re.IGNORECASE)
    for pattern in (
        r"(?P<year>[\dx]{4})(?:-(?P<month>[\dx]{2}))?(?:-(?P<day>[\dx]{2}))?",
        rf"{_WEEKDAY}{_MONTH} {_DAY}(?:,? {_YEAR})?",
        rf"{_WEEKDAY}(?:the )?{_DAY} (?:of )?{_MONTH}(?:,? {_YEAR})?",
        rf"{_MONTH},? {_YEAR}",
        rf"(?P<month>{'|'.join(MONTHS)})",
        rf"(?P<month>\d{{1,2}})/(?P<day>\d{{1,2}})/{_YEAR}",
        rf"(?P<month>\d{{1,2}})-(?P<day>\d{{1,2}})-{_YEAR}",
    )
]


def parse_number(text: str) -> float | None:
    """Parses a text that is a number; None if it is not, or is too large for float64."""
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text.replace(",", ""))
    return number if abs(number) != float("inf") else None


def parse_quantity(text: str) -> tuple[float, str] | None:
    """Parses a text of two words, a number and its unit; None for any other text."""
    first, _, unit = text.partition(" ")
    if not unit or " " in unit:
        return None
    number = parse_number(first)
    return None if number is None else (number, unit)


def parse_date(text: str) -> Date | None:
    """Parses a text that is a date into year, month and day; None if it is not. A year without a
    month is a number, not a date. In all-digit dates the month comes first."""
    for pattern in _DATES:
        if match := pattern.fullmatch(text):
            parts = {name: part for name, part in match.groupdict().items() if part}
            year, month, day = (_part_number(parts.get(name)) for name in ("year", "month", "day"))
            if month is None and day is None:
                return None
            in_calendar = (month is None or 1 <= month <= 12) and (day is None or 1 <= day <= 31)
            return (year, month, day) if in_calendar else None
    return None


def _part_number(part: str | None) -> int | None:
    """The number of a year, month or day; None if unspecified, as in "xx"."""
    if part is None or "x" in part.lower():
        return None
    return int(part) if part.isdigit() else MONTH_NUMBERS[part.lower()]
