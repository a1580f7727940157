"""Passage retrieval for questions: articles by TF-IDF, then their passages by BM25.

Min et al. (2019, section 4.1) retrieve 50 articles and rank their paragraphs, of which 20 are read
in training and up to 80 at test time. `method` selects the passages to rank, and how:

    "articles"   as in the paper: BM25 over the passages of the best articles.
    "bm25"       BM25 over all passages, without articles.
    "combined"   both lists, by BM25 plus the article's score, each relative to the best one.

"articles" misses passages of articles outside the top 50, which costs most if the collection holds
few passages per article; "combined" does not.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hardem_jax.documents.examples import Passage
from hardem_jax.retrieval.config import RetrieverConfig
from hardem_jax.retrieval.index import PassageIndex


class Retriever:
    """Retrieves passages for questions from the folder of an index."""

    def __init__(self, folder: Path, config: RetrieverConfig | None = None, *, verify: bool = True):
        self.config = config or RetrieverConfig()
        self.index = PassageIndex(folder, verify=verify)

    def __call__(self, question: str) -> list[Passage]:
        """Returns the best passages with their scores, see `rank`."""
        numbers, scores = self.rank(question)
        ranked = zip(numbers.tolist(), scores.tolist(), strict=True)
        return [self.index.passage(number, score) for number, score in ranked]

    def rank(self, question: str) -> tuple[np.ndarray, np.ndarray]:
        """``[K]`` numbers of passages, best first, ties by lower number, and their ``[K]`` float32
        scores, which are comparable only within the question."""
        config, index = self.config, self.index
        scores = index.passage_scores(question)
        best = top_k(scores, config.passages)
        if config.method == "bm25":
            return best, scores[best]
        by_article = index.article_scores(question, idf=config.idf)
        articles = top_k(by_article, config.articles)
        candidates = np.flatnonzero(np.isin(index.article_of, articles))
        if config.method == "combined":
            candidates = np.union1d(candidates, best)
            weight = np.float32(config.article_weight)
            shares = _relative(by_article)[index.article_of[candidates]]
            scores = _relative(scores)[candidates] + weight * shares
        else:
            scores = scores[candidates]
        best = top_k(scores, config.passages)
        return candidates[best], scores[best]


def top_k(scores: np.ndarray, k: int) -> np.ndarray:
    """Indices of the `k` highest scores, highest first; ties go to the lower index."""
    candidates = np.arange(len(scores))
    if 0 < k < len(scores):
        # More than k if several tie at the threshold. bm25s' choice among them varies.
        candidates = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
    return candidates[np.argsort(-scores[candidates], kind="stable")[:k]]


def _relative(scores: np.ndarray) -> np.ndarray:
    """Divides scores by the highest, unless that is 0."""
    highest = scores.max()
    return scores / highest if highest > 0 else scores
