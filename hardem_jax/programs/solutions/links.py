"""Links: conditions whose values are spans of the question.

A span of words is understood as a text and, if it is one, as a number or date:

- text: its `text_key`. So accents, case, plurals, number words and punctuation do not matter. It is
  the value of "=" and "!=" where a cell's part has this key, and of "contains" where a longer cell
  of "text" has its words, at most 8; spans of nothing but function words are not values. A word
  that no cell has stands for similar ones of the cells: "russian" for "russia"
  (`ProgramTable.similar`).
- number: "1,200", "-3", ".5", "6½", "2.5 million", "five", "third", "42nd", "15km". It is compared
  with "number", "second number", "year", "last year", "day", "count" and the row number; a year,
  only with numbers from 1000 to 2100; a day, only with numbers up to 31.
- month: "may", "sept", compared with "month"; date: "may 3, 1990", "1990-05-03", with "date"; time:
  "2:35.4", "5 min 3 s", "five minutes", with "time".

A link holds for at least one row, but never for every row (total rows aside). Of operators that
hold for the same rows with the same field and span, the first of =, contains, >, >=, <, <=, !=
stands for all. Spans have at most 16 words and start and end at words, not at punctuation or within
a number. Numbers beyond float64 are not values.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hardem_jax.errors import InputError
from hardem_jax.programs.solutions.parts import read_numbers, text_key
from hardem_jax.programs.solutions.rules import ProgramRules
from hardem_jax.programs.solutions.table import FieldValues, ProgramTable
from hardem_jax.programs.solutions.types import OPERATORS, PARTS, Links
from hardem_jax.tables.cell_values import MONTH_NUMBERS

# Longer spans are not values.
MAX_SPAN = 16

_FUNCTION_WORDS = frozenset(
    map(
        text_key,
        "a an the of in on at to by for from with and or not is are was were be been has have had "
        "do does did it its he she his her they their them this that these those there what which "
        "who whom whose when where why how many much more most than as if any all each other s "
        "t".split(),
    )
)
# Words for "a is higher than b" and "it is not".
_TRUTHS = (
    "more less,more fewer,higher lower,greater less,greater fewer,larger smaller,bigger smaller,"
    "longer shorter,taller shorter,after before,later earlier,above below,over under,"
    "older younger,better worse,faster slower,same different"
).split(",")
_INT16 = np.iinfo(np.int16).max
_DIGITS = re.compile(r"(?:(?<!\S)[-+−.])?\d[\d,]*(?:\.\d+)?")
_NUMBER_KEY = re.compile(r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)")
_STUCK_KEY = re.compile(r"(\d+(?:\.\d+)?) [a-z]{1,3}")
_SCALED_KEY = re.compile(r"[+-]?\d+(?:\.\d+)? (?:thousand|million|billion)")
_SECONDS = {"hour": 3600, "minute": 60, "min": 60, "second": 1, "sec": 1}
_DURATION_KEY = re.compile(rf"(\d+(?:\.\d+)?) ({'|'.join(_SECONDS)})")
_WORD = re.compile(r"[^\W\d_]+")
_DATE_WORDS = {
    *MONTH_NUMBERS,
    *"st nd rd th am pm h hour hours m min minutes s sec seconds".split(),
}
_EQUAL, _UNEQUAL, _ABOVE, _AT_LEAST, _BELOW, _AT_MOST, _CONTAINS, _EMPTY, _NOT_EMPTY = range(
    len(OPERATORS)
)
_LIKE_NUMBERS = ("number", "second number", "year", "last year", "day", "count")


class _Found(NamedTuple):
    """A link as it is found; sorts in the order of `Links`."""

    first: int
    last: int
    field: int
    operator: int
    value: str | float | None
    mask: int


def find_links(table: ProgramTable, question: str, words: np.ndarray, rules: ProgramRules) -> Links:
    """Every link that the rules allow; `InputError` if there are more than int16 can number."""
    if len(words) > _INT16:
        raise InputError(f"question: expected at most {_INT16} words, found {len(words)}")
    most = (_INT16 + 1) // len(PARTS) - 1  # one for the row number
    if len(table.header) > most:
        raise InputError(f"table: expected at most {most} columns, found {len(table.header)}")
    fields = {
        code: values
        for code, values in table.fields.items()
        if rules.allows_field(values.field, len(table.header))
    }
    found = [*_empty(table, fields, rules)]
    found += _conditions(table, fields, question, words, rules)
    found.sort(key=lambda link: link[:4])
    if len(found) > _INT16:
        raise InputError(f"question: expected at most {_INT16} links, found {len(found)}")
    array = [(link.field, link.operator, link.first, link.last) for link in found]
    return Links(
        np.array(array, np.int16).reshape(-1, 4),
        tuple(link.value for link in found),
        tuple(link.mask for link in found),
        _truths(question),
    )


def _truths(question: str) -> tuple[str, str]:
    """The words for true and false: two that the question offers, or "yes" and "no"."""
    words = set(_WORD.findall(question.lower()))
    pair = next((pair for pair in _TRUTHS if words.issuperset(pair.split())), "yes no")
    true, false = pair.split()
    return true, false


def _empty(
    table: ProgramTable, fields: dict[int, FieldValues], rules: ProgramRules
) -> Iterator[_Found]:
    """Conditions without a value, on whole cells."""
    columns = set()
    for code, values in fields.items():
        column = values.field.column
        valued = values.valued & table.ordinary
        if rules.empty and column not in columns and valued not in (0, table.ordinary):
            yield _Found(-1, -1, code, _EMPTY, None, table.ordinary & ~valued)
            yield _Found(-1, -1, code, _NOT_EMPTY, None, valued)
        columns.add(column)


def _conditions(
    table: ProgramTable,
    fields: dict[int, FieldValues],
    question: str,
    words: np.ndarray,
    rules: ProgramRules,
) -> Iterator[_Found]:
    for first, last, text in spans(question, words):
        key = text_key(text)
        distinct: dict[tuple[int, int], _Found] = {}
        compared = itertools.chain(
            _texts_compared(table, fields, key, rules),
            _numbers_compared(table, fields, span_numbers(text, key), rules),
        )
        for field, operator, value, mask in compared:
            if mask and mask & table.ordinary != table.ordinary:
                link = _Found(first, last, field, operator, value, mask)
                distinct.setdefault((field, mask), link)
        yield from distinct.values()


def _texts_compared(
    table: ProgramTable, fields: dict[int, FieldValues], key: str, rules: ProgramRules
) -> Iterator[tuple[int, int, str, int]]:
    """Field, operator, value and rows of the conditions of a text."""
    if _FUNCTION_WORDS.issuperset(key.split(" ")):
        return
    words = table.similar(key) if rules.similar else (key,)
    held = [
        (code, word, mask)
        for word in words
        for code, mask in table.holders.get(word, ())
        if code in fields
    ]
    for code, word, mask in held:
        yield code, _EQUAL, word, mask
    for word in words if rules.contains else ():
        for code, mask in table.containers.get(word, ()):
            yield code, _CONTAINS, word, mask
    for code, word, mask in held if rules.negation else ():
        yield code, _UNEQUAL, word, fields[code].valued & table.ordinary & ~mask


def _numbers_compared(
    table: ProgramTable,
    fields: dict[int, FieldValues],
    numbers: dict[str, float],
    rules: ProgramRules,
) -> Iterator[tuple[int, int, float, int]]:
    """Field, operator, value and rows of the conditions of numbers, see `span_numbers`."""
    for code, values in fields.items() if numbers else ():
        number = numbers.get(PARTS[values.field.part])
        if number is None:
            continue
        equal = values.rows_with.get(number, 0) & table.ordinary
        above = values.above(number) & table.ordinary
        below = values.below(number) & table.ordinary
        for allowed, operator, mask in (
            (True, _EQUAL, equal),
            (True, _ABOVE, above),
            (rules.inclusive, _AT_LEAST, above | equal),
            (True, _BELOW, below),
            (rules.inclusive, _AT_MOST, below | equal),
            (rules.negation and equal, _UNEQUAL, above | below),
        ):
            if allowed:
                yield code, operator, number, mask


def spans(question: str, words: np.ndarray) -> Iterator[tuple[int, int, str]]:
    """First word, last word and text of every span that may be a value."""
    bounds = words.tolist()
    inside = {
        offset
        for match in _DIGITS.finditer(question)
        for offset in range(match.start() + 1, match.end())
    }
    for first, (start, _) in enumerate(bounds):
        if start in inside or not (question[start].isalnum() or _is_sign(question, start)):
            continue
        for last in range(first, min(first + MAX_SPAN, len(bounds))):
            end = bounds[last][1]
            if end not in inside and _ends_word(question, end):
                yield first, last, question[start:end]


def _ends_word(question: str, end: int) -> bool:
    """Whether there is a letter or digit before this place, perhaps with combining marks."""
    while end and unicodedata.category(question[end - 1]).startswith("M"):
        end -= 1
    return question[end - 1 : end].isalnum()


def _is_sign(question: str, start: int) -> bool:
    """Whether a number begins here with its sign or decimal point."""
    before, after = question[start - 1 : start], question[start + 1 : start + 2]
    return question[start] in "+-−." and after.isdigit() and not before.strip()


def span_numbers(text: str, key: str) -> dict[str, float]:
    """What a span is compared with, by the names of number parts; ``key`` is its `text_key`. Empty
    if it is not a number, or one beyond float64."""
    stuck = None if " " in text else _STUCK_KEY.fullmatch(key)
    if stuck or _NUMBER_KEY.fullmatch(key):
        number = float(stuck[1] if stuck else key)
        is_year = 1000 <= number <= 2100 and number.is_integer()
        may = {"year": is_year, "last year": is_year, "day": 1 <= number <= 31}
        may |= {"count": number <= 99}
        parts = [part for part in _LIKE_NUMBERS if may.get(part, math.isfinite(number))]
        return dict.fromkeys(parts, number)
    if _SCALED_KEY.fullmatch(key):
        scaled = read_numbers(key).get("number")
        return dict.fromkeys(("number", "second number"), float(scaled.key)) if scaled else {}
    if (month := MONTH_NUMBERS.get(text.lower())) is not None:
        return {"month": float(month)}
    if duration := _DURATION_KEY.fullmatch(key):
        seconds = float(duration[1]) * _SECONDS[duration[2]]
        return {"time": seconds} if math.isfinite(seconds) else {}
    if _DATE_WORDS.issuperset(_WORD.findall(text.lower())) and " " in key:
        values = read_numbers(text)
        return {part: float(values[part].key) for part in ("date", "time") if part in values}
    return {}
