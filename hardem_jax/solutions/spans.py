"""Spans of a document as solutions: every mention of an answer (Min et al., 2019, section 4.1).

A solution is a character span; executing it, f(z), reads its text. Z holds every span whose
words are those of an alias of the answer, so that f(z) = y up to the normalisation below. It is
in document order (by start, then by end) and without duplicates.

Words are compared in lower case and NFKC; punctuation and the articles a, an, the are ignored
on both sides, as in the official metrics. Mentions start and end at word boundaries: "art" is
not found in "party", nor "1" in "1,000". Combining marks belong to the preceding word, so a
decomposed "café" is one word. In scripts that are written without spaces, such as Chinese, Japanese
and Thai, every letter is a word, for nothing marks where longer ones begin.

Tokenised text matches plain text and vice versa: "Crohn 's disease" has the same words as
"Crohn's disease", and "Ca n't" is read as "Can't".

Example:
    >>> text = "The Sun, once the Daily Herald. Daily (Herald) readers."
    >>> mentions = enumerate_spans(split_words(text), AliasMatcher(["The Daily Herald"]))
    >>> [execute_span(text, start, end) for start, end in mentions]
    ['Daily Herald', 'Daily (Herald']
"""

import dataclasses
import functools
import itertools
import re
import unicodedata
from collections.abc import Iterable

import numpy as np

from hardem_jax.solutions.arguments import check_text, check_texts

# Rejoins the "n" of a negation that a tokeniser split off ("Ca n't") with its verb.
_CUT_NEGATION = r"(?: [nN](?=['\u2019][tT]\b))?"
_ASCII_WORD = re.compile(r"[^\W_]+" + _CUT_NEGATION)
_ARTICLES = frozenset({"a", "an", "the"})
_NUMBER_SEPARATORS = ".,．，"  # also full-width ones


@dataclasses.dataclass(frozen=True)
class Words:
    """The words of a text, without punctuation and articles.

    Attributes:
        text: the text itself.
        forms: normalised forms of the W words.
        spans: ``[W, 2]`` int32, character start and exclusive end of each word.
    """

    text: str
    forms: tuple[str, ...]
    spans: np.ndarray


def split_words(text: str) -> Words:
    """Splits ``text`` into normalised words with their positions.

    Example:
        >>> words = split_words("The 39 Steps")
        >>> words.forms, words.spans.tolist()
        (('39', 'steps'), [[4, 6], [7, 12]])
        >>> split_words("\u6771\u4eac 2020\u5e74").forms
        ('\u6771', '\u4eac', '2020', '\u5e74')
    """
    check_text(text, "text")
    word = _ASCII_WORD if text.isascii() else _unicode_word()
    forms, spans = [], []
    for match in word.finditer(text):
        form = unicodedata.normalize("NFKC", match.group().replace(" ", "")).lower()
        # Again, since "ǰ" is one character, but "J̌" is two.
        form = unicodedata.normalize("NFKC", form)
        if form not in _ARTICLES:
            forms.append(form)
            spans.append(match.span())
    return Words(text, tuple(forms), np.array(spans, np.int32).reshape(-1, 2))


def skip_combining_marks(text: str, end: int) -> int:
    """Returns the first position from ``end`` on without a combining mark or conjoining jamo.

    Tokenisers that strip accents exclude a decomposed accent from the last token; those that
    compose characters exclude the vowel and the last consonant of a decomposed Hangul syllable.

    Example:
        >>> skip_combining_marks("cafe\\u0301 noir", 4)
        5
    """
    while end < len(text) and (
        unicodedata.category(text[end]).startswith("M")
        or "\u1160" <= text[end] <= "\u11ff"
        or "\ud7b0" <= text[end] <= "\ud7ff"
    ):
        end += 1
    return end


def cuts_word(text: str) -> np.ndarray:
    """Where a span must not begin or end: inside a word or a number.

    No mention of any Z does. Scripts that are written without spaces (Chinese, Japanese, Thai and
    their neighbours) have no such place, since their words are not marked.

    Returns:
        ``[C + 1]`` bool for the positions before, between and after the C characters.

    Example:
        >>> text = "Don, 1,000 \u6771\u4eac"
        >>> "".join("x" if cut else "." for cut in cuts_word(text))
        '.xx...xxxx....'
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    kinds = np.full(len(codes) + 4, _OTHER, np.int8)
    table = _kinds_of_characters()
    kinds[2:-2] = table[np.minimum(codes, len(table) - 1)]
    before2, before, after, after2 = kinds[:-3], kinds[1:-2], kinds[2:-1], kinds[3:]
    # The character that the marks before a position belong to, if there are any.
    marked = np.maximum.accumulate(np.where(kinds != _MARK, np.arange(len(kinds)), 0))
    base = kinds[marked][1:-2]
    word = (base >= _LETTER) & ((after >= _LETTER) | (after == _MARK))
    number = (before == _DIGIT) & (after == _SEPARATOR) & (after2 == _DIGIT)
    number |= (before2 == _DIGIT) & (before == _SEPARATOR) & (after == _DIGIT)
    return word | number


_OTHER, _SEPARATOR, _MARK, _LETTER, _DIGIT = range(5)
_WITHOUT_SPACES = [(0xE00, 0xEFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x2E80, 0x312F)]
_WITHOUT_SPACES += [(0x31A0, 0x31FF), (0x3400, 0x9FFF), (0xF900, 0xFAFF), (0xFF66, 0xFF9F)]
_WITHOUT_SPACES += [(0x20000, 0x3FFFF)]
_HALF_WIDTH_VOICING = "\uff9e\uff9f"  # marks of the letter before, though not combining


@functools.cache
def _kinds_of_characters() -> np.ndarray:
    """Kind of each character of the first two planes; the last entry is that of all others."""
    kinds = np.full(0x20001, _OTHER, np.int8)
    for code in range(0x20000):
        character = chr(code)
        if character.isalnum():
            kinds[code] = _DIGIT if character.isdigit() else _LETTER
        elif unicodedata.category(character).startswith("M"):
            kinds[code] = _MARK
    for separator in _NUMBER_SEPARATORS:
        kinds[ord(separator)] = _SEPARATOR
    for first, last in _WITHOUT_SPACES:  # their digits form numbers like others
        kinds[first : last + 1][kinds[first : last + 1] == _LETTER] = _OTHER
    return kinds


@functools.cache
def _unicode_word() -> re.Pattern[str]:
    """A letter or digit, then letters, digits and combining marks, for which `re` has no class.

    A letter of a script without spaces is followed by marks only.
    """
    # The planes that hold letters, and the supplementary variation selectors.
    planes = itertools.chain(range(0x20000), range(0xE0100, 0xE01F0))
    marks = "".join(c for c in map(chr, planes) if unicodedata.category(c).startswith("M"))
    alone = "".join(f"{chr(first)}-{chr(last)}" for first, last in _WITHOUT_SPACES)
    letter = rf"[^\W_{alone}]|\d"
    run = rf"(?:{letter})(?:{letter}|[{marks}])*" + _CUT_NEGATION
    return re.compile(rf"{run}|[^\W_][{marks}{_HALF_WIDTH_VOICING}]*")


class AliasMatcher:
    """The aliases of one answer, indexed for lookup in any number of documents.

    Args:
        aliases: the strings that count as the answer; one without words after
            normalisation ("The", "!!") matches nothing.

    Raises:
        TypeError: ``aliases`` is one string, or holds something that is not a string.

    Example:
        >>> AliasMatcher(["The Beatles", "beatles!", "A"]).num_aliases
        1
    """

    def __init__(self, aliases: Iterable[str]):
        aliases = check_texts(aliases, "aliases")
        distinct = {split_words(alias).forms for alias in aliases} - {()}
        self.num_aliases = len(distinct)
        self._by_first_word: dict[str, list[tuple[str, ...]]] = {}
        for forms in sorted(distinct):
            self._by_first_word.setdefault(forms[0], []).append(forms)

    def starting_with(self, form: str) -> list[tuple[str, ...]]:
        """The aliases (as tuples of normalised words) whose first word is ``form``."""
        return self._by_first_word.get(form, [])


def enumerate_spans(words: Words, matcher: AliasMatcher) -> np.ndarray:
    """Z: every mention of any alias.

    Args:
        words: a document, from `split_words`.
        matcher: the answer's aliases.

    Returns:
        ``[Z, 2]`` int32, character start and exclusive end of each mention, sorted
        and without duplicates. Mentions may overlap if one alias contains another.

    Example:
        >>> enumerate_spans(split_words("Cher met Cher."), AliasMatcher(["Cher"])).tolist()
        [[0, 4], [9, 13]]
    """
    mentions = set()
    for i, form in enumerate(words.forms):
        for alias in matcher.starting_with(form):
            last = i + len(alias) - 1
            if words.forms[i : last + 1] == alias:
                span = (int(words.spans[i, 0]), int(words.spans[last, 1]))
                if not _cuts_a_number(words.text, *span):
                    mentions.add(span)
    return np.array(sorted(mentions), np.int32).reshape(-1, 2)


def execute_span(text: str, start: int, end: int) -> str:
    """f(z): the text of the character span ``[start, end)``.

    Raises:
        ValueError: the span is empty or extends outside the text.

    Example:
        >>> execute_span("Cher met Cher.", 9, 13)
        'Cher'
    """
    if not 0 <= start < end <= len(text):
        raise ValueError(f"span: expected a part of {len(text)} characters, found {start} to {end}")
    return text[start:end]


def trim_span(words: Words, start: int, end: int) -> tuple[int, int] | None:
    """Trims ``[start, end)`` to its first and last whole word, as `enumerate_spans` would.

    Annotated mentions may start with an article or end with a full stop.

    Returns:
        ``(start, end)`` in characters, or None if the span contains no whole word.

    Example:
        >>> trim_span(split_words("See the Daily Herald."), 4, 21)
        (8, 20)
    """
    inside = words.spans[(words.spans[:, 0] >= start) & (words.spans[:, 1] <= end)]
    return (int(inside[0, 0]), int(inside[-1, 1])) if len(inside) else None


def _cuts_a_number(text: str, start: int, end: int) -> bool:
    """Whether the span starts or ends inside a number such as 1,000 or 3.5."""

    def joined(left: int) -> bool:
        """Whether there is a separator between two digits at ``left``."""
        return (
            0 < left < len(text) - 1
            and text[left] in _NUMBER_SEPARATORS
            and text[left - 1].isdigit()
            and text[left + 1].isdigit()
        )

    return joined(start - 1) or joined(end)
