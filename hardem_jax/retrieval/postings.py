"""An inverted index on disk: the documents of every term, with weights.

terms.npy       [V] int32, non-empty columns of the matrix, ascending
starts.npy      [V + 1] int64, where the postings of each term start
documents.npy   [P] int32, documents, ascending within a term
weights.npy     [P] float32
"""

from __future__ import annotations

import abc
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import scipy.sparse

from hardem_jax.data.files import load_array


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

    Only one block and a few arrays over the columns are in memory. Rows are buffered in
    temporary files and sorted into place block by block when the writer is closed.

    Args:
        folder: output folder.
        num_columns: number of columns of the matrix.

    Example:
        >>> import tempfile
        >>> matrix = scipy.sparse.csr_array(np.array([[0, 1, 0], [0, 3, 2]], np.float32))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     writer = PostingsWriter(Path(folder), num_columns=3)
        ...     writer.add(matrix)
        ...     writer.close()
        ...     terms, index = read_postings(Path(folder), num_documents=2)
        >>> terms.tolist(), index.score_all(np.array([0, 1]), np.ones(2)).tolist()
        ([1, 2], [1.0, 5.0])
    """

    def __init__(self, folder: Path, *, num_columns: int):
        self._folder = folder
        self._counts = np.zeros(num_columns, np.int64)
        self._blocks: list[tuple[int, int]] = []  # (rows, entries)
        self._columns = open(folder / "columns.tmp", "wb")  # closed by close
        self._values = open(folder / "values.tmp", "wb")
        self._lengths = open(folder / "lengths.tmp", "wb")

    def add(self, rows: scipy.sparse.csr_array | scipy.sparse.csr_matrix) -> None:
        """Appends rows; a column may occur only once in a row."""
        self._counts += np.bincount(rows.indices, minlength=len(self._counts))
        self._columns.write(rows.indices.astype(np.int32).tobytes())
        self._values.write(rows.data.astype(np.float32).tobytes())
        self._lengths.write(np.diff(rows.indptr).astype(np.int32).tobytes())
        self._blocks.append((len(rows.indptr) - 1, len(rows.indices)))

    def close(self) -> None:
        """Writes the index and removes the temporary files."""
        terms = np.flatnonzero(self._counts)
        starts = np.concatenate(([0], np.cumsum(self._counts[terms])))
        np.save(self._folder / "terms.npy", terms.astype(np.int32))
        np.save(self._folder / "starts.npy", starts)
        column_to_term = np.cumsum(self._counts > 0) - 1
        self._transpose(column_to_term, starts)
        for file in (self._columns, self._values, self._lengths):
            file.close()
            Path(file.name).unlink()

    def _transpose(self, column_to_term: np.ndarray, starts: np.ndarray) -> None:
        size, free = (int(starts[-1]),), starts[:-1].copy()
        documents = _new_array(self._folder / "documents.npy", np.int32, size)
        weights = _new_array(self._folder / "weights.npy", np.float32, size)
        for file in (self._columns, self._values, self._lengths):
            file.flush()
        with (
            open(self._columns.name, "rb") as columns,
            open(self._values.name, "rb") as values,
            open(self._lengths.name, "rb") as lengths,
        ):
            first = 0
            for num_rows, entries in self._blocks:
                terms = column_to_term[np.fromfile(columns, np.int32, entries)]
                rows = first + np.arange(num_rows, dtype=np.int32)
                rows = np.repeat(rows, np.fromfile(lengths, np.int32, num_rows))
                order = np.argsort(terms, kind="stable")
                terms = terms[order]
                # Position of an entry: the term's first free slot plus its rank in the block.
                present, begin, counts = np.unique(terms, return_index=True, return_counts=True)
                positions = free[terms] + np.arange(entries) - np.repeat(begin, counts)
                documents[positions] = rows[order]
                weights[positions] = np.fromfile(values, np.float32, entries)[order]
                free[present] += counts
                first += num_rows


def read_postings(folder: Path, *, num_documents: int) -> tuple[np.ndarray, Postings]:
    """Reads what `PostingsWriter` wrote: the columns that are terms ``[V]`` int32, and the index.

    Raises:
        InputError: a file is missing or damaged.
    """
    names = ("starts", "documents", "weights")
    starts, documents, weights = (load_array(folder / f"{name}.npy") for name in names)
    return load_array(folder / "terms.npy"), Postings(starts, documents, weights, num_documents)


def _new_array(file: Path, dtype: type, shape: tuple[int, ...]) -> np.ndarray:
    if shape == (0,):  # an array without elements cannot be mapped
        np.save(file, np.zeros(shape, dtype))
        return np.zeros(shape, dtype)
    array = np.lib.format.open_memmap(file, "w+", dtype, shape)
    # Allocate now, so that a full disk raises an error; writing to a mapped file would crash.
    if hasattr(os, "posix_fallocate"):  # not on macOS
        with open(file, "r+b") as stream:
            os.posix_fallocate(stream.fileno(), 0, file.stat().st_size)
    return array
