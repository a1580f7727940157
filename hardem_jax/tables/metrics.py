"""Denotation match of WikiTableQuestions' official evaluator, 1.0.2 (Pasupat and Liang, 2015).

Answer and prediction are sets of items. The prediction is correct if both sets have the same size
and each item of the answer matches an item of the prediction:

- by normalised text: no accents, ASCII quotes and dashes, no trailing citations or parentheses, no
  surrounding quotation marks, no final full stop, lower case;
- or by number, to within 1e-6, if both items have one;
- or by date, with the same parts given, if both items have one.

A predicted item has a number if Python can parse its text as one, and a date if it is written as
"2010-07-06", with "xx" for an unspecified part. The evaluator reads the numbers and dates of
answers from its `.tagged` files, in which "12,467", "10 years" and "July 6, 2010" also have values;
without these files, `answer_value` derives them.

Items are deduplicated by number, by date, or else by normalised text, so 3 and 3.0 are one item.
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hardem_jax.errors import InputError
from hardem_jax.tables.cell_values import parse_date, parse_number, parse_quantity
from hardem_jax.tables.table import MAX_WHOLE, Cell

_TOLERANCE = 1e-6

_ASCII = str.maketrans(
    dict.fromkeys("‘’´`", "'") | dict.fromkeys("“”", '"') | dict.fromkeys("‐‑‒–—−", "-")
)
# Brackets at the start of a text are content, unless they hold a number.
_CITATIONS = re.compile(r"(?:(?!^)\[[^\]]*\]|\A\[\d+\]|[•♦†‡*#+])+\Z")
_DETAILS = re.compile(r"(?!^)(?: \([^)]*\))+\Z")
_QUOTED = re.compile(r'"([^"]*)"')

_YMD = tuple[int, int, int]


class _Item(NamedTuple):
    """An item of a denotation; unspecified parts of a date are -1."""

    text: str
    number: float | int | None = None
    date: _YMD | None = None

    def key(self) -> tuple:
        """The key by which items of one denotation are deduplicated."""
        if self.number is not None:
            return "number", self.number
        return ("date", self.date) if self.date else ("text", self.text)

    def matches(self, other: _Item) -> bool:
        if self.text == other.text:
            return True
        if self.number is not None and other.number is not None:
            return abs(self.number - other.number) < _TOLERANCE
        return self.date is not None and self.date == other.date


class Denotation:
    """The answer to a question, prepared for comparison with many results.

    Args:
        answers: the items as annotated.
        values: number, ISO date or text of each item, as in the column `targetCanon` of the
            `.tagged` files. None to use `answer_value`.

    Raises:
        TypeError: `answers` is one string.
        ValueError: `answers` and `values` differ in length.

    Example:
        >>> target = Denotation(("12,467",))
        >>> target.matches([12467.0]), target.matches(["12,467"]), target.matches(["12 467"])
        (True, True, False)
    """

    def __init__(self, answers: Sequence[str], values: Sequence[str] | None = None):
        if isinstance(answers, str):
            raise TypeError(f"answers must be a sequence of strings, found the string {answers!r}")
        if values is None:
            values = [answer_value(answer) for answer in answers]
        items: dict[tuple, _Item] = {}
        for answer, value in zip(answers, values, strict=True):
            item = _read_item(answer, value)
            items.setdefault(item.key(), item)
        self._items = list(items.values())

    @property
    def items(self) -> tuple[Denotation, ...]:
        """A denotation for each distinct item.

        Example:
            >>> [item.matches(["Oslo"]) for item in Denotation(("Bonn", "Oslo", "Oslo")).items]
            [False, True]
        """
        every = tuple(Denotation(()) for _ in self._items)
        for one, item in zip(every, self._items, strict=True):
            one._items = [item]
        return every

    @property
    def numbers(self) -> tuple[float, ...]:
        """The numbers that an item has as its value or as its normalised text.

        A result of one number can only match if it is one of these, to within 1e-6.

        Example:
            >>> Denotation(("12,467",)).numbers, Denotation(("5 (tied)", "n/a")).numbers
            ((12467.0,), (5.0,))
        """
        found = [x for item in self._items for x in (item.number, _read_number(item.text))]
        return tuple(dict.fromkeys(float(number) for number in found if number is not None))

    def matches(self, result: Sequence[Cell]) -> bool:
        """Whether the result of a query matches this answer; see `result_texts`."""
        items: dict[tuple, _Item] = {}
        for cell in result:
            if cell is not None:
                item = _read_item(_cell_text(cell))
                items.setdefault(item.key(), item)
                if len(items) > len(self._items):  # most wrong results are long
                    return False
        if len(items) != len(self._items):
            return False
        return all(any(target.matches(item) for item in items.values()) for target in self._items)


def result_texts(result: Iterable[Cell]) -> tuple[str, ...]:
    """A query's result as in the evaluator's prediction files: a text for each item.

    NULL is not an item. Floats are written with fifteen digits, whole ones up to 2^53 with all, so
    that a cell that was read from a text gives its number again. One that is whole to twelve digits
    is written as whole: the evaluator would truncate 2.9999999999999, a rounded difference, to 2.

    Example:
        >>> result_texts([2004.0, 0.1 + 0.2, "bangkok", None])
        ('2004', '0.3', 'bangkok')
    """
    return tuple(_cell_text(cell) for cell in result if cell is not None)


def official_lines(results: Iterable[tuple[str, Iterable[Cell]]]) -> str:
    r"""Results as the official evaluator reads them: a line each, items between tabs.

    Args:
        results: question id and cells of each; none for a question without an answer.

    Example:
        >>> official_lines([("nt-0", ["a\tb", 2.0]), ("nt-1", [])])
        'nt-0\ta b\t2\nnt-1\n'
    """
    lines = ([id, *(" ".join(x.split()) for x in result_texts(cells))] for id, cells in results)
    return "".join("\t".join(line) + "\n" for line in lines)


def answer_value(answer: str) -> str:
    """The value of an answer as in `targetCanon`: a number or date, or else the text itself.

    Example:
        >>> [answer_value(text) for text in ("12,467", "10 years", "July 9", "1997/98")]
        ['12467.0', '10.0', 'xxxx-07-09', '1997/98']
    """
    if (number := parse_number(answer)) is not None:
        return repr(number)
    if date := parse_date(answer):
        year, month, day = date
        parts = (year, "04", "xxxx"), (month, "02", "xx"), (day, "02", "xx")
        return "-".join(missing if n is None else f"{n:{width}}" for n, width, missing in parts)
    if quantity := parse_quantity(answer):
        return repr(quantity[0])
    return answer


@functools.lru_cache(maxsize=1 << 17)
def normalize(text: str) -> str:
    """A text as the evaluator compares it.

    Example:
        >>> normalize('“Beyoncé  Live” (2003)[4]'), normalize("[a] note.")
        ('beyonce live', '[a] note')
    """
    decomposed = unicodedata.normalize("NFKD", text)
    text = "".join(c for c in decomposed if unicodedata.category(c) != "Mn").translate(_ASCII)
    before = None
    while text != before:
        before = text
        text = _CITATIONS.sub("", text.strip())
        text = _DETAILS.sub("", text.strip()).strip()
        if quoted := _QUOTED.fullmatch(text):
            text = quoted[1]
    return " ".join(text.removesuffix(".").split()).lower()


def score(
    results: Mapping[str, Sequence[Cell] | None], targets: Mapping[str, Denotation]
) -> dict[str, float | int]:
    """Accuracy over all questions of `targets`.

    Args:
        results: question id -> result of the predicted query, None if there is none.
        targets: question id -> answer.

    Returns:
        `accuracy` in percent; counts `questions`, `missing` (questions without a result, which are
        wrong) and `unknown` (results for other questions).

    Raises:
        InputError: `targets` is empty.

    Example:
        >>> score({"nt-0": [2004.0]}, {"nt-0": Denotation(("2004",)), "nt-1": Denotation(("1",))})
        {'accuracy': 50.0, 'questions': 2, 'missing': 1, 'unknown': 0}
    """
    if not targets:
        raise InputError("no questions to score: expected at least one with an answer, found 0")
    answered = {key: result for key in targets if (result := results.get(key)) is not None}
    correct = sum(targets[key].matches(result) for key, result in answered.items())
    return {
        "accuracy": 100.0 * correct / len(targets),
        "questions": len(targets),
        "missing": len(targets) - len(answered),
        "unknown": len(results.keys() - targets.keys()),
    }


def _cell_text(cell: str | float | int) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return str(cell)
    if abs(cell) <= MAX_WHOLE:
        whole = round(cell)
        rounded = abs(cell - whole) < _TOLERANCE and float(f"{cell:.12g}") == whole
        if cell == whole or rounded:
            return str(whole)
    return f"{cell:.15g}"


@functools.lru_cache(maxsize=1 << 17)
def _read_item(text: str, value: str | None = None) -> _Item:
    """Parses an item from its text, or from its value if that is given."""
    value = value or text
    if (number := _read_number(value)) is not None:
        return _Item(normalize(text), number)
    if date := _read_date(value):
        year, month, day = date
        if month == day == -1:
            return _Item(normalize(text), year)
        return _Item(normalize(text), date=date)
    return _Item(normalize(text))


def _read_number(text: str) -> float | int | None:
    # Python 2, which the evaluator was written for, does not accept "1_000".
    if "_" in text:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    with contextlib.suppress(ValueError):
        return int(text)
    # The evaluator truncates numbers close to whole ones: 2.9999999 becomes 2.
    return int(number) if abs(number - round(number)) < _TOLERANCE else number


def _read_date(text: str) -> _YMD | None:
    parts = text.lower().split("-")
    if len(parts) != 3 or "_" in text:
        return None
    try:
        year = -1 if parts[0] in ("xx", "xxxx") else int(parts[0])
        month, day = (-1 if part == "xx" else int(part) for part in parts[1:])
    except ValueError:
        return None
    in_calendar = (month == -1 or 1 <= month <= 12) and (day == -1 or 1 <= day <= 31)
    return (year, month, day) if in_calendar and (year, month, day) != (-1, -1, -1) else None
