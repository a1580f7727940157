"""Packed rows: every token once, in order, nothing beyond its device; few rows."""

import numpy as np
import pytest

from hardem_jax.data.batching.plans import PADDING, pack_lengths, packing_arrays, rows_needed


@pytest.mark.parametrize("seed", range(5))
def test_rows_hold_what_they_are_given_and_are_nearly_full(seed):
    lengths = np.random.default_rng(seed).integers(0, 301, 200)
    rows = pack_lengths(lengths, 512)
    used = np.bincount(rows, weights=lengths)
    assert used.max() <= 512
    assert (used[: rows.max()] > 0).all()  # no gaps
    fewest = -(-lengths.sum() // 512)
    assert rows_needed(lengths, 512) == rows.max() + 1 <= np.ceil(11 / 9 * fewest) + 1
    assert rows.max() + 1 <= 1.03 * fewest + 1  # what it does on windows of text


@pytest.mark.parametrize(
    ("lengths", "rows"),
    [
        ([5, 5, 7, 3, 10], [2, 2, 1, 1, 0]),
        ([6, 5, 4, 3, 2], [0, 1, 0, 1, 1]),
        ([6, 5, 5, 0], [0, 1, 1, 0]),  # nothing is in the first row
    ],
)
def test_the_fullest_row_that_has_room_is_taken(lengths, rows):
    assert pack_lengths(np.array(lengths), 10).tolist() == rows


@pytest.mark.parametrize("num_devices", [1, 3])
@pytest.mark.parametrize("short", [False, True])
def test_there_and_back_again(num_devices, short):
    rng = np.random.default_rng(0)
    # Short texts crowd a row, which then has more of them than slots.
    lengths = np.array([10, 10] + [1] * 10) if short else rng.integers(0, 9, 12)
    where = np.arange(10)[None] < lengths[:, None]
    tokens = rng.integers(1, 100, where.shape) * where
    arrays = packing_arrays(where, num_devices=num_devices, num_rows=8, row_tokens=11)
    packing, unpacking = arrays["packing"], arrays["unpacking"]
    assert packing.shape == (num_devices, 8, 11) and unpacking.shape == where.shape
    assert packing.dtype == unpacking.dtype == np.int32
    assert ((unpacking != PADDING) == where).all()
    places = packing.reshape(num_devices, -1)
    own_tokens = tokens.reshape(num_devices, -1)
    own_places = unpacking.reshape(num_devices, -1)
    for device in range(num_devices):
        real = places[device] != PADDING
        assert len(np.unique(places[device][real])) == real.sum()
        packed = np.where(real, own_tokens[device][places[device]], 0)
        back = np.where(own_places[device] >= 0, packed[own_places[device]], 0)
        np.testing.assert_array_equal(back, own_tokens[device])
        # The tokens of an input are consecutive in one row.
        for i in range(len(where) // num_devices):
            own = np.flatnonzero(real & (places[device] // 10 == i))
            if len(own):
                assert own[0] // 11 == own[-1] // 11
                np.testing.assert_array_equal(own, own[0] + np.arange(len(own)))
                np.testing.assert_array_equal(places[device][own], 10 * i + np.arange(len(own)))
        # Every text, and what rows have left over, has a slot in its own row or an earlier one.
        texts = np.where(real, places[device] // 10, -1).reshape(8, 11)
        rows = np.nonzero(np.diff(texts, prepend=-2))[0]
        slots = -(-len(where) // num_devices // 8) + 2
        assert len(rows) <= 8 * (slots - 1) and (np.arange(len(rows)) // slots <= rows).all()


def test_too_few_rows_are_an_error():
    where = np.ones((4, 6), bool)
    with pytest.raises(ValueError, match="num_rows: expected at least 4, found 3"):
        packing_arrays(where, num_devices=1, num_rows=3, row_tokens=10)
