"""Words of a text in any script: what a mention, a window's terms and a passage's terms consist of.

Words are runs of letters and digits. Combining marks belong to the preceding letter, so a
decomposed "café" is one word, and soft hyphens, zero-width spaces and word joiners inside a word
belong to it without being part of its form. In scripts that are written without spaces, such as
Chinese, Japanese and Thai, every letter is a word, for nothing marks where longer ones begin. So is
every syllable of Korean, whose particles are written after a noun without a space.
"""

import dataclasses
import functools
import itertools
import re
import string
import unicodedata

import numpy as np

#: Letters that are words of their own, as a character class of `re`: Thai and Lao, Myanmar, Hangul
#: in syllables and letters, Khmer, Chinese and Japanese.
LETTERS_ALONE = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u312f\u3130-\u318f\u31a0-\u31ff"
    "\u3400-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
ARTICLES = frozenset({"a", "an", "the"})
# What follows such a letter though not combining: voicing of half-width kana, and the vowel and the
# last consonant of a decomposed Hangul syllable.
_FOLLOWING = "\uff9e\uff9f\u1160-\u11ff\ud7b0-\ud7ff"
_FOLLOWS = re.compile(f"[{_FOLLOWING}]")
# Shown as nothing. Not the zero-width non-joiner, which in Persian separates parts of a word that
# answers consist of.
_INVISIBLE = "\u00ad\u200b\u200d\u2060\ufeff"
_REMOVE_INVISIBLE = str.maketrans("", "", _INVISIBLE)
# Rejoins the "n" of a negation that a tokeniser split off ("Ca n't") with its verb.
_CUT_NEGATION = r"(?: [nN](?=['\u2019][tT]\b))?"
_ASCII_WORD = re.compile(r"[^\W_]+" + _CUT_NEGATION)
NUMBER_SEPARATORS = ".,．，٫٬"  # also full-width and Arabic ones
#: Separators of no number: of a date such as 03.10.1990, of years, and commas of Chinese sentences.
PARTED = r"(?<![\d.])\d\d?\.\d\d?\.\d{4}(?!\.?\d)|(?<=\d{4}),(?=\d{4}(?!\d))"
PARTED += r"|(?<=\d)，(?!\d{3}(?!\d))"
_PARTED = re.compile(PARTED)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_DELETE_PUNCTUATION = str.maketrans("", "", string.punctuation)
# With three quotation marks that the evaluator of TriviaQA adds; the backtick and the underscore,
# which it adds too, are in string.punctuation.
_SPACE_FOR_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + "‘’´", " "))


@dataclasses.dataclass(frozen=True)
class Words:
    """The words of a text: W forms, in NFKC and lower case, and their places. ``spans`` ``[W, 2]``
    int32 are character start and exclusive end of each word."""

    text: str
    forms: tuple[str, ...]
    spans: np.ndarray


def split_words(text: str) -> Words:
    """The words of a text with their positions.

    Example:
        >>> words = split_words("The 39 Steps")
        >>> words.forms, words.spans.tolist()
        (('the', '39', 'steps'), [[0, 3], [4, 6], [7, 12]])
        >>> split_words("\u6771\u4eac 2020\u5e74, co\\u00adop").forms
        ('\u6771', '\u4eac', '2020', '\u5e74', 'coop')
    """
    matches = list((_ASCII_WORD if text.isascii() else _unicode_word()).finditer(text))
    forms = (match.group().replace(" ", "").lower() for match in matches)
    if not text.isascii():
        forms = (_form(match.group()) for match in matches)
    spans = np.array([match.span() for match in matches], np.int32).reshape(-1, 2)
    return Words(text, tuple(forms), spans)


def _form(word: str) -> str:
    form = unicodedata.normalize("NFKC", remove_invisible(word.replace(" ", ""))).lower()
    # Again, since "ǰ" is one character, but "J̌" is two.
    return unicodedata.normalize("NFKC", form)


def remove_invisible(text: str) -> str:
    """Without what stands inside words but is not part of their forms."""
    return text.translate(_REMOVE_INVISIBLE)


def stands_alone(word: str) -> bool:
    """Whether a word is a letter of a script in which every letter is a word."""
    return _is_alone(word) is not None


def search_terms(text: str, *, join: bool = True) -> list[str]:
    """What a text is searched by: its words in lower case, without accents. With ``join``, letters
    that are words of their own and stand side by side are replaced by the pairs and triples of
    them, since one letter says little."""
    text = text.lower()
    if text.isascii():
        return _ASCII_LETTERS.findall(text)
    text = unicodedata.normalize("NFKD", remove_invisible(text)).lower()
    # Voiced kana and syllables of Hangul in one piece again.
    matches = list(_unicode_word(negations=False).finditer(unicodedata.normalize("NFC", text)))
    terms: list[str] = []
    at = 0
    while at < len(matches):
        run = [matches[at]]
        at += 1
        if not stands_alone(run[0].group()):
            terms.append(_without_accents(run[0].group()))
            continue
        while at < len(matches) and run[-1].end() == matches[at].start():
            if not stands_alone(matches[at].group()):
                break
            run.append(matches[at])
            at += 1
        letters = [match.group() for match in run]
        if join and len(letters) > 1:
            starts = [(i, n) for n in (2, 3) for i in range(len(letters) - n + 1)]
            letters = ["".join(letters[i : i + n]) for i, n in starts]
        terms += letters
    return terms


def _without_accents(word: str) -> str:
    if word.isascii():
        return word
    decomposed = unicodedata.normalize("NFD", word)
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def squad_form(text: str) -> str:
    """Lower case, no ASCII punctuation, no articles (a, an, the), single spaces, as in the SQuAD
    evaluator (Rajpurkar et al., 2016)."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_DELETE_PUNCTUATION)).split())


def triviaqa_form(text: str) -> str:
    """Lower case, punctuation and ‘ ’ ´ as spaces, no articles (a, an, the), single spaces, as in
    the TriviaQA evaluator (Joshi et al., 2017)."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_SPACE_FOR_PUNCTUATION)).split())


def skip_combining_marks(text: str, end: int) -> int:
    """The first position from ``end`` on without a combining mark, half-width voicing mark or
    conjoining jamo. Tokenisers that strip accents exclude a decomposed accent from the last token.
    Those that compose characters exclude these marks of kana, and the vowel and the last consonant
    of a decomposed Hangul syllable."""
    while end < len(text) and (
        unicodedata.category(text[end]).startswith("M") or _FOLLOWS.match(text, end)
    ):
        end += 1
    return end


def cuts_word(text: str) -> np.ndarray:
    """Where a span must not begin or end: inside a word or a number. No mention of any Z does.
    Letters that are words of their own may be parted, but not from their marks. ``[C + 1]`` bool,
    for the positions before, between and after the C characters."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    kinds = np.full(len(codes) + 4, _OTHER, np.int8)
    table = _kinds_of_characters()
    kinds[2:-2] = table[np.minimum(codes, len(table) - 1)]
    before2, before, after, after2 = kinds[:-3], kinds[1:-2], kinds[2:-1], kinds[3:]
    places = np.arange(len(kinds))
    # The character that the marks before a position belong to, and the first visible one after it.
    seen = np.maximum.accumulate(np.where(kinds >= _OTHER, places, 0))
    base = kinds[seen][1:-2]
    ahead = np.minimum.accumulate(np.where(kinds != _HIDDEN, places, len(kinds))[::-1])[::-1]
    following = kinds[ahead[2:-1]]
    word = (base >= _LETTER) & (following >= _LETTER)
    word |= (base >= _ALONE) & (following == _MARK)
    number = (before == _DIGIT) & (after == _SEPARATOR) & (after2 == _DIGIT)
    number |= (before2 == _DIGIT) & (before == _SEPARATOR) & (after == _DIGIT)
    if number.any():
        for match in _PARTED.finditer(text):
            number[match.start() : match.end() + 1] = False
    return word | number


def cuts_number(text: str, start: int, end: int) -> bool:
    """Whether a span of whole words starts or ends inside a number such as 1,000 or 3.5."""
    return any(
        0 < place < len(text) - 1
        and text[place] in NUMBER_SEPARATORS
        and text[place - 1].isdigit()
        and text[place + 1].isdigit()
        and not any(
            match.start() <= place < match.end()
            for match in _PARTED.finditer(text, max(0, place - 12), place + 12)
        )
        for place in (start - 1, end)
    )


_ASCII_LETTERS = re.compile(r"[^\W_]+")
_HIDDEN, _MARK, _OTHER, _SEPARATOR, _ALONE, _LETTER, _DIGIT = range(7)
_is_alone = re.compile(f"[{LETTERS_ALONE}]").match


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
    for separator in NUMBER_SEPARATORS:
        kinds[ord(separator)] = _SEPARATOR
    for character in _INVISIBLE:
        kinds[ord(character)] = _HIDDEN
    everything = "".join(map(chr, range(0x20000)))
    for match in re.finditer(f"[{LETTERS_ALONE}]", everything):
        if kinds[match.start()] == _LETTER:  # their digits form numbers like others
            kinds[match.start()] = _ALONE
    for match in _FOLLOWS.finditer(everything):
        kinds[match.start()] = _MARK
    kinds[-1] = _ALONE  # rare Chinese characters
    return kinds


@functools.cache
def _unicode_word(*, negations: bool = True) -> re.Pattern[str]:
    """A letter or digit, then letters, digits and combining marks, for which `re` has no class. A
    letter that is a word of its own is followed by marks only."""
    # The planes that hold letters, and the supplementary variation selectors.
    planes = itertools.chain(range(0x20000), range(0xE0100, 0xE01F0))
    marks = "".join(c for c in map(chr, planes) if unicodedata.category(c).startswith("M"))
    letter = rf"[^\W_{LETTERS_ALONE}]|\d"
    marks += _FOLLOWING
    inside = rf"{letter}|[{marks}]|[{_INVISIBLE}]+(?=(?:{letter})|[{marks}])"
    run = rf"(?:{letter})(?:{inside})*" + (_CUT_NEGATION if negations else "")
    return re.compile(rf"{run}|[^\W_][{marks}]*")
