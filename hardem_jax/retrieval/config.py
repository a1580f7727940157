"""Retrieval configuration; light to import, so that `--help` stays fast."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import Stemmer

from hardem_jax.errors import require
from hardem_jax.words import search_terms

if TYPE_CHECKING:
    import scipy.sparse

#: How passages are selected and ranked, see `RetrieverConfig`.
Method = Literal["combined", "articles", "bm25"]
_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """The terms of a text, in order: `search_terms` without stop words, stemmed.

    Example:
        >>> words("Who was the first Queen of Curaçao?")
        ['first', 'queen', 'curacao']
    """
    return _stemmer().stemWords([term for term in search_terms(text) if term not in stop_words()])


def words_and_bigrams(text: str) -> list[str]:
    """Words, then adjacent pairs, none with a stop word (Chen et al., 2017, section 3.1)."""
    terms = search_terms(text, join=False)
    kept = [term not in stop_words() for term in terms]
    stems = _stemmer().stemWords(terms)
    pairs = zip(itertools.pairwise(stems), itertools.pairwise(kept), strict=True)
    bigrams = [" ".join(pair) for pair, both in pairs if all(both)]
    return [*itertools.compress(stems, kept), *bigrams]


@functools.cache
def stop_words() -> frozenset[str]:
    """English stop words, split at apostrophes as in texts: "don't" is "don" and "t"."""
    from bm25s.stopwords import STOPWORDS_EN_PLUS  # the library imports jax and scipy

    return frozenset(word for entry in STOPWORDS_EN_PLUS for word in _WORD.findall(entry))


@functools.cache
def _stemmer() -> Stemmer.Stemmer:
    return Stemmer.Stemmer("english", 0)  # its cache takes longer than stemming


@dataclass(frozen=True)
class ArticleConfig:
    """How articles are indexed.

    Attributes:
        buckets: number of hash buckets for terms; the default is DrQA's.
    """

    buckets: int = 2**24

    def __post_init__(self) -> None:
        require(self, "buckets", at_least=1)

    def counter(self) -> Callable[[Sequence[str]], scipy.sparse.csr_matrix]:
        """Returns a function: texts -> term counts, ``[B, buckets]`` sparse float32."""
        import scipy.sparse
        from sklearn.feature_extraction.text import HashingVectorizer

        # Any: the stubs infer these types from the default values, narrower than documented.
        options: dict[str, Any] = {"analyzer": words_and_bigrams, "norm": None, "dtype": np.float32}
        vectorizer = HashingVectorizer(n_features=self.buckets, alternate_sign=False, **options)
        return lambda texts: scipy.sparse.csr_matrix(vectorizer.transform(texts))


@dataclass(frozen=True)
class PassageConfig:
    """How passages are indexed.

    Attributes:
        k1: term-frequency saturation of BM25; larger values saturate more slowly.
        b: length normalisation of BM25, 0 (none) to 1 (full).
        title_weight: how many times the title is added to the text; 0 ignores it.
    """

    k1: float = 1.5
    b: float = 0.75
    title_weight: int = 2

    def __post_init__(self) -> None:
        require(self, "k1", at_least=0)
        require(self, "b", at_least=0, at_most=1)
        require(self, "title_weight", at_least=0, at_most=1000)

    def words(self, title: str, text: str) -> list[str]:
        """Returns the terms of a passage, including those of its title."""
        return words(title) * self.title_weight + words(text)


@dataclass(frozen=True)
class RetrieverConfig:
    """What to retrieve for a question; changing it needs no new index.

    Attributes:
        method: how passages are selected: "articles" (BM25 within the best articles, as in the
            paper), "bm25" (all passages) or "combined" (both).
        articles: number of articles; 50 in the paper.
        passages: maximum number of passages; 80 for dev and test, 20 for training in the paper.
        article_weight: weight of the article's score in "combined".
    """

    method: Method = "combined"
    articles: int = 50
    passages: int = 80
    article_weight: float = 0.25

    def __post_init__(self) -> None:
        require(self, "articles", "passages", at_least=1)
        require(self, "article_weight", at_least=0)
