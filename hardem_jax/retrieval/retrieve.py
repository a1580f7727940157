"""From a question to passages: articles by TF-IDF, then their passages by BM25.

Min et al. (2019, section 4.1) retrieve 50 articles and rank their paragraphs, of which 20 are read
in training and up to 80 at test. `method` says which passages are ranked, and how:

    "articles"   as in the paper: BM25 over the passages of the articles.
    "bm25"       BM25 over all passages, without articles.
    "combined"   both lists together, by BM25 plus the article's score, each as a share of the best.

The first misses passages of articles that are not among the best ones, which costs most where few
passages of an article are in the collection; the last does not.
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
from hardem_jax.retrieval.config import ArticleConfig, PassageConfig, RetrieverConfig
from hardem_jax.retrieval.passages import PassageIndex, build_passage_index
from hardem_jax.retrieval.postings import top_k
from hardem_jax.retrieval.store import PassageStore, build_store

FORMAT = "index 1"


@dataclass(frozen=True)
class Retrieved:
    """The passages of a question.

    Attributes:
        id: of the question.
        passages: ``[K]`` int64, best first, ties to the lower number.
        scores: ``[K]`` float32, descending; comparable within the question. 0 for a passage
            that shares no term with the question.
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
    replace: bool = False,
) -> PassageStore:
    """Store and indices of a passage file, in ``folder``: `store`, `articles` and `bm25`.

    Args:
        source: see `hardem_jax.retrieval.passage_files`.
        folder: to write; it may exist if it is empty. An index of other passages is refused
            when it is opened.
        skips: counts passages left out.
        articles: options of the article index.
        passages: options of the passage index.
        max_characters: of a passage's text.
        limit: only the first so many passages.
        replace: whether a complete folder of this kind is replaced.

    Raises:
        InputError: as `build_store` and the functions that build an index.
    """
    with new_folder(folder, format=FORMAT, replace=replace) as new:
        store = build_store(
            source, new / "store", skips=skips, max_characters=max_characters, limit=limit
        )
        build_article_index(store, new / "articles", articles)
        build_passage_index(store, new / "bm25", passages)
        write_json(new / "meta.json", {"format": FORMAT, "content": store.content})
    return PassageStore(folder / "store", verify=False)


class Retriever:
    """Retrieves from a folder that `build_indices` wrote.

    Args:
        folder: with ``store``, ``articles`` and ``bm25``.
        config: what is retrieved.
        verify: whether every byte that is used is compared with its checksum, on all cores.

    Attributes:
        store: the passages.
        config: what is retrieved.

    Raises:
        InputError: something is missing, damaged or of another format, or the indices are
            not those of the store.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name:
        ...     source, folder = Path(name, "a.tsv"), Path(name, "index")
        ...     rows = ["id_text_title", "7_It is old._Rome", "9_It is not._Bonn"]
        ...     _ = source.write_text("\\n".join(rows).replace("_", "\\t"))
        ...     _ = build_indices(source, folder, skips=ExclusionCounts())
        ...     retriever = Retriever(folder, RetrieverConfig(passages=1))
        ...     (found,) = retriever([OpenQuestion("q1", "how far is Bonn", ())])
        ...     [passage.id for passage in retriever.passages(found)]
        ['9']
    """

    def __init__(self, folder: Path, config: RetrieverConfig | None = None, *, verify: bool = True):
        self.config = config or RetrieverConfig()
        # Of the parts, this compares only their records: each part compares its own files.
        read_meta(folder, format=FORMAT, what="an index (run `index` first)", verify=verify)
        self.store = PassageStore(folder / "store", verify=verify)
        self._passages = PassageIndex(folder / "bm25", self.store, verify=verify)
        self._articles = None
        if self.config.method != "bm25":
            self._articles = ArticleIndex(
                folder / "articles", self.store, idf=self.config.idf, verify=verify
            )

    def __call__(self, questions: Iterable[OpenQuestion]) -> Iterator[Retrieved]:
        """The passages of each question, one after the other: memory does not grow.

        With "articles", there are fewer than `config.passages` where the articles have no
        more; otherwise only where the collection has no more.
        """
        for question in questions:
            passages, scores = self._rank(question.question)
            yield Retrieved(question.id, passages, scores)

    def passages(self, found: Retrieved) -> list[Passage]:
        """The passages themselves, with their scores."""
        numbers = zip(found.passages, found.scores, strict=True)
        passages = ((self.store[number], float(score)) for number, score in numbers)
        return [Passage(p.id, p.title, p.text, score) for p, score in passages]

    def _rank(self, question: str) -> tuple[np.ndarray, np.ndarray]:
        if self._articles is None:
            [ranked] = self._passages.rank([question], k=self.config.passages)
            return ranked
        by_article = self._articles.score_all(question)
        articles = top_k(by_article, self.config.articles)
        candidates = np.sort(np.concatenate([self.store.passages_of(int(a)) for a in articles]))
        if self.config.method == "articles":
            scores = self._passages.score(question, candidates)
        else:
            scores = self._passages.score_all(question)
            candidates = np.union1d(candidates, top_k(scores, self.config.passages))
            weight = np.float32(self.config.article_weight)
            shares = _share(by_article)[self.store.article_of[candidates]]
            scores = _share(scores)[candidates] + weight * shares
        best = top_k(scores, self.config.passages)
        return candidates[best].astype(np.int64), scores[best]


def _share(scores: np.ndarray) -> np.ndarray:
    """Scores as shares of the highest, which may be 0."""
    highest = scores.max()
    return scores / highest if highest > 0 else scores
