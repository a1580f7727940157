"""The masked softmax family, against scipy on what is left when padding is removed."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from numpy.testing import assert_allclose, assert_array_equal

from hardem_jax import masked
from hardem_jax.masked import Rows
from tests.loss_cases import random_rows

INF = math.inf
FUNCTIONS = {
    "softmax": (masked.softmax, scipy.special.softmax, 0.0),
    "log_softmax": (masked.log_softmax, scipy.special.log_softmax, -INF),
}
over_functions = pytest.mark.parametrize("name", FUNCTIONS)


@over_functions
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_each_slice_is_scipys_on_its_positions(name, axis):
    function, reference, outside = FUNCTIONS[name]
    scores, where = random_rows(0, (6, 5, 4))
    where[:, 2, 1], where[3, :, 1], where[3, 2, :] = False, False, False
    scores[~where] = np.nan
    sums = np.ravel(jax.jit(lambda x, w: masked.logsumexp(x, w, axis=axis))(scores, where))
    values = jax.jit(lambda x, w: function(x, w, axis=axis))(scores, where)
    rows, kept, got = (
        np.moveaxis(np.asarray(x), axis, -1).reshape(-1, scores.shape[axis])
        for x in (scores, where, values)
    )
    assert not kept.any(-1).all()
    for row, mask, values, total in zip(rows, kept, got, sums, strict=True):
        assert_array_equal(values[~mask], outside)
        if mask.any():
            assert_allclose(values[mask], reference(row[mask]), rtol=1e-5, atol=1e-6)
            assert_allclose(total, scipy.special.logsumexp(row[mask]), rtol=1e-5, atol=1e-6)
        else:
            assert total == -INF


def test_scores_of_any_size_and_impossible_ones():
    scores = np.array([[3e38, 3e38, -3e38], [-INF, 1.0, 1.0], [-INF] * 3], np.float32)
    assert_array_equal(jax.jit(masked.softmax)(scores), [[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 0]])
    half = math.log(0.5)
    assert_allclose(
        jax.jit(masked.log_softmax)(scores),
        [[half, half, -INF], [-INF, half, half], [-INF] * 3],
        rtol=1e-6,
    )
    assert_allclose(jax.jit(masked.logsumexp)(scores), [3e38, 1 - half, -INF], rtol=1e-6)


@pytest.mark.parametrize("shift", [0.0, 1e4, -2e4, 1e7])
def test_a_constant_of_all_scores_changes_no_share(shift):
    scores = np.array([[0.0, 1.0, 2.0, -np.inf]], np.float32)
    found = jax.jit(masked.log_softmax)(scores + np.float32(shift))
    assert_allclose(found[0, :3], scipy.special.log_softmax([0.0, 1.0, 2.0]), rtol=1e-6)
    assert found[0, 3] == -INF


@pytest.mark.parametrize("function", [masked.softmax, masked.log_softmax, masked.logsumexp])
def test_gradients_are_finite_and_nothing_reaches_padding(function):
    scores = np.array([[1.0, INF, 2.0], [np.nan] * 3, [-INF] * 3, [-INF, 2.0, 1.0]], np.float32)
    where = np.array([[True, False, True], [False] * 3, [True] * 3, [True] * 3])

    def weighted_sum(scores):
        values = function(scores, where).ravel()
        return jnp.sum(jnp.where(jnp.isfinite(values), values, 0.0) * jnp.arange(values.size))

    gradient = np.asarray(jax.jit(jax.grad(weighted_sum))(scores))
    assert np.isfinite(gradient).all() and np.any(gradient)
    assert_array_equal(gradient[~where], 0.0)
    assert_array_equal(gradient[2], 0.0)


def test_float16_is_summed_in_float32():
    total = jax.jit(masked.logsumexp)(np.zeros(3_000, jnp.bfloat16))
    assert total.dtype == jnp.float32
    assert_allclose(total, math.log(3_000), rtol=1e-6)


def test_rank_is_the_place_in_the_row_in_either_layout():
    scores = np.array([[1.0, 3.0, 3.0, np.nan], [2.0, -INF, 5.0, 0.0]], np.float32)
    assert_array_equal(jax.jit(lambda x: Rows.of(x).rank())(scores), [[3, 1, 2, 0], [1, 3, 0, 2]])
    order = [4, 0, 1, 5, 6, 2, 3, 7]  # rows interleaved

    def rank(x, ids):
        return Rows.of(x, segment_ids=ids, num_segments=2).rank()

    expected = np.array([3, 1, 2, 0, 1, 3, 0, 2])[order]
    assert_array_equal(jax.jit(rank)(scores.ravel()[order], np.array(order) // 4), expected)
