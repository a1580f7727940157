"""The inverted index against dense sums."""

import numpy as np
import pytest
import scipy.sparse

from hardem_jax.errors import InputError
from hardem_jax.retrieval import postings
from hardem_jax.retrieval.postings import PostingsWriter, read_postings, top_k
from tests.retrieval.corpora import same_files


@pytest.mark.parametrize("k", [1, 3, 7, 20, 50])
def test_top_k_is_a_stable_sort(k):
    rng = np.random.default_rng(k)
    for scores in (rng.integers(0, 4, 20).astype(np.float32), np.zeros(20), rng.normal(size=20)):
        expected = np.argsort(-scores, kind="stable")[:k]
        np.testing.assert_array_equal(top_k(scores, k), expected)


@pytest.fixture
def matrix():
    rng = np.random.default_rng(0)
    dense = rng.integers(1, 9, (40, 30)) * (rng.random((40, 30)) < 0.2)
    dense[:, 11] = 0
    dense[7] = 0
    return dense.astype(np.float32)


def write(folder, matrix, block_size, shard_size=None):
    folder.mkdir()
    writer = PostingsWriter(folder)
    for start in range(0, len(matrix), block_size):
        if shard_size is not None and start % shard_size == 0:
            writer.end_shard()
        writer.add(scipy.sparse.csr_array(matrix[start : start + block_size]))
    writer.close(num_columns=matrix.shape[1])
    return read_postings(folder, num_documents=len(matrix))


def test_scores_are_sums_of_columns(tmp_path, matrix):
    terms, index = write(tmp_path / "a", matrix, 7)
    np.testing.assert_array_equal(terms, np.flatnonzero(matrix.any(0)))
    np.testing.assert_array_equal(
        index.document_frequency(np.arange(len(terms))), (matrix[:, terms] > 0).sum(0)
    )
    asked, factors = np.array([3, 0, 3, 20]), np.array([1.0, 0.5, 2.0, 4.0])
    expected = matrix[:, terms[asked]] @ factors
    np.testing.assert_allclose(index.score_all(asked, factors), expected, rtol=1e-6)
    chosen = np.array([39, 7, 0, 12, 12])
    np.testing.assert_array_equal(
        index.score(chosen, asked, factors), index.score_all(asked, factors)[chosen]
    )


def test_no_terms_give_no_score(tmp_path, matrix):
    _, index = write(tmp_path / "a", matrix, 40)
    nothing = np.array([], np.int64)
    assert not index.score_all(nothing, nothing).any()
    assert index.score(np.array([1, 2]), nothing, nothing).tolist() == [0, 0]


@pytest.mark.parametrize("merged", [1, 5, 10_000])
def test_the_index_does_not_depend_on_blocks_and_shards(tmp_path, matrix, monkeypatch, merged):
    monkeypatch.setattr(postings, "_MERGED", merged)  # entries; most columns have more than 5
    sizes = [(1, 1), (1, 3), (7, None), (7, 7), (7, 14), (40, None)]
    for place, (block_size, shard_size) in enumerate(sizes):
        write(tmp_path / str(place), matrix, block_size, shard_size)
    # Columns of the matrix, by scipy.
    expected = scipy.sparse.csc_array(matrix)
    np.testing.assert_array_equal(np.load(tmp_path / "0" / "documents.npy"), expected.indices)
    np.testing.assert_array_equal(np.load(tmp_path / "0" / "weights.npy"), expected.data)
    for place in range(len(sizes)):
        same_files(tmp_path / "0", tmp_path / str(place))
    files = sorted(file.name for file in (tmp_path / "0").iterdir())
    assert files == ["documents.npy", "starts.npy", "terms.npy", "weights.npy"]


def test_ranges_of_columns_hold_no_more_entries_than_said():
    counts = np.array([2, 2, 1, 9, 1, 1, 4, 5])
    assert postings._cuts(counts, 5) == [0, 3, 4, 6, 7, 8]
    assert postings._cuts(counts, 100) == [0, 8]
    assert postings._cuts(counts[:0], 5) == [0]


def test_an_empty_matrix(tmp_path):
    terms, index = write(tmp_path / "a", np.zeros((3, 4), np.float32), 2)
    assert len(terms) == 0
    assert index.score_all(np.array([], int), np.array([])).tolist() == [0, 0, 0]


def test_a_missing_file_is_an_error(tmp_path, matrix):
    write(tmp_path / "a", matrix, 40)
    (tmp_path / "a" / "weights.npy").unlink()
    with pytest.raises(InputError, match="weights.npy: expected an array"):
        read_postings(tmp_path / "a", num_documents=40)
