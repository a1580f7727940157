"""How passages and questions become terms: one function of the text for both."""

from __future__ import annotations

import functools
import re
import unicodedata
from dataclasses import dataclass

import Stemmer

_WORD = re.compile(r"[^\W_]+")


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
        out = stop_words() if self.stop_words else frozenset()
        kept = [word for word in split(text) if word not in out]
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
        out = stop_words() if self.stop_words else frozenset()
        stop = [word in out for word in all_words]
        if self.stem:
            all_words = [stem(word) for word in all_words]
        terms = [word for word, stopped in zip(all_words, stop, strict=True) if not stopped]
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
def stop_words() -> frozenset[str]:
    """Function words of English.

    Contracted forms are cut at the apostrophe, here as in texts: "don't" is "don" and "t".

    Example:
        >>> sorted({"the", "don", "queen"} & stop_words())
        ['don', 'the']
    """
    from bm25s.stopwords import STOPWORDS_EN_PLUS  # the library imports jax and scipy

    return frozenset(word for entry in STOPWORDS_EN_PLUS for word in _WORD.findall(entry))


@functools.cache
def _stemmer() -> Stemmer.Stemmer:
    return Stemmer.Stemmer("english")
