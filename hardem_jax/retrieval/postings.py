"""An inverted index on disk: the documents of every term, with weights.

terms.npy       [V] int32, non-empty columns of the matrix, ascending
starts.npy      [V + 1] int64, where the postings of each term start
documents.npy   [P] int32, documents, ascending within a term
weights.npy     [P] float32
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse

from hardem_jax.data.files import load_array
from hardem_jax.retrieval.strings import ArrayWriter

# Columns, rows and values of entries -> their weights, see `PostingsWriter.merge`.
Weigh: TypeAlias = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]

# Entries that are merged at a time, unless one column has more.
_MERGED = 1 << 20
# Files of a shard.
_PARTS = {"columns": np.int32, "counts": np.int32, "rows": np.int32, "values": np.float32}


def top_k(scores: np.ndarray, k: int) -> np.ndarray:
    """Returns the indices of the `k` highest scores, highest first; ties go to the lower index.

    Args:
        scores: ``[N]``.
        k: number of indices; all if ``k > N``.

    Returns:
        ``[min(k, N)]`` int64.

    Example:
        >>> top_k(np.array([1.0, 3.0, 1.0, 2.0, 1.0]), 4).tolist()
        [1, 3, 0, 2]
    """
    candidates = np.arange(len(scores))
    if 0 < k < len(scores):
        # Most documents share no term with the question and tie for the lowest score.
        above = np.flatnonzero(scores > scores.min())
        if len(above) >= k:
            # May be more than k documents if several tie at the threshold.
            threshold = np.partition(scores[above], len(above) - k)[len(above) - k]
            candidates = above[scores[above] >= threshold]
    return candidates[np.lexsort((candidates, -scores[candidates]))[:k]]


class Index(abc.ABC):
    """Scores every text of a collection for a question."""

    @abc.abstractmethod
    def score_all(self, question: str) -> np.ndarray:
        """Returns the score of every text, ``[N]`` float32."""

    def rank(self, questions: Iterable[str], *, k: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Ranks the best texts for each question, best first; ties go to the lower number.

        Texts that share no term with the question have score 0 and come last, so that there are
        always K = ``min(k, N)`` texts.

        Args:
            questions: scored one by one.
            k: number of texts.

        Yields:
            For each question ``[K]`` int64 numbers of texts and their ``[K]`` float32 scores.
        """
        for question in questions:
            scores = self.score_all(question)
            best = top_k(scores, k)
            yield best, scores[best]


class Postings:
    """Scores all or selected documents by summing the weights of terms.

    Sums run over the terms in the given order, in float32, so that `score` and `score_all`
    agree bitwise.

    Args:
        starts: ``[V + 1]``, where the postings of each term start.
        documents: ``[P]``, documents of each term, ascending.
        weights: ``[P]`` float32.
        num_documents: N.

    Example:
        >>> weights = np.array([1, 2, 4], np.float32)
        >>> index = Postings(np.array([0, 2, 3]), np.array([0, 3, 3]), weights, 4)
        >>> index.score_all(np.array([0, 1]), np.ones(2)).tolist()
        [1.0, 0.0, 0.0, 6.0]
        >>> index.score(np.array([3, 2]), np.array([0, 1]), np.ones(2)).tolist()
        [6.0, 0.0]
    """

    def __init__(
        self, starts: np.ndarray, documents: np.ndarray, weights: np.ndarray, num_documents: int
    ):
        self._starts, self._documents, self._weights = starts, documents, weights
        self.num_documents = num_documents

    def document_frequency(self, terms: np.ndarray) -> np.ndarray:
        """Returns the number of documents that contain each of `terms`, ``[Q]`` int64."""
        return self._starts[terms + 1] - self._starts[terms]

    def score_all(self, terms: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Returns the sum of ``factors * weights`` for each document, ``[N]`` float32.

        Args:
            terms: ``[Q]`` indices of terms; a repeated one counts twice.
            factors: ``[Q]``, one per term.
        """
        scores = np.zeros(self.num_documents, np.float32)
        for term, factor in zip(terms, factors.astype(np.float32), strict=True):
            part = slice(self._starts[term], self._starts[term + 1])
            # A document occurs only once among the postings of a term.
            scores[self._documents[part]] += factor * self._weights[part]
        return scores

    def score(self, chosen: np.ndarray, terms: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Returns the scores of the documents `chosen` ``[C]``, equal to those of `score_all`.

        Takes O(C log N) per term, regardless of how many documents contain it.
        """
        scores = np.zeros(len(chosen), np.float32)
        for term, factor in zip(terms, factors.astype(np.float32), strict=True):
            part = slice(self._starts[term], self._starts[term + 1])
            documents = self._documents[part]
            positions = np.minimum(np.searchsorted(documents, chosen), len(documents) - 1)
            matches = documents[positions] == chosen
            scores[matches] += factor * self._weights[part][positions[matches]]
        return scores


class PostingsWriter:
    """Turns a sparse matrix, given in blocks of rows, into an inverted index on disk.

    In memory are the blocks of one shard, which `end_shard` sorts by column and writes to temporary
    files. They are merged range by range of columns, so that what merging takes depends on the
    longest column and on the number of columns, not on the number of entries. Where shards end
    does not affect the index.

    Args:
        folder: output folder.

    Example:
        >>> import tempfile
        >>> matrix = scipy.sparse.csr_array(np.array([[0, 1, 0], [0, 3, 2]], np.float32))
        >>> with tempfile.TemporaryDirectory() as name:
        ...     writer = PostingsWriter(Path(name))
        ...     writer.add(matrix)
        ...     writer.close(num_columns=3)
        ...     terms, index = read_postings(Path(name), num_documents=2)
        >>> terms.tolist(), index.score_all(np.array([0, 1]), np.ones(2)).tolist()
        ([1, 2], [1.0, 5.0])
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._blocks: list[Any] = []
        self._shards: list[_Shard] = []
        self._num_rows = 0

    def add(self, rows: scipy.sparse.csr_array | scipy.sparse.csr_matrix) -> None:
        """Appends rows; a column may occur only once in a row."""
        self._blocks.append(rows)

    def end_shard(self) -> None:
        """Writes the rows added since the last call to disk, sorted by column."""
        if not self._blocks:
            return
        first_row = self._num_rows
        self._num_rows += sum(len(block.indptr) - 1 for block in self._blocks)
        rows = scipy.sparse.vstack(self._blocks, format="csr")
        self._blocks.clear()  # before the entries are copied again
        shard = _Shard(self._folder / f"shard-{len(self._shards)}")
        shard.write(scipy.sparse.csc_array(rows), first_row)
        self._shards.append(shard)

    def frequencies(self, num_columns: int) -> np.ndarray:
        """Returns the number of rows of every column, ``[num_columns]`` int64."""
        self.end_shard()
        total = np.zeros(num_columns, np.int64)
        for shard in self._shards:
            total[shard.read("columns")] += shard.read("counts")
        return total

    def merge(
        self,
        frequencies: np.ndarray,
        *,
        documents: str = "documents.npy",
        weights: str = "weights.npy",
        weigh: Weigh = lambda columns, rows, values: values,
    ) -> None:
        """Writes the rows and weights of every column and removes the temporary files.

        Args:
            frequencies: as `frequencies` returns them.
            documents: name of the file of rows.
            weights: name of the file of weights.
            weigh: returns the weights of entries, given their columns, rows and values, each
                ``[E]``; by default the values.
        """
        columns = np.flatnonzero(frequencies)
        counts = frequencies[columns]
        cuts = _cuts(counts, _MERGED)
        plans = [shard.plan(columns[cuts[1:-1]]) for shard in self._shards]
        with (
            ArrayWriter(self._folder / documents, np.int32) as all_rows,
            ArrayWriter(self._folder / weights, np.float32) as all_weights,
        ):
            for place, (first, last) in enumerate(itertools.pairwise(cuts)):
                parts = (
                    shard.entries(*plan[place : place + 2].tolist())
                    for shard, plan in zip(self._shards, plans, strict=True)
                )
                rows, values = _merged(columns[first:last], counts[first:last], parts)
                entry_columns = np.repeat(columns[first:last], counts[first:last])
                for start in range(0, len(rows), _MERGED):
                    part = slice(start, start + _MERGED)
                    all_rows.write(rows[part])
                    all_weights.write(weigh(entry_columns[part], rows[part], values[part]))
        for shard in self._shards:
            shard.remove()

    def close(self, *, num_columns: int) -> None:
        """Writes the index, with the values as weights, and removes the temporary files."""
        frequencies = self.frequencies(num_columns)
        terms = np.flatnonzero(frequencies)
        np.save(self._folder / "terms.npy", terms.astype(np.int32))
        np.save(self._folder / "starts.npy", starts_of(frequencies[terms]))
        self.merge(frequencies)


def starts_of(counts: np.ndarray) -> np.ndarray:
    """Returns where each of some parts of an array starts, and the end, ``[V + 1]`` int64.

    Example:
        >>> starts_of(np.array([2, 1, 4])).tolist()
        [0, 2, 3, 7]
    """
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


class _Shard:
    """The entries of some rows, by column: one file for each of `_PARTS`."""

    def __init__(self, stem: Path):
        self._stem = stem

    def write(self, matrix: scipy.sparse.csc_array, first_row: int) -> None:
        counts = np.diff(matrix.indptr)
        columns = np.flatnonzero(counts)
        self._write("columns", columns)
        self._write("counts", counts[columns])
        self._write("rows", matrix.indices + first_row)
        self._write("values", matrix.data)

    def _write(self, part: str, content: np.ndarray) -> None:
        content.astype(_PARTS[part], copy=False).tofile(self._file(part))

    def read(self, part: str, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Returns a part, or elements of it; read, for mapped files would count as memory."""
        dtype, count = np.dtype(_PARTS[part]), -1 if stop is None else stop - start
        return np.fromfile(self._file(part), dtype, count, offset=start * dtype.itemsize)

    def plan(self, limits: np.ndarray) -> np.ndarray:
        """Where ranges of columns start among this shard's, and its entries: ``[R + 1, 2]``."""
        columns, entries = self.read("columns"), starts_of(self.read("counts"))
        places = np.concatenate(([0], np.searchsorted(columns, limits), [len(columns)]))
        return np.stack([places, entries[places]], axis=1)

    def entries(self, start: list[int], stop: list[int]) -> Iterator[np.ndarray]:
        """The columns, counts, rows and values between two rows of a plan."""
        for part in ("columns", "counts"):
            yield self.read(part, start[0], stop[0])
        for part in ("rows", "values"):
            yield self.read(part, start[1], stop[1])

    def remove(self) -> None:
        for part in _PARTS:
            self._file(part).unlink()

    def _file(self, part: str) -> Path:
        return self._stem.with_name(f"{self._stem.name}-{part}.tmp")


def _cuts(counts: np.ndarray, entries: int) -> list[int]:
    """Cuts columns into ranges of at most `entries` entries, or of one column with more."""
    starts, cuts = starts_of(counts), [0]
    while cuts[-1] < len(counts):
        enough = int(np.searchsorted(starts, starts[cuts[-1]] + entries, side="right")) - 1
        cuts.append(max(enough, cuts[-1] + 1))
    return cuts


def _merged(
    columns: np.ndarray, counts: np.ndarray, parts: Iterable[Iterable[np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """The rows and values of some columns, one column after another, from those of each shard."""
    starts = starts_of(counts)
    rows, values = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32)
    free = starts[:-1].copy()
    for shard_columns, shard_counts, shard_rows, shard_values in parts:
        which = np.searchsorted(columns, shard_columns)
        # The place of an entry: its column's first free one plus its rank in the shard's column.
        ranks = np.arange(len(shard_rows)) - np.repeat(starts_of(shard_counts)[:-1], shard_counts)
        places = np.repeat(free[which], shard_counts) + ranks
        rows[places], values[places] = shard_rows, shard_values
        free[which] += shard_counts
    return rows, values


def read_postings(folder: Path, *, num_documents: int) -> tuple[np.ndarray, Postings]:
    """Reads what `PostingsWriter` wrote: the columns that are terms ``[V]`` int32, and the index.

    Raises:
        InputError: a file is missing or damaged.
    """
    names = ("starts", "documents", "weights")
    starts, documents, weights = (load_array(folder / f"{name}.npy") for name in names)
    return load_array(folder / "terms.npy"), Postings(starts, documents, weights, num_documents)
