"""Spans of a document as solutions: every mention of an answer (Min et al., 2019, section 4.1).

A solution is a character span; executing it, f(z), reads its text. Z holds every span whose
words are those of an alias of the answer, so that f(z) = y up to the normalisation below. It is
in document order (by start, then by end) and without duplicates.

Words (`hardem_jax.words`) are compared in lower case and NFKC; punctuation and the articles a, an,
the are ignored on both sides, as in the official metrics. "a", "an" and "the" are articles of an
alias only in front of a blank and another word: not in "A. A. Milne", "A-levels" or "vitamin A".
Mentions start and end at word boundaries: "art" is not found in "party", nor "1" in "1,000".

The official metrics ignore less than that: for SQuAD's, "100" is not "£100", and more: "U.S." is
"US". If no mention found by words is right for them, Z holds the shortest spans that are, and
mentions that lack a part of the alias leave. But words and numbers that punctuation joins are not
one ("she'll" is not "Shell", nor "2.5" "25"), though SQuAD's metric takes them for it.

Tokenised text matches plain text and vice versa: "Crohn 's disease" has the same words as
"Crohn's disease", and "Ca n't" is read as "Can't".

Example:
    >>> text = "The Sun, once the Daily Herald. Daily (Herald) readers."
    >>> mentions = enumerate_spans(split_words(text), AliasMatcher(["The Daily Herald"]))
    >>> [execute_span(text, start, end) for start, end in mentions]
    ['Daily Herald', 'Daily (Herald']
"""

import math
import re
import string
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from hardem_jax.errors import check_text, check_texts
from hardem_jax.words import (
    ARTICLES,
    Words,
    cuts_number,
    cuts_word,
    split_words,
    squad_form,
    triviaqa_form,
)

Span = tuple[int, int]


def alias_forms(alias: str) -> tuple[str, ...]:
    """The words of an answer by which it is found: all but articles, unless it has no others.

    Example:
        >>> alias_forms("The Lord of the Rings"), alias_forms("A-levels"), alias_forms("The")
        (('lord', 'of', 'rings'), ('a', 'levels'), ('the',))
    """
    check_text(alias, "text")
    words = split_words(alias)
    kept = tuple(form for i, form in enumerate(words.forms) if not _is_article(words, i))
    return kept or words.forms


def _is_article(words: Words, i: int) -> bool:
    if words.forms[i] not in ARTICLES:
        return False
    if i + 1 == len(words.forms):
        return words.forms[i] == "the" and i > 0  # no letter
    return words.text[words.spans[i, 1]].isspace()


def _is_loose(words: Words, i: int) -> bool:
    """Whether metrics take a word for an article, unlike the letter of "A型", which touches one."""
    around = words.spans[max(0, i - 1) : i + 2] if words.forms[i] in ARTICLES else None
    return around is not None and bool(np.all(around[:-1, 1] < around[1:, 0]))


class AliasMatcher:
    """The aliases of one answer, indexed for lookup in any number of documents.

    Args:
        aliases: the strings that count as the answer; one of nothing but ASCII punctuation
            ("!!") matches nothing, and one of nothing but articles only the same letters.

    Raises:
        TypeError: ``aliases`` is one string, or holds something that is not a string.

    Example:
        >>> list(AliasMatcher(["The Beatles", "beatles!", "Wings"]).by_first_word)
        ['beatles', 'wings']
    """

    def __init__(self, aliases: Iterable[str]):
        self.aliases = tuple(dict.fromkeys(check_texts(aliases, "aliases")))
        #: What evaluators compare.
        self.evaluated = {alias: _form(alias) for alias in self.aliases}
        forms = [alias_forms(alias) for alias in self.aliases]
        words = map(split_words, self.aliases)
        shorter = [" ".join(x for i, x in enumerate(y.forms) if not _is_loose(y, i)) for y in words]
        changed = [new for new, own in zip(shorter, forms, strict=True) if new != " ".join(own)]
        #: Without letters that the metrics take for articles: "levels" of "A-levels".
        self.without_letters = AliasMatcher(filter(None, changed)) if any(changed) else None
        #: First word -> forms that begin with it -> the aliases that have them.
        self.by_first_word: dict[str, dict[tuple[str, ...], list[str]]] = {}
        for alias, own in sorted(zip(self.aliases, forms, strict=True)):
            if own:
                self.by_first_word.setdefault(own[0], {}).setdefault(own, []).append(alias)


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
        >>> enumerate_spans(split_words("100 for £100."), AliasMatcher(["£100"])).tolist()
        [[8, 12]]
    """
    text, forms = words.text, matcher.evaluated
    by_words = [(alias, span) for alias, own in _by_words(words, matcher).items() for span in own]
    mentions = {span for _, span in by_words}
    # "U.S." has other words than "US", which may be those of a pronoun.
    known = (pair for pair in by_words if not pair[0].isupper())
    if not any(forms[alias] == _form(text[slice(*span)]) != "" for alias, span in known):
        right = _right_spans(text, matcher.aliases)
        found = {form for *_, form in right}
        mentions = {(start, end) for start, end, _ in right}
        mentions |= {
            span
            for alias, span in by_words
            if forms[alias] not in found
            or triviaqa_form(text[slice(*span)]) == triviaqa_form(alias)
            and span not in mentions
            and not any(start <= span[0] and span[1] <= end for start, end, _ in right)
        }
    if not mentions and matcher.without_letters is not None:
        return enumerate_spans(words, matcher.without_letters)
    return np.array(sorted(mentions), np.int32).reshape(-1, 2)


def mentions_any(words: Words, matcher: AliasMatcher) -> bool:
    """Whether the words of any alias stand in a text one after the other."""
    return any(_by_words(words, matcher).values())


def _by_words(words: Words, matcher: AliasMatcher) -> dict[str, list[Span]]:
    """Alias -> where its words stand, among articles that it need not have."""
    found: dict[str, list[Span]] = {}
    for i, form in enumerate(words.forms):
        for alias, names in matcher.by_first_word.get(form, {}).items():
            if (last := _match(words, i, alias)) is None:
                continue
            span = int(words.spans[i, 0]), int(words.spans[last, 1])
            if cuts_number(words.text, *span):
                continue
            for name in names:
                if not ARTICLES.issuperset(alias) or _is_letter(words, i, span, name):
                    found.setdefault(name, []).append(span)
    return found


def _is_letter(words: Words, i: int, span: Span, alias: str) -> bool:
    """Whether "A" is the answer: as the alias has it, and no article in front of a word."""
    text, (start, end) = words.text, span
    if text[start:end] not in alias:
        return False
    if end > words.spans[i, 1]:  # several, such as "The The"
        return True
    begins_sentence = text[:start].rstrip()[-1:] in ("", *".!?")
    return not (_is_article(words, i) and (text[start].islower() or begins_sentence))


def _match(words: Words, first: int, alias: tuple[str, ...]) -> int | None:
    """The last word of an alias whose first is at ``first``; None if others follow."""
    at, forms = first, words.forms
    for form in alias:
        while at < len(forms) and forms[at] != form and _is_loose(words, at):
            at += 1
        if at == len(forms) or forms[at] != form:
            return None
        at += 1
    return at - 1


def _form(text: str) -> str:
    """What evaluators compare, in whichever way accents are written."""
    return squad_form(text if text.isascii() else unicodedata.normalize("NFC", text))


def _right_spans(text: str, aliases: Iterable[str]) -> list[tuple[int, int, str]]:
    """The shortest spans of whole words that evaluators take for one of these, and its `_form`."""
    whole = _form(text)
    # Most are not there, and this is fast.
    wanted = [alias for alias in aliases if (form := _form(alias)) and form in whole]
    if not wanted:
        return []
    folded, places = _folded(text)
    cuts = cuts_word(text)
    found: set[tuple[int, int, str]] = set()
    for alias in wanted:
        form, joints = _form(alias), _joints(alias)
        for match in re.finditer(f"(?=({_pattern(form)}))", folded):
            start, end = places[match.start(1)], places[match.end(1) - 1] + 1
            if cuts[start] or cuts[end] or not _joints(text[start:end]) <= joints:
                continue
            if _form(text[start:end]) == form:
                found.add((start, end, form))
    return sorted(found)


def _folded(text: str) -> tuple[str, Sequence[int]]:
    """The text in lower case, decomposed, and the place of each of its characters."""
    if text.isascii():
        return text.lower(), range(len(text))
    pieces = [_decomposed(character.lower()) for character in text]
    return "".join(pieces), np.repeat(np.arange(len(text)), list(map(len, pieces))).tolist()


def _decomposed(text: str) -> str:
    # In lower case, a final sigma depends on what follows.
    return unicodedata.normalize("NFD", text).replace("ς", "σ")


_PUNCTUATION = f"[{re.escape(string.punctuation)}]"
# Between two words the metrics see a blank or an article.
_BETWEEN_WORDS = rf"(?:{_PUNCTUATION}|\s|(?<!\w)(?:a|an|the)(?!\w))+"
# A contraction, or numbers that are not one by a comma in front of three digits.
_JOINT = re.compile(
    rf"'(?:ll|re|ve|[dmt])\b|\d(?!,\d{{3}}(?!\d)){_PUNCTUATION}+(?=\d)", re.IGNORECASE
)


def _joints(text: str) -> set[str]:
    """Where punctuation joins words and numbers that are not one."""
    return {joint.lower() for joint in _JOINT.findall(text)}


def _pattern(form: str) -> str:
    """A regular expression for texts that evaluators take for a `_form`."""
    words = (map(re.escape, word) for word in _decomposed(form).split(" "))
    return _BETWEEN_WORDS.join(f"{_PUNCTUATION}*".join(word) for word in words)


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
    """Trims ``[start, end)`` to what `enumerate_spans` would find of it: whole words, or None.

    Annotated mentions may start with an article or end with a full stop.

    >>> trim_span(split_words("It was £100."), 7, 12)
    (7, 11)
    """
    inside = np.flatnonzero((words.spans[:, 0] >= start) & (words.spans[:, 1] <= end))
    annotated = words.text[start:end]
    kept = None
    if len(inside):
        first, last = int(inside[0]), int(inside[-1])
        while first < last and _is_article(words, first):
            first += 1
        while first < last and words.forms[last] == "the":
            last -= 1
        kept = int(words.spans[first, 0]), int(words.spans[last, 1])
        if _form(words.text[slice(*kept)]) == _form(annotated):
            return kept
    cuts = cuts_word(words.text)
    right = [(start + own[0], start + own[1]) for own in _right_spans(annotated, [annotated])]
    return next((own for own in right if not cuts[list(own)].any()), kept)


#: Counts of taggings stop here, so that they fit into any integer.
MAX_COUNT = 10**6


def count_taggings(texts: np.ndarray) -> int:
    """|Z| of a question whose answer consists of several texts, at most `MAX_COUNT`.

    ``texts`` ``[M]`` int: which of the texts each mention is of. If some mentions overlap, this is
    an upper bound.

    >>> count_taggings(np.array([0, 0, 1]))
    3
    """
    _, counts = np.unique(texts, return_counts=True)
    if not len(counts):
        return 0
    return min(math.prod(2 ** int(count) - 1 for count in counts), MAX_COUNT)
