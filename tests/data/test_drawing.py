"""Which solutions of a large Z a row of a batch holds."""

import numpy as np

from hardem_jax.data.batching.padding import fitting
from hardem_jax.data.built import draw_first
from hardem_jax.queries.examples import QueryQuestion


def test_a_row_holds_the_first_and_others_each_about_as_often():
    drawn = np.stack([fitting(f"q{i}", 60, 12) for i in range(200)])
    assert np.array_equal(drawn, np.stack([fitting(f"q{i}", 60, 12) for i in range(200)]))
    assert np.all(np.diff(drawn) > 0) and len(set(map(tuple, drawn.tolist()))) > 190
    counts = np.bincount(drawn.ravel(), minlength=60)
    assert counts[0] == 200
    assert counts[1:].min() > 18 and counts[1:].max() < 60  # 37 on average, deviation 5.5


def test_what_fits_is_kept_in_order():
    for count in range(5):
        assert fitting("\ud800", count, 4).tolist() == list(range(count))
    assert fitting("\ud800", 9, 1).tolist() == [0]


def test_a_drawn_solution_is_first_and_the_others_keep_their_order():
    queries = np.arange(45, dtype=np.int16).reshape(3, 15)
    answer, words = ("ann",), np.zeros((0, 2), np.int32)
    question = QueryQuestion("q", "Who?", "1-1", answer, "execution", None, words, queries, 3, 3)
    assert draw_first(question, "queries", 0).queries[:, 0].tolist() == [15, 0, 30]
