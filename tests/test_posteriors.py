"""Every posterior: rows sum to 1 or are 0, and the bridges between them."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hardem_jax.posteriors import Tempered, TopK, first, hard, soft, uniform
from tests.loss_cases import random_rows

POSTERIORS = {
    "hard": hard,
    "first": first,
    "soft": soft,
    "uniform": uniform,
    "tempered(0.5)": Tempered(0.5),
    "tempered(1e6)": Tempered(1e6),
    "top_k(1)": TopK(1),
    "top_k(3)": TopK(3),
    "top_k(9)": TopK(9),
}
COMPILED = {name: jax.jit(posterior) for name, posterior in POSTERIORS.items()}
RAGGED = {
    name: jax.jit(posterior, static_argnames="num_segments")
    for name, posterior in POSTERIORS.items()
}
over_all_posteriors = pytest.mark.parametrize("name", POSTERIORS)


def weights(name, log_probs, where=None):
    where = np.ones(log_probs.shape, bool) if where is None else where
    return np.asarray(COMPILED[name](log_probs, where=where))


def rows_with_every_difficulty():
    log_probs, where = random_rows(0, (8, 5))
    where[1] = False  # no solution
    log_probs[2], where[2] = -math.inf, True  # impossible solutions only
    log_probs[3], where[3] = -2.0, True  # ties
    log_probs[4], where[4] = [3e38, -3e38, 3e38, -math.inf, 0.0], True
    log_probs[5], where[5] = -3e38, True
    log_probs[6, 0] = -math.inf
    log_probs[~where] = 7.0
    return log_probs, where


@over_all_posteriors
def test_rows_sum_to_one_or_are_zero(name):
    log_probs, where = rows_with_every_difficulty()
    got = weights(name, log_probs, where)
    assert got.dtype == np.float32 and (got >= 0).all()
    possible = (where & (log_probs != -math.inf)).any(-1)
    assert_array_equal(possible, [True, False, False] + 5 * [True])
    assert_allclose(got.sum(-1), possible.astype(float), rtol=1e-6)
    assert_array_equal(got[~where], 0.0)
    if name != "first":  # First-only trusts the first solution even where it is impossible
        assert_array_equal(got[log_probs == -math.inf], 0.0)


@over_all_posteriors
def test_mask_is_the_same_as_physically_removing(name):
    log_probs, _ = random_rows(1, (4, 5))
    where = np.tile([False, True, True, False, True], (4, 1))
    removed = POSTERIORS[name](jnp.asarray(log_probs[:, where[0]]))
    assert_allclose(weights(name, log_probs, where)[:, where[0]], removed, rtol=1e-6)


@over_all_posteriors
def test_ragged_is_padded(name):
    log_probs, where = rows_with_every_difficulty()
    rows = np.repeat(np.arange(8), 5)
    shuffled = np.random.default_rng(0).permutation(np.arange(40))
    # Rows interleaved, the order within a row kept, and a solution of no row at either end.
    order = np.lexsort((np.arange(40), shuffled.reshape(8, 5).argsort(-1).ravel()))
    segment_ids = np.concatenate([[-1], rows[order], [8]])
    ragged = RAGGED[name](
        np.concatenate([[5.0], log_probs.ravel()[order], [5.0]]).astype(np.float32),
        where=np.concatenate([[True], where.ravel()[order], [True]]),
        segment_ids=segment_ids,
        num_segments=8,
    )
    padded = np.zeros(40, np.float32)
    padded[order] = np.asarray(ragged)[1:-1]
    in_order = np.take_along_axis(log_probs, within_rows(order), -1)
    kept = np.take_along_axis(where, within_rows(order), -1)
    expected = np.zeros_like(log_probs)
    np.put_along_axis(expected, within_rows(order), weights(name, in_order, kept), -1)
    assert_allclose(padded.reshape(8, 5), expected, rtol=1e-6)
    assert ragged[0] == ragged[-1] == 0.0


def within_rows(order):
    """``[8, 5]``: each row's positions in the order in which ``order`` visits them."""
    visited = [[place % 5 for place in order if place // 5 == row] for row in range(8)]
    return np.array(visited)


@over_all_posteriors
def test_room_for_no_solution_at_all(name):
    assert weights(name, np.zeros((3, 0), np.float32)).shape == (3, 0)
    none = POSTERIORS[name](jnp.zeros(0), segment_ids=jnp.zeros(0, int), num_segments=3)
    assert none.shape == (0,)


@over_all_posteriors
def test_nan_is_not_hidden(name):
    log_probs = np.array([[math.nan, -1.0, -2.0, -3.0, -4.0]], np.float32)
    got = weights(name, log_probs)[0]
    # Either the weights are NaN, or all of the weight is on the NaN.
    assert math.isnan(got[0]) or got[0] == 1.0


@over_all_posteriors
def test_low_precision_is_float32_on_the_rounded_input(name):
    low = jnp.array([[-1.0, -1.01, -7.3]], jnp.bfloat16)
    got = POSTERIORS[name](low)
    assert got.dtype == jnp.float32
    assert_array_equal(got, POSTERIORS[name](low.astype(jnp.float32)))


def test_each_row_has_its_own_scale():
    log_probs = np.array([[-1.0, -1.0], [-1000.0, -1000.0]], np.float32)
    assert_array_equal(weights("soft", log_probs), np.full((2, 2), 0.5))


def test_values_are_the_formulas():
    log_probs = np.log(np.array([[0.1, 0.4, 0.4, 0.3, 0.2]], np.float32))
    p = np.array([0.1, 0.4, 0.4, 0.3, 0.2])
    assert_array_equal(weights("hard", log_probs)[0], [0, 1, 0, 0, 0])
    assert_array_equal(weights("first", log_probs)[0], [1, 0, 0, 0, 0])
    assert_allclose(weights("soft", log_probs)[0], p / p.sum(), rtol=1e-6)
    assert_allclose(weights("uniform", log_probs)[0], np.full(5, 1 / 5), rtol=1e-6)
    assert_allclose(weights("tempered(0.5)", log_probs)[0], p**0.5 / (p**0.5).sum(), rtol=1e-5)
    kept = np.array([0, 0.4, 0.4, 0.3, 0]) / (0.4 + 0.4 + 0.3)
    assert_allclose(weights("top_k(3)", log_probs)[0], kept, rtol=1e-6)


def test_uniform_is_over_possible_solutions_alone():
    log_probs = np.array([[-1.0, -math.inf, -9.0, 0.0, -3e38]], np.float32)
    assert_allclose(weights("uniform", log_probs)[0], [1 / 4, 0, 1 / 4, 1 / 4, 1 / 4])


def test_bridges_between_posteriors():
    log_probs, where = rows_with_every_difficulty()
    assert_array_equal(weights("top_k(1)", log_probs, where), weights("hard", log_probs, where))
    assert_allclose(weights("top_k(9)", log_probs, where), weights("soft", log_probs, where))
    assert_allclose(Tempered(1.0)(log_probs, where=where), weights("soft", log_probs, where))
    untied = np.delete(log_probs, [3, 4, 5], 0), np.delete(where, [3, 4, 5], 0)
    assert_allclose(weights("tempered(1e6)", *untied), weights("hard", *untied), atol=1e-6)


@pytest.mark.parametrize("bad", [-0.1, math.inf, math.nan])
def test_temperature_out_of_range(bad):
    with pytest.raises(ValueError, match="inverse_temperature must be finite, >= 0"):
        Tempered(bad)


def test_k_out_of_range():
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        TopK(0)
    assert_array_equal(TopK(1)(np.array([-2.0, -1.0], np.float32)), [0, 1])
