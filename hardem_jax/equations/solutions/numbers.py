"""Finds the numbers of a text: N_D and N_Q of discrete reasoning (Min et al., 2019, section 4.2).

Every mention is a number of its own; mentions do not overlap. Values are never negative: a
hyphen joins or separates ("41-yard", "2005-2009"), and signs belong to the equation. A
mention covers only the number, "55" in "55%" and "5" in "$5".

    text                found by default    with the option
    "1,000,000"         1000000             commas=False: 1, 0, 0
    "12.5"              12.5                decimals=False: 12, 5
    "55%"               55                  percent="hundredth": 0.55, "skip": nothing
    "$5"                5                   currency=False: nothing
    "41-yard"           41                  hyphenated=False: nothing
    "Two", "nineteen"   2, 19               words="none": nothing
    "twenty-one"        nothing             words="all": 21
    "3.2 million"       3.2                 scales=True: 3200000
    "10km", "1990s"     10, 1990            glued=False: nothing
    "21st", "second"    nothing             ordinals=True: 21, 2
    "two-thirds", "½"   2, nothing          fractions=True: 2/3, 1/2

Digits inside a word ("F15", "B2") are not numbers, but between letters that are words of their own
(`hardem_jax.words`) they are. Digits of any script count. Digits and separators that do not form a
single number are read piece by piece: "1990,1991" is two numbers, "12.5.1990" is three.
Numbers too large for float64 are skipped.
"""

from __future__ import annotations

import dataclasses
import math
import re
import unicodedata
from collections.abc import Iterator
from typing import Literal, NamedTuple

from hardem_jax.equations.solutions.number_words import (
    CARDINALS,
    PARTS,
    PLURAL_PARTS,
    SCALES,
    VALUES,
    Word,
    read_compound,
)
from hardem_jax.errors import require
from hardem_jax.words import LETTERS_ALONE

# A letter that is a word of its own ends no other: "12" is a number in "\u670912\u4e2a".
_WORD_CHARACTER = rf"[^\W{LETTERS_ALONE}]"
_WORD_LETTER = rf"[^\W\d{LETTERS_ALONE}]"
# Blanks that lines do not break at, as in "10 000"; a list may have others.
_TIED = r"[\u00a0\u2009\u202f]\d{3}(?!\d)"
_VULGAR = "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
_TOKEN = re.compile(
    rf"(?<!{_WORD_CHARACTER}|[.．٫])(?P<point>[.．٫]\d+)(?![.,．，٫٬]?\d)"
    rf"|(?<!{_WORD_CHARACTER})(?P<digits>\d+(?:[.,．，٫٬]\d+|{_TIED})*)"
    rf"|(?P<inside>{_WORD_LETTER}\d+(?:[.,．，٫٬]\d+)+)"  # "000" of "RM1,000" is not a number
    # ASCII, since Unicode also takes "ı" for "i" and "ſ" for "s".
    rf"|(?<!{_WORD_CHARACTER})(?P<word>(?ai:{'|'.join(sorted(VALUES, key=len, reverse=True))}))"
    rf"(?!{_WORD_CHARACTER})"
    rf"|(?P<vulgar>[{_VULGAR}])"
)
_GROUPS = r"(?:\d{1,3}(?:,\d{3})+|\d{1,2}(?:,\d{2})+,\d{3})"  # the second as in India
_WITH_COMMAS = re.compile(rf"{_GROUPS}(?:\.\d+)?")
_LETTER = re.compile(_WORD_LETTER)
# Full-width and Arabic ones, the minus, and blanks.
_NARROW = str.maketrans("．٫，٬＋－−\u00a0\u2009\u202f", "..,,+--,,,")
_ORDINAL_SUFFIX = re.compile(r"(?:st|nd|rd|th)\b", re.IGNORECASE)
_PERCENT = re.compile(r"\s?(?:[%％٪]|percent\b|per cent\b)", re.IGNORECASE)
_CURRENCY_BEFORE = re.compile(r"[$＄€£￡¥￥₹]\s?$")
_TIED_BEFORE, _TIED_AFTER = re.compile(r"\w-$"), re.compile(r"-\w")
_SPACE_OR_HYPHEN, _AND = re.compile(r"[\s\-‐‑]"), re.compile(r"\s+and\s+", re.IGNORECASE)
_NOTHING, _SLASH = re.compile(""), re.compile("/")
# In words. Five groups such as "nineteen hundred ninety nine", each with its scale, have 25.
_LONGEST_COMPOUND = 32
_AT_MOST_99 = re.compile("[1-9][0-9]?")
_NUMBER = re.compile(rf"[+-]?(?=\.?\d)(?:{_GROUPS}|\d+)?(?:\.\d*)?(?:e[+-]?\d+)?")
Percent = Literal["number", "hundredth", "skip"]
NumberWords = Literal["none", "nineteen", "all"]


class NumberMention(NamedTuple):
    """A number in a text.

    Attributes:
        value: finite and not negative.
        start: first character.
        end: character after the last.
    """

    value: float
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class NumberConfig:
    """What counts as a number; the table above shows each option.

    The default comes closest to the paper's Z, which covers 93 % of the questions of DROP_num
    with mean |Z| 8.2 and median 3. With the default `EquationRules` and passages of 400 words,
    4,912 of these questions give 93.0 %, 9.1 and 4. Compounds and fractions change almost nothing
    (93.1 %); ordinals add 0.3 % but raise the mean to 15.3, mostly by chance matches. Coverage
    falls to 75 % with percentages as hundredths, to 82 % without hyphenated numbers and to 66 %
    without commas and decimals.

    Attributes:
        commas: "1,000" is one number.
        decimals: "2.5" is one number.
        percent: "number" reads "55%" and "55 percent" as 55, "hundredth" as 0.55; "skip" drops it.
        currency: numbers after a currency sign count.
        hyphenated: numbers joined to a word or another number by a hyphen count.
        glued: digits directly followed by letters ("10km") count, unless they are ordinals.
        words: which spelled-out numbers count, in any case: "none", "nineteen" (zero to
            nineteen) or "all" (compounds too, up to trillions).
        scales: digits followed by hundred, thousand, ..., trillion are multiplied by it.
        ordinals: "21st", "second" and "twenty-first" count.
        fractions: "1/2", "3 1/2", "½", "half" and "two-thirds" are one number.
    """

    commas: bool = True
    decimals: bool = True
    percent: Percent = "number"
    currency: bool = True
    hyphenated: bool = True
    glued: bool = True
    words: NumberWords = "nineteen"
    scales: bool = False
    ordinals: bool = False
    fractions: bool = False

    def __post_init__(self) -> None:
        require(self)


def find_numbers(text: str, config: NumberConfig | None = None) -> list[NumberMention]:
    """The numbers of ``text``, from left to right, without overlap.

    Args:
        text: a passage or a question.
        config: what counts as a number; None for the default.

    Returns:
        Mentions with character offsets, without numbers too large for float64.

    Example:
        >>> [tuple(m) for m in find_numbers("Two field goals, of 41 and 38.5 yards.")]
        [(2.0, 0, 3), (41.0, 20, 22), (38.5, 27, 31)]
        >>> every = NumberConfig(words="all", scales=True, ordinals=True, fractions=True)
        >>> [m.value for m in find_numbers("Half of 3.2 million on the twenty-first", every)]
        [0.5, 3200000.0, 21.0]
    """
    return [m for m in _Scanner(text, config or NumberConfig()) if math.isfinite(m.value)]


def parse_number(text: str) -> float | None:
    """The number that an answer's text is, in any script; None if it is not one, inf if too large.

    Example:
        >>> parse_number("83,000"), parse_number("-0.09"), parse_number("1e999")
        (83000.0, -0.09, inf)
        >>> parse_number("12 yards"), parse_number("nan"), parse_number("1,00")
        (None, None, None)
    """
    text = text.strip().lower().translate(_NARROW).replace("–", "-")
    return float(text.replace(",", "")) if _NUMBER.fullmatch(text) else None


class _Token(NamedTuple):
    """A number word, a run of digits or a vulgar fraction; `form` is in lower case."""

    form: str
    value: float
    start: int
    end: int


# The number of tokens read, and their value; None if they do not count as a number.
_Reading = tuple[int, float | None]


class _Scanner:
    """Iterates over the mentions of a text, including those too large for float64 (inf)."""

    def __init__(self, text: str, config: NumberConfig):
        self.text = text
        self.config = config
        self.tokens = [t for match in _TOKEN.finditer(text) for t in _tokens(match, config)]

    def __iter__(self) -> Iterator[NumberMention]:
        at = 0
        while at < len(self.tokens):
            used, value = self._fraction(at) or self._digits(at) or self._words(at)
            start, end = self.tokens[at].start, self.tokens[at + used - 1].end
            if value is not None and self._counts_in_context(start, end):
                share = self.config.percent == "hundredth" and _PERCENT.match(self.text, end)
                yield NumberMention(value / 100 if share else value, start, end)
            at += used

    def _counts_in_context(self, start: int, end: int) -> bool:
        """Whether the text around a number lets it count."""
        config, text = self.config, self.text
        before, after = text[max(0, start - 2) : start], text[end : end + 2]
        tied = _TIED_BEFORE.search(before) or _TIED_AFTER.match(after)
        return (
            (config.percent != "skip" or not _PERCENT.match(text, end))
            and (config.currency or not _CURRENCY_BEFORE.search(before))
            and (config.hyphenated or not tied)
        )

    def _joined(self, at: int, joint: re.Pattern[str] = _SPACE_OR_HYPHEN) -> bool:
        """Whether there is a next token with only `joint` in between."""
        if at + 1 >= len(self.tokens):
            return False
        between = self.text[self.tokens[at].end : self.tokens[at + 1].start]
        return joint.fullmatch(between) is not None

    def _fraction(self, at: int) -> _Reading | None:
        whole = 0.0
        used = 0
        if self.tokens[at].form.isdecimal() and (self._joined(at) or self._joined(at, _NOTHING)):
            if self.tokens[at + 1].form not in VALUES and self._proper_fraction(at + 1):
                whole, used = self.tokens[at].value, 1  # 3 1/2
        part = self._proper_fraction(at + used)
        if part is None:
            return None
        return used + part[0], whole + part[1] if self.config.fractions else None

    def _proper_fraction(self, at: int) -> tuple[int, float] | None:
        """Tokens and value of "½", "half", "1/2" or "two-thirds"; only "½" without `fractions`."""
        token = self.tokens[at]
        if token.form in _VULGAR:
            return 1, token.value
        if not self.config.fractions:
            return None
        if token.form == "half":
            return 1, 0.5
        if at + 1 == len(self.tokens):
            return None
        other = self.tokens[at + 1]
        if self._joined(at, _SLASH):
            small = _AT_MOST_99.fullmatch(token.form) and _AT_MOST_99.fullmatch(other.form)
            # A third number makes it a date.
            alone = not self._joined(at + 1, _SLASH) and not (at and self._joined(at - 1, _SLASH))
            if small and token.value < other.value and alone:
                return 2, token.value / other.value
        parts = PARTS if token.value == 1 else PLURAL_PARTS
        if token.form in CARDINALS and token.value and other.form in parts and self._joined(at):
            return 2, token.value / parts[other.form]
        return None

    def _digits(self, at: int) -> _Reading | None:
        token, config = self.tokens[at], self.config
        if not token.form[-1].isdecimal():
            return None
        if _ORDINAL_SUFFIX.match(self.text, token.end):
            return 1, token.value if config.ordinals else None
        if _LETTER.match(self.text, token.end):
            return 1, token.value if config.glued else None
        used, value = 1, token.value
        while config.scales and self._joined(at + used - 1):
            scale = SCALES.get(self.tokens[at + used].form)
            if scale is None:
                break
            used, value = used + 1, value * scale
        return used, value

    def _words(self, at: int) -> _Reading:
        compound = read_compound(self._run(at))
        if compound.ordinal:
            return compound.used, compound.value if self.config.ordinals else None
        small = compound.value is not None and compound.value < 20
        wanted = self.config.words == "all" or (self.config.words == "nineteen" and small)
        return compound.used, compound.value if wanted else None

    def _run(self, at: int) -> list[Word]:
        """The number words from this one on, separated only by joints or "and"."""
        run = [Word(self.tokens[at].form)]
        while len(run) < _LONGEST_COMPOUND:
            after_and = self._joined(at, _AND)
            if not after_and and not self._joined(at):
                return run
            at += 1
            if self.tokens[at].form not in VALUES:
                return run
            run.append(Word(self.tokens[at].form, after_and))
        return run


def _tokens(match: re.Match[str], config: NumberConfig) -> Iterator[_Token]:
    form, start, end = match.group().lower(), match.start(), match.end()
    if match.lastgroup == "inside":
        return
    if match.lastgroup == "word":
        yield _Token(form, VALUES[form], start, end)
    elif match.lastgroup == "vulgar":
        yield _Token(form, unicodedata.numeric(form), start, end)
    else:
        form = form.translate(_NARROW)
        for piece, offset in _pieces(form, 0, config):
            at = start + offset
            yield _Token(piece, float(piece.replace(",", "")), at, at + len(piece))


def _pieces(form: str, offset: int, config: NumberConfig) -> Iterator[tuple[str, int]]:
    """Yields digits and separators as one number if they form one, else split at the separators."""
    commas = "," not in form or (config.commas and _WITH_COMMAS.fullmatch(form))
    decimals = form.count(".") == 0 or (config.decimals and form.count(".") == 1)
    if commas and decimals:
        yield form, offset
        return
    separator = "." if not decimals and (not config.decimals or "," not in form) else ","
    for piece in form.split(separator):
        if piece:
            yield from _pieces(piece, offset, config)
        offset += len(piece) + 1
