"""Losses of later work, weights of solutions, and Z that was sampled."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hardem_jax.loss_variants import (
    count_weighted_mml_loss,
    entropy_regularized_loss,
    kept,
    released_mml_loss,
    thresholded_loss,
)
from hardem_jax.losses import em_loss, has_solution, mml_loss, posterior_entropy
from hardem_jax.sampled import distinct
from tests.loss_cases import ALL_LOSSES, Loss, hard_em, random_rows
from tests.loss_cases import options as with_options

LOG_PROBS, WHERE = random_rows(0, (8, 5))
WHERE[3] = False


def row_sums(x):
    return np.where(WHERE, x, 0).sum(-1, keepdims=True)


def posterior():
    weights = np.where(WHERE, np.exp(LOG_PROBS), 0)
    return weights / np.maximum(row_sums(weights), 1e-30)


def gradient(loss, **options):
    return jax.grad(lambda x: loss(x, where=WHERE, reduce_fn=jnp.sum, **options))(LOG_PROBS)


def test_gradient_of_count_weighted_mml():
    counts = np.maximum(row_sums(1.0), 1)
    expected = -posterior() / counts**0.7
    assert_allclose(gradient(count_weighted_mml_loss, power=0.7), expected, rtol=1e-5, atol=1e-7)
    assert_allclose(gradient(count_weighted_mml_loss, power=0.0), gradient(mml_loss), rtol=1e-6)


@pytest.mark.parametrize("weight", [-0.5, 0.0, 2.0])
def test_gradient_of_entropy_regularized_mml(weight):
    q = posterior()
    log_q = np.log(np.where(q > 0, q, 1))
    entropy = -row_sums(q * log_q)
    expected = -q * (1 + weight * (log_q + entropy))
    got = gradient(entropy_regularized_loss, weight=weight)
    assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_weights_of_the_release_and_of_mml():
    nll = jnp.array([1.0, 2.0, 4.0, 8.0])
    e = np.exp(np.asarray(nll, float))
    released, right = jax.grad(released_mml_loss)(-nll), jax.grad(mml_loss)(-nll)
    assert_allclose(released, -e / e.sum(), rtol=1e-5)
    assert_allclose(released, [-0.001, -0.002, -0.018, -0.979], atol=5e-4)
    assert_allclose(right, [-0.705, -0.259, -0.035, -0.001], atol=5e-4)


def test_thresholded_loss_is_hard_em_on_the_confident_rows():
    log_probs = jnp.log(jnp.array([[0.6, 0.3], [0.5, 0.5], [0.2, 0.0], [0.9, 0.1]]))
    where = jnp.array([[True, True], [True, True], [True, False], [False, False]])
    rows = {"where": where, "threshold": 0.5}
    assert_array_equal(kept(log_probs, **rows), [True, False, False, False])
    assert_array_equal(kept(log_probs, keep_single=True, **rows), [True, False, True, False])
    assert_array_equal(kept(log_probs, where=where, threshold=0.0), [True, True, True, False])
    values = thresholded_loss(log_probs, keep_single=True, reduce_fn=None, **rows)
    assert_allclose(values, [-math.log(0.6), 0, -math.log(0.2), 0], rtol=1e-6)
    mean, slope = jax.value_and_grad(thresholded_loss)(log_probs, keep_single=True, **rows)
    assert_allclose(mean, values.sum() / 2, rtol=1e-6)  # of the rows that are kept
    expected = np.zeros((4, 2))
    expected[[0, 2], 0] = -0.5
    assert_array_equal(slope, expected)
    assert thresholded_loss(log_probs, threshold=0.99, where=where) == 0.0


@pytest.mark.parametrize("keep_single", [False, True])
def test_a_threshold_does_not_hide_nan(keep_single):
    log_probs = np.array([[math.nan, -1.0], [-0.1, -3.0], [-2.0, math.nan], [-2.0, -3.0]])
    rows = {"threshold": 0.5, "keep_single": keep_single}
    assert_array_equal(kept(log_probs, **rows), [True, True, True, False])
    values = thresholded_loss(log_probs, reduce_fn=None, **rows)
    assert_allclose(values, [math.nan, 0.1, math.nan, 0.0], rtol=1e-6)
    ragged = {"segment_ids": np.repeat(np.arange(4), 2), "num_segments": 4}
    assert_allclose(thresholded_loss(log_probs.ravel(), reduce_fn=None, **rows, **ragged), values)
    assert np.isnan(thresholded_loss(log_probs, **rows))
    empty = thresholded_loss(np.full((1, 2), math.nan), where=np.zeros((1, 2)), **rows)
    assert empty == 0.0  # NaN at padding is no solution


@pytest.mark.parametrize("power", [0.0, 1.0, 30.0])
def test_impossible_solutions_cost_infinity_however_many_they_are(power):
    log_probs = np.full((2, 32), -np.inf, np.float32)
    log_probs[1, 0] = -1.0
    loss = jax.jit(lambda x: count_weighted_mml_loss(x, power=power, reduce_fn=jnp.sum))
    values = count_weighted_mml_loss(log_probs, power=power, reduce_fn=None)
    assert values[0] == np.inf and np.isfinite(values[1])  # 32 ** -30 is 0 in float32
    slope = np.asarray(jax.grad(loss)(log_probs))
    assert np.isfinite(slope).all() and not slope[0].any()


# Weights of solutions.

THRESHOLDED = {"threshold": 0.3, "keep_single": True}
WEIGHTED = [
    *ALL_LOSSES,
    Loss("thresholded", with_options(thresholded_loss, **THRESHOLDED), hard_em),
]


@pytest.mark.parametrize("loss", WEIGHTED, ids=str)
def test_weights_multiply_probabilities_in_every_loss(loss):
    weights = np.random.default_rng(1).normal(size=LOG_PROBS.shape).astype(np.float32)
    rows = {"where": WHERE, "reduce_fn": None}
    got = loss(LOG_PROBS, log_weights=weights, **rows)
    assert_allclose(got, loss(LOG_PROBS + weights, **rows), rtol=1e-6)


def test_weights_get_no_gradient():
    weights = jnp.zeros(LOG_PROBS.shape)
    slope = jax.grad(lambda w: mml_loss(LOG_PROBS, log_weights=w, where=WHERE))(weights)
    assert_array_equal(slope, 0.0)


def left_out():
    """Log-probs, a mask, and which of its solutions remain: none, the last or one, and others.

    What is left out is no number, which nothing may see.
    """
    log_probs, where = random_rows(2, (8, 5))
    remain = np.random.default_rng(3).random((8, 5)) < 0.5
    where[0], remain[0] = True, False
    where[1], remain[1] = True, np.arange(5) == 4
    where[2], remain[2] = True, np.arange(5) > 0
    where[3] = False
    return np.where(remain, log_probs, math.nan).astype(np.float32), where, remain


@pytest.mark.parametrize("loss", WEIGHTED, ids=str)
def test_a_weight_of_zero_is_a_mask(loss):
    log_probs, where, remain = left_out()
    log_weights = np.where(remain, 0.0, -np.inf)
    masked = loss(log_probs, where=where & remain, reduce_fn=None)
    got = loss(log_probs, where=where, log_weights=log_weights, reduce_fn=None)
    assert masked[0] == 0.0 and np.isfinite(masked).all()
    assert_array_equal(got, masked)
    slopes = [
        jax.value_and_grad(loss)(log_probs, where=where, log_weights=log_weights),
        jax.value_and_grad(loss)(log_probs, where=where & remain),
    ]
    jax.tree.map(assert_array_equal, *slopes)
    ragged = {"segment_ids": np.nonzero(where)[0], "num_segments": 8, "reduce_fn": None}
    got = loss(log_probs[where], log_weights=log_weights[where], **ragged)
    assert_allclose(got, masked, rtol=1e-6)


def test_what_says_which_rows_count_sees_weights_of_zero():
    log_probs, where, remain = left_out()
    weighted = {"where": where, "log_weights": np.where(remain, 0.0, -np.inf)}
    masked = {"where": where & remain}
    rows = has_solution(log_probs, **weighted)
    assert_array_equal(rows, (where & remain).any(-1))
    got = kept(log_probs, **weighted, **THRESHOLDED)
    assert_array_equal(got, kept(log_probs, **masked, **THRESHOLDED))
    assert got[1]  # one of its five solutions remains
    assert_array_equal(*(posterior_entropy(log_probs, **rows) for rows in (weighted, masked)))


@pytest.mark.parametrize("loss", WEIGHTED, ids=str)
def test_a_weight_that_is_no_number_shows(loss):
    log_weights = np.zeros((2, 3), np.float32)
    log_weights[1, 0] = math.nan
    got = loss(np.full((2, 3), -1.0, np.float32), log_weights=log_weights, reduce_fn=None)
    assert_array_equal(np.isnan(got), [False, True])


# Sampled Z.


@pytest.mark.parametrize("seed", range(3))
def test_distinct_keeps_the_first_of_each_id(seed):
    rng = np.random.default_rng(seed)
    ids, where = rng.integers(-2, 3, (6, 9)), rng.random((6, 9)) < 0.7
    expected = np.zeros((6, 9), bool)
    for row, column in np.argwhere(where):
        expected[row, column] = ids[row, column] not in ids[row, :column][where[row, :column]]
    assert_array_equal(jax.jit(distinct)(ids, where=where), expected)
    # Ragged, rows interleaved, the order within a row kept.
    order = np.lexsort((np.arange(54), rng.permutation(54) // 6))
    order = order[np.argsort(order % 9, kind="stable")]
    got = distinct(
        np.append(ids.ravel()[order], ids[0, 0]),
        where=np.append(where.ravel()[order], True),
        segment_ids=np.append(order // 9, 6),
        num_segments=6,
    )
    assert not got[-1]
    assert_array_equal(got[:-1], expected.ravel()[order])


def test_distinct_over_no_solutions():
    assert distinct(np.zeros((3, 0), int)).shape == (3, 0)


@pytest.mark.parametrize("far", [2**32, np.iinfo(np.int64).min, -(2**32), 2**40 + 1])
def test_rows_of_64_bits_outside_the_range_are_padding(far):
    ids = np.array([0, far, 1], np.int64)
    log_probs = jnp.log(jnp.array([0.5, 0.25, 0.125]))
    values = mml_loss(log_probs, segment_ids=ids, num_segments=2, reduce_fn=None)
    assert_allclose(jnp.exp(-values), [0.5, 0.125], rtol=1e-6)


def test_ids_of_64_bits_are_told_apart():
    ids = np.array([[(3 << 32) | 7, (4 << 32) | 7, (3 << 32) | 7]])
    assert distinct(ids).tolist() == distinct([[3, 4, 3]]).tolist() == [[True, True, False]]


@pytest.mark.parametrize("wrong", [np.full((3, 1), 0.5), np.full((1, 1, 3), 0.5)])
def test_a_threshold_or_weight_of_another_shape_is_refused(wrong):
    log_probs = jnp.log(jnp.array([[0.6, 0.3], [0.2, 0.1], [0.4, 0.4]]))
    with jax.numpy_rank_promotion("allow"):  # as it is outside of these tests
        with pytest.raises(ValueError, match="expected values of rows"):
            thresholded_loss(log_probs, threshold=wrong)
        with pytest.raises(ValueError, match="expected values of rows"):
            entropy_regularized_loss(log_probs, weight=wrong)
    rows = np.array([0.5, 0.1, 0.9])
    assert thresholded_loss(log_probs, threshold=rows, reduce_fn=None).shape == (3,)


def test_a_posterior_of_other_traced_values_gets_no_gradient():
    log_probs = jnp.log(jnp.array([0.1, 0.3]))

    def loss(other):
        return em_loss(log_probs, lambda scores, **rows: jax.nn.softmax(other))

    assert_array_equal(jax.grad(loss)(log_probs), [0, 0])
    pytest.raises(ValueError, loss, jnp.zeros(3)).match(r"posterior's weights .*\(2,\), got \(3")
