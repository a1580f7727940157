"""Passages, their BM25 scores (bm25s) and their articles' TF-IDF scores (scikit-learn) on disk.

    corpus.jsonl, corpus.mmindex.json   id, title and text of every passage, as bm25s keeps a corpus
    *.csc.index.npy, *.index.json       BM25 of the passages, as bm25s saves it
    article_of.npy                      [N] int32, the article of every passage
    articles.columns.npy                [V] int32, the hash buckets that have a term
    articles.{data,indices,indptr}.npy  [A, V] log(1 + tf) of every article, by column
    meta.json, checksums.json           format, settings and counts; size and SHA-256 of every file

Passages with the same title form an article (Min et al., 2019, section 4.1: articles are
retrieved, and their paragraphs ranked); a passage without a title is an article of its own.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import scipy.sparse
from bm25s.tokenization import Tokenized
from bm25s.utils.corpus import JsonlCorpus, save_mmindex

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.files import file_digest, load_array, new_folder, read_meta, write_json
from hardem_jax.documents.examples import Passage
from hardem_jax.errors import InputError
from hardem_jax.progress import counted
from hardem_jax.retrieval.config import ArticleConfig, PassageConfig, RetrieverConfig, words
from hardem_jax.retrieval.files import read_passages
from hardem_jax.settings import from_json, to_json

FORMAT = "index 3"

# Articles whose terms are counted at a time.
_BLOCK = 1000


def build_index(
    source: Path,
    folder: Path,
    *,
    skips: ExclusionCounts,
    articles: ArticleConfig | None = None,
    passages: PassageConfig | None = None,
    replace: bool = False,
) -> PassageIndex:
    """Indexes the passages of a file; ``skips`` counts those left out, see `read_passages`."""
    articles, passages = articles or ArticleConfig(), passages or PassageConfig()
    with new_folder(folder, format=FORMAT, replace=replace) as new:
        rows = counted(read_passages(source, skips=skips), "passages")
        article_of = _index_passages(rows, new, passages, source, skips)
        np.save(new / "article_of.npy", article_of)
        _index_articles(new, article_of, articles)
        meta = {
            "format": FORMAT,
            "source": {"name": source.name, "sha256": file_digest(source)},
            "content": file_digest(new / "corpus.jsonl"),
            "left_out": skips.as_dict(),
            "config": {"articles": to_json(articles), "bm25": to_json(passages)},
        }
        write_json(new / "meta.json", meta)
    return PassageIndex(folder, verify=False)


def _index_passages(
    rows: Iterable[Passage],
    folder: Path,
    config: PassageConfig,
    source: Path,
    skips: ExclusionCounts,
) -> np.ndarray:
    """Writes the corpus and the BM25 index; returns the article of every passage."""
    article_of: list[int] = []
    starts: list[int] = []
    titles: dict[str, int] = {}
    num_articles = 0
    # Terms are numbered in the order in which they occur first: bm25s' own numbers vary.
    vocabulary: dict[str, int] = {}
    term_ids: list[list[int]] = []
    with open(folder / "corpus.jsonl", "wb") as corpus:
        for row in rows:
            article = num_articles
            if row.title.strip():
                article = titles.setdefault(row.title, num_articles)
            num_articles = max(num_articles, article + 1)
            article_of.append(article)
            starts.append(corpus.tell())
            record = {"id": row.id, "title": row.title, "text": row.text}
            corpus.write(f"{json.dumps(record, ensure_ascii=False)}\n".encode())
            terms = config.words(row.title, row.text)
            term_ids.append([vocabulary.setdefault(term, len(vocabulary)) for term in terms])
    if not article_of:
        raise InputError(f"{source}: expected passages, found none that can be used ({skips})")
    if not vocabulary:
        raise InputError(f"{source}: expected passages with words, found none")
    save_mmindex(starts, folder / "corpus.jsonl")
    bm25 = bm25s.BM25(k1=config.k1, b=config.b, csc_backend="scipy")
    bm25.index(Tokenized(term_ids, vocabulary), create_empty_token=False, show_progress=False)
    bm25.save(folder, show_progress=False)
    return np.array(article_of, np.int32)


def _index_articles(folder: Path, article_of: np.ndarray, config: ArticleConfig) -> None:
    """Writes log(1 + tf) of every article's terms, as a sparse matrix without empty columns."""
    count = config.counter()
    total = int(article_of.max()) + 1
    articles = counted(_article_texts(folder, article_of), "articles", total=total)
    blocks = []
    while texts := list(itertools.islice(articles, _BLOCK)):
        blocks.append(count(texts))
        np.log1p(blocks[-1].data, out=blocks[-1].data)
    matrix = scipy.sparse.vstack(blocks, format="csr").tocsc()
    columns = np.flatnonzero(np.diff(matrix.indptr))
    parts = {
        "columns": columns.astype(np.int32),
        "data": matrix.data,
        "indices": matrix.indices,
        "indptr": np.append(matrix.indptr[columns], matrix.indptr[-1]),
    }
    for name, part in parts.items():
        np.save(folder / f"articles.{name}.npy", part)


def _article_texts(folder: Path, article_of: np.ndarray) -> Iterator[str]:
    """Yields the title and all texts of every article."""
    corpus: Any = JsonlCorpus(folder / "corpus.jsonl", verbosity=0)
    by_article = np.argsort(article_of, kind="stable")
    for numbers in np.split(by_article, np.cumsum(np.bincount(article_of))[:-1]):
        rows = corpus[numbers.tolist()]
        yield "\n".join((rows[0]["title"], *(row["text"] for row in rows)))


class PassageIndex:
    """The passages of a collection by number, memory-mapped, and their scores for questions.

    The score of a passage is BM25 (Robertson and Zaragoza, 2009) in Lucene's variant, and that of
    an article TF-IDF over hashed words and bigrams (Chen et al., 2017, section 3.1):

        score(q, p) = sum_t idf(t) tf(t, p) / (tf(t, p) + k1 (1 - b + b |p| / mean |p|))
        idf(t) = log(1 + (N - df(t) + 0.5) / (df(t) + 0.5))

        score(q, a) = sum_t log(1 + tf(t, q)) idf(t) * log(1 + tf(t, a)) idf(t)

    DrQA's idf of articles is log((N - df + 0.5) / (df + 0.5)), clipped at 0, so that every score in
    a collection of one or two articles is 0; this one differs little for rare terms.
    """

    def __init__(self, folder: Path, *, verify: bool = True):
        self.meta: dict[str, Any] = read_meta(
            folder,
            format=FORMAT,
            what="an index (run `index` first)",
            remedy="index the passages again (`index --force` replaces the folder)",
            verify=verify,
        )
        config, place = self.meta["config"], f"{folder / 'meta.json'}: config"
        self._articles = from_json(ArticleConfig, config["articles"], f"{place}.articles")
        self._corpus: Any = JsonlCorpus(folder / "corpus.jsonl", verbosity=0)
        self._bm25 = bm25s.BM25.load(folder, mmap=True)
        self.article_of = load_array(folder / "article_of.npy")
        self._columns, data, indices, self._starts = (
            load_array(folder / f"articles.{name}.npy")
            for name in ("columns", "data", "indices", "indptr")
        )
        self.num_articles = int(self.article_of.max()) + 1
        shape = (self.num_articles, len(self._columns))
        self._matrix = scipy.sparse.csc_array((data, indices, self._starts), shape=shape)

    def __len__(self) -> int:
        return len(self.article_of)

    def passage(self, number: int | np.integer, score: float | None = None) -> Passage:
        """Returns a passage, with the score that it was found by."""
        row = self._corpus[int(number)]
        return Passage(row["id"], row["title"], row["text"], score)

    def passage_scores(self, question: str) -> np.ndarray:
        """Returns the BM25 score of every passage, ``[N]`` float32; 0 without a common term."""
        return self._bm25.get_scores_from_ids(self._bm25.get_tokens_ids(words(question)))

    def article_scores(self, question: str) -> np.ndarray:
        """Returns the TF-IDF score of every article, ``[A]`` float32."""
        counts = self._articles.counter()([question])
        places = np.searchsorted(self._columns, counts.indices)
        known = places < len(self._columns)
        known[known] = self._columns[places[known]] == counts.indices[known]
        terms = places[known]
        frequency = self._starts[terms + 1] - self._starts[terms]
        weights = np.log1p((self.num_articles - frequency + 0.5) / (frequency + 0.5))
        factors = np.log1p(counts.data[known]) * weights**2
        return self._matrix[:, terms] @ factors.astype(np.float32)

    def retrieve(self, question: str, config: RetrieverConfig) -> list[Passage]:
        """Returns the best passages with their scores, see `rank`."""
        numbers, scores = self.rank(question, config)
        ranked = zip(numbers.tolist(), scores.tolist(), strict=True)
        return [self.passage(number, score) for number, score in ranked]

    def rank(self, question: str, config: RetrieverConfig) -> tuple[np.ndarray, np.ndarray]:
        """``[K]`` numbers of passages, best first, ties by lower number, and their ``[K]`` float32
        scores, which are comparable only within the question.

        As in Min et al. (2019, section 4.1) with the method "articles", which misses passages of
        articles outside the best: this costs most if the collection has few passages per article.
        """
        scores = self.passage_scores(question)
        best = top_k(scores, config.passages)
        if config.method == "bm25":
            return best, scores[best]
        by_article = self.article_scores(question)
        candidates = np.flatnonzero(np.isin(self.article_of, top_k(by_article, config.articles)))
        if config.method == "combined":
            candidates = np.union1d(candidates, best)
            weight = np.float32(config.article_weight)
            shares = _relative(by_article)[self.article_of[candidates]]
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
