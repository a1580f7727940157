"""Retrieval configuration; light to import, so that `--help` stays fast."""

from __future__ import annotations

import functools
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

#: Inverse document frequency of articles, see `hardem_jax.retrieval.index.PassageIndex`.
Idf = Literal["smooth", "drqa"]
#: How passages are selected and ranked, see `hardem_jax.retrieval.index.Retriever`.
Method = Literal["combined", "articles", "bm25"]
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


@dataclass(frozen=True)
class ArticleConfig:
    """How articles are indexed.

    Attributes:
        buckets: number of hash buckets for terms; the default is DrQA's.
        bigrams: whether to index pairs of adjacent words in addition to words.
        terms: how text is split into words.
    """

    buckets: int = 2**24
    bigrams: bool = True
    terms: TermConfig = TermConfig()

    def __post_init__(self) -> None:
        require(self, "buckets", at_least=1)

    def counter(self) -> Callable[[Sequence[str]], scipy.sparse.csr_matrix]:
        """Returns a function: texts -> term counts, ``[B, buckets]`` sparse float32."""
        import scipy.sparse
        from sklearn.feature_extraction.text import HashingVectorizer

        analyzer = self.terms.words_and_bigrams if self.bigrams else self.terms.words
        # Any: the stubs infer these types from the default values, narrower than documented.
        options: dict[str, Any] = {"analyzer": analyzer, "norm": None, "dtype": np.float32}
        vectorizer = HashingVectorizer(n_features=self.buckets, alternate_sign=False, **options)
        return lambda texts: scipy.sparse.csr_matrix(vectorizer.transform(texts))


@dataclass(frozen=True)
class PassageConfig:
    """How passages are indexed.

    Attributes:
        k1: term-frequency saturation of BM25; larger values saturate more slowly.
        b: length normalisation of BM25, 0 (none) to 1 (full).
        title_weight: how many times the title is added to the text; 0 ignores it.
        terms: how text is split into words.
    """

    k1: float = 1.5
    b: float = 0.75
    title_weight: int = 2
    terms: TermConfig = TermConfig()

    def __post_init__(self) -> None:
        require(self, "k1", at_least=0)
        require(self, "b", at_least=0, at_most=1)
        require(self, "title_weight", at_least=0, at_most=1000)

    def words(self, title: str, text: str) -> list[str]:
        """Returns the terms of a passage, including those of its title."""
        return self.terms.words(title) * self.title_weight + self.terms.words(text)


@dataclass(frozen=True)
class RetrieverConfig:
    """What to retrieve for a question; changing it needs no new index.

    Attributes:
        method: how passages are selected: "articles" (BM25 within the best articles, as in the
            paper), "bm25" (all passages) or "combined" (both).
        articles: number of articles; 50 in the paper.
        passages: maximum number of passages; 80 for dev and test, 20 for training in the paper.
        article_weight: weight of the article's score in "combined".
        idf: inverse document frequency of articles: "drqa", or "smooth" (never 0).
    """

    method: Method = "combined"
    articles: int = 50
    passages: int = 80
    article_weight: float = 0.25
    idf: Idf = "smooth"

    def __post_init__(self) -> None:
        require(self, "articles", "passages", at_least=1)
        require(self, "article_weight", at_least=0)
