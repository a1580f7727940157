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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hardem_jax.data.examples import OpenQuestion, Passage
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.files import new_folder, read_meta, write_json
from hardem_jax.retrieval.articles import ArticleIndex, build_article_index
from hardem_jax.retrieval.config import (
    SHARD_PASSAGES,
    ArticleConfig,
    PassageConfig,
    RetrieverConfig,
)
from hardem_jax.retrieval.passages import PassageIndex, build_passage_index
from hardem_jax.retrieval.postings import top_k
from hardem_jax.retrieval.store import PassageStore, build_store

FORMAT = "index 1"


@dataclass(frozen=True)
class Retrieved:
    """The passages of a question.

    Attributes:
        id: question id.
        passages: ``[K]`` int64, best first; ties go to the lower number.
        scores: ``[K]`` float32, descending; comparable only within the question. 0 for a
            passage that shares no term with the question.
    """

    id: str
    passages: np.ndarray
    scores: np.ndarray


def build_indices(
    source: Path,
    folder: Path,
    *,
    skips: ExclusionCounts,
    articles: ArticleConfig | None = None,
    passages: PassageConfig | None = None,
    max_characters: int = 1_000_000,
    limit: int | None = None,
    shard_passages: int = SHARD_PASSAGES,
    replace: bool = False,
) -> PassageStore:
    """Builds the subfolders `store`, `articles` and `bm25` of `folder` from a passage file.

    Args:
        source: see `hardem_jax.retrieval.passage_files`.
        folder: output folder; must be new or empty.
        skips: counts passages left out.
        articles: options of the article index.
        passages: options of the passage index.
        max_characters: limit on a passage's text.
        limit: use only the first `limit` passages.
        shard_passages: passages whose terms are in memory at a time; does not affect the files.
        replace: whether to replace a complete folder of this kind.

    Raises:
        InputError: as `build_store`, `build_article_index` and `build_passage_index`.
    """
    with new_folder(folder, format=FORMAT, replace=replace) as new:
        store = build_store(
            source, new / "store", skips=skips, max_characters=max_characters, limit=limit
        )
        build_article_index(store, new / "articles", articles, shard_passages=shard_passages)
        build_passage_index(store, new / "bm25", passages, shard_passages=shard_passages)
        write_json(new / "meta.json", {"format": FORMAT, "content": store.content})
    return PassageStore(folder / "store", verify=False)


class Retriever:
    """Retrieves passages for questions.

    Args:
        folder: written by `build_indices`.
        config: what to retrieve.
        verify: whether to verify the checksums of all files used, on all cores.

    Attributes:
        store: the passages.
        config: what to retrieve.

    Raises:
        InputError: something is missing, damaged or has another format, or an index was built
            from another store.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name:
        ...     source, folder = Path(name, "a.tsv"), Path(name, "index")
        ...     rows = ["id_text_title", "7_It is old._Rome", "9_It is not._Bonn"]
        ...     _ = source.write_text("\\n".join(rows).replace("_", "\\t"))
        ...     _ = build_indices(source, folder, skips=ExclusionCounts())
        ...     retriever = Retriever(folder, RetrieverConfig(passages=1))
        ...     (retrieved,) = retriever([OpenQuestion("q1", "how far is Bonn", ())])
        ...     [passage.id for passage in retriever.passages(retrieved)]
        ['9']
    """

    def __init__(self, folder: Path, config: RetrieverConfig | None = None, *, verify: bool = True):
        self.config = config or RetrieverConfig()
        # Verifies only the subfolders' manifests; each part verifies its own files.
        read_meta(folder, format=FORMAT, what="an index (run `index` first)", verify=verify)
        self.store = PassageStore(folder / "store", verify=verify)
        self._passages = PassageIndex(folder / "bm25", self.store, verify=verify)
        self._articles = None
        if self.config.method != "bm25":
            self._articles = ArticleIndex(
                folder / "articles", self.store, idf=self.config.idf, verify=verify
            )

    def __call__(self, questions: Iterable[OpenQuestion]) -> Iterator[Retrieved]:
        """Retrieves for one question at a time, in constant memory.

        There are fewer than `config.passages` passages only if the collection, or with
        "articles" the best articles, have no more.
        """
        for question in questions:
            passages, scores = self._rank(question.question)
            yield Retrieved(question.id, passages, scores)

    def passages(self, retrieved: Retrieved) -> list[Passage]:
        """Returns the retrieved passages with their scores."""
        numbers = zip(retrieved.passages, retrieved.scores, strict=True)
        passages = ((self.store[number], float(score)) for number, score in numbers)
        return [Passage(p.id, p.title, p.text, score) for p, score in passages]

    def _rank(self, question: str) -> tuple[np.ndarray, np.ndarray]:
        if self._articles is None:
            [ranked] = self._passages.rank([question], k=self.config.passages)
            return ranked
        by_article = self._articles.score_all(question)
        articles = top_k(by_article, self.config.articles)
        candidates = np.sort(
            np.concatenate([self.store.article_passages(int(a)) for a in articles])
        )
        if self.config.method == "articles":
            scores = self._passages.score(question, candidates)
        else:
            scores = self._passages.score_all(question)
            candidates = np.union1d(candidates, top_k(scores, self.config.passages))
            weight = np.float32(self.config.article_weight)
            shares = _relative(by_article)[self.store.article_of[candidates]]
            scores = _relative(scores)[candidates] + weight * shares
        best = top_k(scores, self.config.passages)
        return candidates[best].astype(np.int64), scores[best]


def _relative(scores: np.ndarray) -> np.ndarray:
    """Divides scores by the highest, unless that is 0."""
    highest = scores.max()
    return scores / highest if highest > 0 else scores
