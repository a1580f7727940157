"""Splits passages and questions into terms."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

import Stemmer

from hardem_jax.words import search_terms

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class TermConfig:
    """How text is split into terms.

    Attributes:
        stem: whether to stem with Snowball's English stemmer (DrQA does not).
        stop_words: whether to remove stop words.

    Example:
        >>> TermConfig().words("Who was the first Queen of Curaçao?")
        ['first', 'queen', 'curacao']
        >>> TermConfig().words("Who was he?")
        []
    """

    stem: bool = True
    stop_words: bool = True

    def words(self, text: str) -> list[str]:
        """Returns the terms of a text, in order, see `hardem_jax.words.search_terms`."""
        excluded = stop_words() if self.stop_words else frozenset()
        kept = [word for word in search_terms(text) if word not in excluded]
        return _stemmer().stemWords(kept) if self.stem else kept

    def words_and_bigrams(self, text: str) -> list[str]:
        """`words`, then all pairs of adjacent words, of which none is a stop word (Chen et al.,
        2017, section 3.1)."""
        all_words = search_terms(text, join=False)
        excluded = stop_words() if self.stop_words else frozenset()
        stop = [word in excluded for word in all_words]
        if self.stem:
            all_words = _stemmer().stemWords(all_words)
        terms = [word for word, stopped in zip(all_words, stop, strict=True) if not stopped]
        for i in range(len(all_words) - 1):
            if not stop[i] and not stop[i + 1]:
                terms.append(f"{all_words[i]} {all_words[i + 1]}")
        return terms


@functools.cache
def stop_words() -> frozenset[str]:
    """English stop words. Contractions are split at the apostrophe, as in texts: "don't" is "don"
    and "t"."""
    from bm25s.stopwords import STOPWORDS_EN_PLUS  # the library imports jax and scipy

    return frozenset(word for entry in STOPWORDS_EN_PLUS for word in _WORD.findall(entry))


@functools.cache
def _stemmer() -> Stemmer.Stemmer:
    return Stemmer.Stemmer("english", 0)  # its cache takes longer than stemming
