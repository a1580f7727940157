"""Passage retrieval by BM25 (Robertson and Zaragoza, 2009).

    score(q, p) = sum_t idf(t) tf(t, p) / (tf(t, p) + k1 (1 - b + b |p| / mean |p|))
    idf(t) = log(1 + (N - df(t) + 0.5) / (df(t) + 0.5))

This is Lucene's variant. All summands are computed when the index is built, rounded as the library
bm25s rounds them; it keeps the terms of all passages in memory, so terms are counted here. Scoring
all passages or only those of some articles gives the same scores.
"""

from __future__ import annotations

import itertools
import math
from array import array
from dataclasses import asdict
from pathlib import Path

import numpy as np
import scipy.sparse

from hardem_jax.data.files import load_array, new_folder, write_json
from hardem_jax.errors import InputError
from hardem_jax.progress import counted
from hardem_jax.retrieval.config import SHARD_PASSAGES, PassageConfig
from hardem_jax.retrieval.postings import Index, Postings, PostingsWriter, Weigh, starts_of
from hardem_jax.retrieval.store import PassageStore, index_meta
from hardem_jax.retrieval.strings import StringNumbers, StringTable, StringWriter
from hardem_jax.retrieval.text import TermConfig

FORMAT = "bm25 3"


def build_passage_index(
    store: PassageStore,
    folder: Path,
    config: PassageConfig | None = None,
    *,
    shard_passages: int = SHARD_PASSAGES,
    replace: bool = False,
) -> PassageIndex:
    """Builds an index of every passage.

    Args:
        store: the passages.
        folder: output folder; must be new or empty.
        config: see `PassageConfig`.
        shard_passages: terms of so many passages are in memory at a time; does not affect the
            index.
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
    with new_folder(folder, format=FORMAT, replace=replace) as partial:
        writer = PostingsWriter(partial)
        num_terms, lengths = _count_terms(store, config, partial, writer, shard_passages)
        if not num_terms:
            source = store.meta["source"]["name"]
            raise InputError(f"{source}: expected passages with words, found none")
        frequencies = writer.frequencies(num_terms)
        np.save(partial / "indptr.npy", starts_of(frequencies))
        weigh = _bm25(frequencies, lengths, config)
        writer.merge(frequencies, documents="indices.npy", weights="data.npy", weigh=weigh)
        meta = {"format": FORMAT, "content": store.content, "passages": len(store)}
        write_json(partial / "meta.json", meta | {"config": asdict(config)})
    return PassageIndex(folder, store, verify=False)


def _count_terms(
    store: PassageStore,
    config: PassageConfig,
    folder: Path,
    writer: PostingsWriter,
    shard_passages: int,
) -> tuple[int, np.ndarray]:
    """Writes all terms and how often each passage has them.

    Terms are numbered in the order in which they occur first, within a shard in memory.

    Returns:
        The number of terms, and the number of words of every passage, ``[N]`` int32.
    """
    lengths = array("i")
    passages = counted(store.titles_and_texts(), "passages", total=len(store))
    with (
        StringNumbers(folder / "numbers.tmp") as numbers,
        StringWriter(folder / "terms") as terms,
    ):
        for first in range(0, len(store), shard_passages):
            in_shard: dict[str, int] = {}
            found = array("i")
            for title, text in itertools.islice(passages, shard_passages):
                words = config.words(title, text)
                found.extend(in_shard.setdefault(word, len(in_shard)) for word in words)
                lengths.append(len(words))
            columns = np.empty(len(in_shard), np.int32)
            for word, place in in_shard.items():
                columns[place] = number = numbers.setdefault(word, len(terms))
                if number == len(terms):
                    terms.write(word)
            entries = columns[np.frombuffer(found, np.int32)]
            starts = starts_of(np.frombuffer(lengths, np.int32)[first:])
            rows = scipy.sparse.csr_array(
                (np.ones(len(entries), np.float32), entries, starts),
                shape=(len(starts) - 1, len(terms)),
            )
            rows.sum_duplicates()
            writer.add(rows)
            writer.end_shard()
        return len(terms), np.frombuffer(lengths, np.int32)


def _bm25(frequencies: np.ndarray, lengths: np.ndarray, config: PassageConfig) -> Weigh:
    """Returns the function that makes summands of terms, passages and how often they occur."""
    # Rounded as by bm25s: idf, which uses math.log, to float32; the rest only once it is a summand.
    some, which = np.unique(frequencies, return_inverse=True)
    total = len(lengths)
    some_idf = [math.log(1 + (total - df + 0.5) / (df + 0.5)) for df in some.tolist()]
    idf = np.array(some_idf, np.float32)[which]
    mean = lengths.mean()

    def weigh(terms: np.ndarray, passages: np.ndarray, counts: np.ndarray) -> np.ndarray:
        norm = config.k1 * ((1 - config.b) + config.b * lengths[passages] / mean)
        return (idf[terms] * (counts / (norm + counts))).astype(np.float32)

    return weigh


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
