"""Configuration of retrieval; importing it is cheap enough to parse a command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hardem_jax.errors import require
from hardem_jax.retrieval.text import TermConfig

if TYPE_CHECKING:
    import scipy.sparse

#: Weight of a rare term, see `hardem_jax.retrieval.articles`.
Idf = Literal["smooth", "drqa"]
#: Which passages are ranked, and how, see `hardem_jax.retrieval.retrieve`.
Method = Literal["combined", "articles", "bm25"]


@dataclass(frozen=True)
class ArticleConfig:
    """How articles are indexed.

    Attributes:
        buckets: terms are hashed into so many; DrQA's default.
        bigrams: pairs of neighbouring words besides the words.
        terms: words.
    """

    buckets: int = 2**24
    bigrams: bool = True
    terms: TermConfig = TermConfig()

    def __post_init__(self) -> None:
        require(self, "buckets", at_least=1)

    def counter(self) -> Callable[[Sequence[str]], scipy.sparse.csr_matrix]:
        """Texts -> counts of terms, ``[B, buckets]`` sparse float32."""
        import scipy.sparse
        from sklearn.feature_extraction.text import HashingVectorizer

        analyzer = self.terms.words_and_bigrams if self.bigrams else self.terms.words
        # Types as documented; those of the stubs are the types of the default values.
        options: dict[str, Any] = {"analyzer": analyzer, "norm": None, "dtype": np.float32}
        vectorizer = HashingVectorizer(n_features=self.buckets, alternate_sign=False, **options)
        return lambda texts: scipy.sparse.csr_matrix(vectorizer.transform(texts))


@dataclass(frozen=True)
class PassageConfig:
    """How passages are indexed.

    Attributes:
        k1: how slowly repeated terms saturate.
        b: how much long passages are discounted, 0 to 1.
        title_weight: how often the title counts beside the text, 0 for not at all.
        terms: words.
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
        """The terms of a passage."""
        return self.terms.words(title) * self.title_weight + self.terms.words(text)


@dataclass(frozen=True)
class RetrieverConfig:
    """What is retrieved for a question; indices stay as they are.

    Attributes:
        method: see `hardem_jax.retrieval.retrieve`.
        articles: how many articles; the paper's 50.
        passages: how many passages, at most; the paper's 80 for dev and test, 20 for training.
        article_weight: of the article's score in "combined".
        idf: of articles, see `hardem_jax.retrieval.articles`.
    """

    method: Method = "combined"
    articles: int = 50
    passages: int = 80
    article_weight: float = 0.25
    idf: Idf = "smooth"

    def __post_init__(self) -> None:
        require(self, "articles", "passages", at_least=1)
        require(self, "article_weight", at_least=0)
