"""Retrieval configuration; light to import, so that `--help` stays fast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hardem_jax.errors import check_choice, require
from hardem_jax.retrieval.text import TermConfig

if TYPE_CHECKING:
    import scipy.sparse

#: Inverse document frequency of articles, see `hardem_jax.retrieval.index.PassageIndex`.
Idf = Literal["smooth", "drqa"]
#: How passages are selected and ranked, see `hardem_jax.retrieval.retrieve`.
Method = Literal["combined", "articles", "bm25"]


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
        check_choice(self.method, Method, "method")
        check_choice(self.idf, Idf, "idf")
        require(self, "articles", "passages", at_least=1)
        require(self, "article_weight", at_least=0)
