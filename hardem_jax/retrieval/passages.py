"""Passage retrieval by BM25 (Robertson and Zaragoza, 2009), indexed with bm25s.

    score(q, p) = sum_t idf(t) tf(t, p) / (tf(t, p) + k1 (1 - b + b |p| / mean |p|))
    idf(t) = log(1 + (N - df(t) + 0.5) / (df(t) + 0.5))

This is Lucene's variant. bm25s computes all summands when the index is built. Scoring all passages
or only those of some articles gives the same scores.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path

import bm25s
import numpy as np
from bm25s.tokenization import Tokenized

from hardem_jax.data.files import load_array, new_folder, write_json
from hardem_jax.errors import InputError
from hardem_jax.retrieval.config import PassageConfig
from hardem_jax.retrieval.postings import Index, Postings
from hardem_jax.retrieval.progress import counted
from hardem_jax.retrieval.store import PassageStore, index_meta
from hardem_jax.retrieval.strings import StringTable, StringWriter
from hardem_jax.retrieval.text import TermConfig

FORMAT = "bm25 2"

# bm25s sets its logger to DEBUG, which would print its messages to the terminal.
logging.getLogger("bm25s").setLevel(logging.WARNING)


def build_passage_index(
    store: PassageStore,
    folder: Path,
    config: PassageConfig | None = None,
    *,
    replace: bool = False,
) -> PassageIndex:
    """Builds an index of every passage; all terms of all passages are in memory meanwhile.

    Args:
        store: the passages.
        folder: output folder; must be new or empty.
        config: see `PassageConfig`.
        replace: whether to replace a complete index.

    Raises:
        InputError: no passage has a term, or a parameter is out of range.

    Example:
        >>> import tempfile
        >>> from hardem_jax.data.exclusions import ExclusionCounts
        >>> from hardem_jax.retrieval.store import build_store
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rows = ["id_text_title", "7_It is old._Rome", "9_It is not._Bonn"]
        ...     _ = Path(folder, "a.tsv").write_text("\\n".join(rows).replace("_", "\\t"))
        ...     store = build_store(
        ...         Path(folder, "a.tsv"), Path(folder, "store"), skips=ExclusionCounts())
        ...     index = build_passage_index(store, Path(folder, "bm25"))
        ...     [(passages, scores)] = index.rank(["how far is Bonn"], k=2)
        >>> passages.tolist(), bool(scores[0] > 0), scores[1].item()
        ([1, 0], True, 0.0)
    """
    config = config or PassageConfig()
    if config.k1 < 0 or not 0 <= config.b <= 1 or config.title_weight < 0:
        raise InputError(f"expected k1 >= 0, 0 <= b <= 1 and title_weight >= 0, found {config}")
    vocabulary, passages = _numbered_terms(store, config)
    if not vocabulary:
        raise InputError(f"{store.folder}: expected passages with words, found none")
    with new_folder(folder, format=FORMAT, replace=replace) as partial:
        index = bm25s.BM25(k1=config.k1, b=config.b, method="lucene")
        index.index(Tokenized(passages, vocabulary), create_empty_token=False, show_progress=False)
        for name in ("data", "indices", "indptr"):
            np.save(partial / f"{name}.npy", index.scores[name])
        with StringWriter(partial / "terms") as terms:
            for term in vocabulary:
                terms.write(term)
        meta = {"format": FORMAT, "content": store.content, "passages": len(store)}
        write_json(partial / "meta.json", meta | {"config": asdict(config)})
    return PassageIndex(folder, store, verify=False)


def _numbered_terms(
    store: PassageStore, config: PassageConfig
) -> tuple[dict[str, int], list[list[int]]]:
    """Returns the vocabulary (term -> number), and the term numbers of every passage."""
    numbers: dict[str, int] = {}
    passages = []
    for passage in counted(store, "terms", total=len(store)):
        words = config.words(passage.title, passage.text)
        # Shares the dictionary's integer objects, so each term takes only 8 bytes here.
        passages.append([numbers.setdefault(word, len(numbers)) for word in words])
    return numbers, passages


class PassageIndex(Index):
    """BM25 scores of the passages of a store.

    Args:
        folder: written by `build_passage_index`.
        store: the passages it was built from.
        verify: whether to verify all checksums, on all cores.

    Raises:
        InputError: the folder is missing, belongs to another store or format, or a file is
            damaged.
    """

    def __init__(self, folder: Path, store: PassageStore, *, verify: bool = True):
        meta = index_meta(folder, store, format=FORMAT, verify=verify)
        fields = meta["config"]
        self.config = PassageConfig(**(fields | {"terms": TermConfig(**fields["terms"])}))
        self._terms = {term: i for i, term in enumerate(StringTable(folder / "terms"))}
        weights, passages, starts = (
            load_array(folder / f"{name}.npy") for name in ("data", "indices", "indptr")
        )
        self._postings = Postings(starts, passages, weights, len(store))

    def score_all(self, question: str) -> np.ndarray:
        """Returns the score of every passage, ``[N]`` float32."""
        terms = self._numbers(question)
        return self._postings.score_all(terms, np.ones(len(terms)))

    def score(self, question: str, passages: np.ndarray) -> np.ndarray:
        """Returns the scores of `passages` ``[C]``, equal to those of `score_all`."""
        terms = self._numbers(question)
        return self._postings.score(passages, terms, np.ones(len(terms)))

    def _numbers(self, question: str) -> np.ndarray:
        words = self.config.terms.words(question)
        return np.array([self._terms[word] for word in words if word in self._terms], np.int64)
