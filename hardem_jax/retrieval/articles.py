"""Article retrieval by TF-IDF over hashed words and bigrams (Chen et al., 2017, section 3.1).

    score(q, a) = sum_t  log(1 + tf(t, q)) idf(t) * log(1 + tf(t, a)) idf(t)

where terms t are buckets of a hash function. DrQA's idf is log((N - df + 0.5) / (df + 0.5)),
clipped at 0: a term in at least half of the articles has no weight, so every score in a
collection of one or two articles is 0. The default is log(1 + (N - df + 0.5) / (df + 0.5)), which
is always positive and differs little for rare terms.

The index stores only log(1 + tf); the idf is computed from df at query time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np

from hardem_jax.data.files import new_folder, write_json
from hardem_jax.progress import counted
from hardem_jax.retrieval.config import SHARD_PASSAGES, ArticleConfig, Idf
from hardem_jax.retrieval.postings import Index, PostingsWriter, read_postings
from hardem_jax.retrieval.store import PassageStore, index_meta
from hardem_jax.retrieval.text import TermConfig

FORMAT = "articles 3"


def build_article_index(
    store: PassageStore,
    folder: Path,
    config: ArticleConfig | None = None,
    *,
    shard_passages: int = SHARD_PASSAGES,
    block_size: int = 1000,
    replace: bool = False,
) -> ArticleIndex:
    """Builds an index of the title and all texts of every article.

    Args:
        store: the passages.
        folder: output folder; must be new or empty.
        config: see `ArticleConfig`.
        shard_passages: terms of the articles of so many passages are in memory at a time; does
            not affect the index.
        block_size: articles whose terms are counted at a time; does not affect the index.
        replace: whether to replace a complete index.

    Example:
        >>> import tempfile
        >>> from hardem_jax.data.exclusions import ExclusionCounts
        >>> from hardem_jax.retrieval.store import build_store
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rows = ["id_text_title", "7_It is old._Rome", "9_It is not._Bonn"]
        ...     _ = Path(folder, "a.tsv").write_text("\\n".join(rows).replace("_", "\\t"))
        ...     store = build_store(
        ...         Path(folder, "a.tsv"), Path(folder, "store"), skips=ExclusionCounts())
        ...     index = build_article_index(store, Path(folder, "articles"))
        ...     [(articles, scores)] = index.rank(["how far is Bonn"], k=2)
        >>> articles.tolist(), bool(scores[0] > 0), scores[1].item()
        ([1, 0], True, 0.0)
    """
    config = config or ArticleConfig()
    count = config.counter()
    with new_folder(folder, format=FORMAT, replace=replace) as partial:
        writer = PostingsWriter(partial)
        articles = counted(store.articles(), "articles", total=store.num_articles)
        for shard in store.article_shards(shard_passages):
            for texts in _blocks(itertools.islice(articles, len(shard)), block_size):
                counts = count(texts)
                np.log1p(counts.data, out=counts.data)
                writer.add(counts)
            writer.end_shard()
        writer.close(num_columns=config.buckets)
        meta = {"format": FORMAT, "content": store.content, "articles": store.num_articles}
        write_json(partial / "meta.json", meta | {"config": asdict(config)})
    return ArticleIndex(folder, store, verify=False)


class ArticleIndex(Index):
    """TF-IDF scores of the articles of a store.

    Args:
        folder: written by `build_article_index`.
        store: the passages it was built from.
        idf: "smooth" or "drqa", see the module's docstring.
        verify: whether to verify all checksums, on all cores.

    Raises:
        InputError: the folder is missing, belongs to another store or format, or a file is
            damaged.
    """

    def __init__(
        self, folder: Path, store: PassageStore, *, idf: Idf = "smooth", verify: bool = True
    ):
        meta = index_meta(folder, store, format=FORMAT, verify=verify)
        fields = meta["config"]
        config = ArticleConfig(**(fields | {"terms": TermConfig(**fields["terms"])}))
        self._count = config.counter()
        self._idf = idf
        self._terms, self._postings = read_postings(folder, num_documents=store.num_articles)

    def score_all(self, question: str) -> np.ndarray:
        """Returns the score of every article, ``[A]`` float32."""
        counts = self._count([question])
        positions = np.searchsorted(self._terms, counts.indices)
        known = positions < len(self._terms)
        known[known] = self._terms[positions[known]] == counts.indices[known]
        terms = positions[known]
        idf = self._inverse_frequency(self._postings.document_frequency(terms))
        return self._postings.score_all(terms, np.log1p(counts.data[known]) * idf**2)

    def _inverse_frequency(self, frequency: np.ndarray) -> np.ndarray:
        odds = (self._postings.num_documents - frequency + 0.5) / (frequency + 0.5)
        return np.maximum(np.log(odds), 0) if self._idf == "drqa" else np.log1p(odds)


def _blocks(items: Iterable[str], size: int) -> Iterator[list[str]]:
    iterator = iter(items)
    while block := list(itertools.islice(iterator, size)):
        yield block
