"""Which solutions of a large Z a row of a batch holds."""

import numpy as np

from hardem_jax.data.batching.padding import fitting


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
