"""An inverted index on disk: for every term its documents, with a weight each.

terms.npy       [V] int32, columns of the matrix that are not empty, ascending
starts.npy      [V + 1] int64, where the postings of each of them start
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
    """Indices of the `k` highest scores, highest first, ties to the lower index.

    Args:
        scores: ``[N]``.
        k: how many; all of them if there are no more.

    Returns:
        ``[min(k, N)]`` int64.

    Example:
        >>> top_k(np.array([1.0, 3.0, 1.0, 2.0, 1.0]), 4).tolist()
        [1, 3, 0, 2]
    """
    candidates = np.arange(len(scores))
    if 0 < k < len(scores):
        # Most documents share no term with a question, and all have the lowest score.
        above = np.flatnonzero(scores > scores.min())
        if len(above) >= k:
            # All that reach the k-th highest score: more than k where several tie with it.
            threshold = np.partition(scores[above], len(above) - k)[len(above) - k]
            candidates = above[scores[above] >= threshold]
    return candidates[np.lexsort((candidates, -scores[candidates]))[:k]]


class Index(abc.ABC):
    """Scores every text of a collection for a question."""

    @abc.abstractmethod
    def score_all(self, question: str) -> np.ndarray:
        """``[N]`` float32, the score of every text."""

    def rank(self, questions: Iterable[str], *, k: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The best texts of each question, best first, ties to the lower number.

        Texts without a term in common with the question have score 0 and come last; they are
        listed too, so that there are always K = ``min(k, N)``.

        Args:
            questions: each is scored by itself.
            k: number of texts.

        Yields:
            For each question ``[K]`` int64 numbers of texts and their ``[K]`` float32 scores.
        """
        for question in questions:
            scores = self.score_all(question)
            best = top_k(scores, k)
            yield best, scores[best]


class Postings:
    """Sums of the weights of terms, for all documents or for chosen ones.

    Sums run over the terms in the order given, in float32, so that both ways of asking
    give the same bits, and no score depends on what else is asked.

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
        """``[Q]`` int64, how many documents have each of the terms ``[Q]``."""
        return self._starts[terms + 1] - self._starts[terms]

    def score_all(self, terms: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """``[N]`` float32: for each document, the sum of ``factors * weights``.

        Args:
            terms: ``[Q]`` indices of terms; a repeated one counts twice.
            factors: ``[Q]``, of each term.
        """
        scores = np.zeros(self.num_documents, np.float32)
        for term, factor in zip(terms, factors.astype(np.float32), strict=True):
            part = slice(self._starts[term], self._starts[term + 1])
            # A document stands once among those of a term.
            scores[self._documents[part]] += factor * self._weights[part]
        return scores

    def score(self, chosen: np.ndarray, terms: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """``[C]`` float32, what `score_all` gives the documents ``chosen`` ``[C]``.

        A term takes O(C log N), however many documents it has.
        """
        scores = np.zeros(len(chosen), np.float32)
        for term, factor in zip(terms, factors.astype(np.float32), strict=True):
            part = slice(self._starts[term], self._starts[term + 1])
            documents = self._documents[part]
            place = np.minimum(np.searchsorted(documents, chosen), len(documents) - 1)
            found = documents[place] == chosen
            scores[found] += factor * self._weights[part][place[found]]
        return scores


class PostingsWriter:
    """Turns a sparse matrix, given by blocks of rows, into an inverted index on disk.

    Memory holds a block and some arrays over the columns; the rows wait in files of the
    folder until all are known, and are then sorted into place block by block.

    Args:
        folder: to write into.
        num_columns: width of the matrix.

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
        self._blocks: list[tuple[int, int]] = []  # rows and entries of each
        self._columns = open(folder / "columns.tmp", "wb")  # closed by close
        self._values = open(folder / "values.tmp", "wb")
        self._lengths = open(folder / "lengths.tmp", "wb")

    def add(self, rows: scipy.sparse.csr_array | scipy.sparse.csr_matrix) -> None:
        """Append rows; no column may occur twice within one."""
        self._counts += np.bincount(rows.indices, minlength=len(self._counts))
        self._columns.write(rows.indices.astype(np.int32).tobytes())
        self._values.write(rows.data.astype(np.float32).tobytes())
        self._lengths.write(np.diff(rows.indptr).astype(np.int32).tobytes())
        self._blocks.append((len(rows.indptr) - 1, len(rows.indices)))

    def close(self) -> None:
        """Write the index and remove the rows."""
        terms = np.flatnonzero(self._counts)
        starts = np.concatenate(([0], np.cumsum(self._counts[terms])))
        np.save(self._folder / "terms.npy", terms.astype(np.int32))
        np.save(self._folder / "starts.npy", starts)
        term_of = np.cumsum(self._counts > 0) - 1
        self._transpose(term_of, starts)
        for file in (self._columns, self._values, self._lengths):
            file.close()
            Path(file.name).unlink()

    def _transpose(self, term_of: np.ndarray, starts: np.ndarray) -> None:
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
                terms = term_of[np.fromfile(columns, np.int32, entries)]
                rows = first + np.arange(num_rows, dtype=np.int32)
                rows = np.repeat(rows, np.fromfile(lengths, np.int32, num_rows))
                order = np.argsort(terms, kind="stable")
                terms = terms[order]
                # The place of an entry: the term's first free one, plus its rank in the block.
                present, begin, counts = np.unique(terms, return_index=True, return_counts=True)
                places = free[terms] + np.arange(entries) - np.repeat(begin, counts)
                documents[places] = rows[order]
                weights[places] = np.fromfile(values, np.float32, entries)[order]
                free[present] += counts
                first += num_rows


def read_postings(folder: Path, *, num_documents: int) -> tuple[np.ndarray, Postings]:
    """(``[V]`` int32 columns that are terms, index) of a folder that `PostingsWriter` wrote.

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
    # A full disk has to be an error here; where a mapped file is written, it kills the process.
    if hasattr(os, "posix_fallocate"):  # not on macOS
        with open(file, "r+b") as stream:
            os.posix_fallocate(stream.fileno(), 0, file.stat().st_size)
    return array
