"""How passages and questions become terms: one function of the text for both."""

from __future__ import annotations

import functools
import re
import unicodedata
from dataclasses import dataclass

import Stemmer
from bm25s.stopwords import STOPWORDS_EN_PLUS

_WORD = re.compile(r"[^\W_]+")
# Contracted forms are cut at the apostrophe, here as in texts: "don't" is "don" and "t".
STOP_WORDS = frozenset(word for entry in STOPWORDS_EN_PLUS for word in _WORD.findall(entry))


@dataclass(frozen=True)
class TermConfig:
    """What counts as a term.

    Attributes:
        stem: Snowball's English stemmer, or words as they are (as DrQA has them).
        stop_words: whether function words are left out.

    Example:
        >>> TermConfig().words("Who was the first Queen of Curaçao?")
        ['first', 'queen', 'curacao']
        >>> TermConfig().words("Who was he?")
        []
    """

    stem: bool = True
    stop_words: bool = True

    def words(self, text: str) -> list[str]:
        """The terms of a text, in its order, made of its `split` words."""
        kept = [word for word in split(text) if not (self.stop_words and word in STOP_WORDS)]
        return [stem(word) for word in kept] if self.stem else kept

    def words_and_bigrams(self, text: str) -> list[str]:
        """`words`, and all pairs of neighbours neither of which is a stop word.

        As in DrQA (Chen et al., 2017, section 3.1), words on both sides of a stop word
        are no neighbours.

        Example:
            >>> TermConfig(stem=False).words_and_bigrams("the old city of Rome")
            ['old', 'city', 'rome', 'old city']
        """
        all_words = split(text)
        stop = [self.stop_words and word in STOP_WORDS for word in all_words]
        if self.stem:
            all_words = [stem(word) for word in all_words]
        terms = [word for word, out in zip(all_words, stop, strict=True) if not out]
        for i in range(len(all_words) - 1):
            if not stop[i] and not stop[i + 1]:
                terms.append(f"{all_words[i]} {all_words[i + 1]}")
        return terms


def split(text: str) -> list[str]:
    """Maximal runs of letters and digits, lower-cased, in compatibility form (NFKC), no accents.

    Example:
        >>> split("Beyoncé's 2nd №1")
        ['beyonce', 's', '2nd', 'no1']
    """
    text = text.lower()
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text).lower()
        text = "".join(char for char in decomposed if not unicodedata.combining(char))
    return _WORD.findall(text)


@functools.lru_cache(maxsize=1 << 20)
def stem(word: str) -> str:
    """A word without its ending, by Snowball's stemmer for English.

    Example:
        >>> stem("retrieved"), stem("retrieving")
        ('retriev', 'retriev')
    """
    return _stemmer().stemWord(word)


@functools.cache
def _stemmer() -> Stemmer.Stemmer:
    return Stemmer.Stemmer("english")
