"""Every loss against every property that the contract in `hardem_jax.losses` promises."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hardem_jax.losses import first_only_loss, hard_em_loss, mml_loss
from hardem_jax.posteriors import first, hard, soft
from tests.loss_cases import (
    ALL_LOSSES,
    INF,
    evaluate,
    expected_rows,
    hard_em,
    over_all_losses,
    random_rows,
)

log = math.log

# Tables share one shape, so that each loss is compiled once for most of this file.
SHAPE = (6, 5)


@pytest.mark.parametrize(
    "loss, value, gradient",
    [
        (hard_em_loss, -log(0.4), [0.0, -1.0, 0.0]),
        (mml_loss, -log(0.1 + 0.4 + 0.3), [-0.1 / 0.8, -0.4 / 0.8, -0.3 / 0.8]),
        (first_only_loss, -log(0.1), [-1.0, 0.0, 0.0]),
    ],
)
def test_value_and_gradient_are_the_formulas_of_the_paper(loss, value, gradient):
    log_probs = jnp.log(jnp.array([0.1, 0.4, 0.3]))
    assert_allclose(loss(log_probs), value, rtol=1e-6)
    assert_allclose(jax.grad(loss)(log_probs), gradient, rtol=1e-6)


@over_all_losses
@pytest.mark.parametrize("seed", range(4))
def test_mask_is_the_same_as_physically_removing(loss, seed):
    log_probs, where = random_rows(seed)
    got = evaluate(loss, log_probs, where=where)
    assert_allclose(got.rows, expected_rows(loss, log_probs, where), rtol=1e-5)
    assert_array_equal(got.gradient[~where], 0.0)
    # Whatever stands in the padding, nothing changes.
    for filler in (7.0, 3e38, -3e38, -INF, INF, math.nan):
        other = evaluate(loss, np.where(where, log_probs, np.float32(filler)), where=where)
        assert_array_equal(other.rows, got.rows)
        assert_array_equal(other.gradient, got.gradient)


@over_all_losses
def test_rows_without_solution_cost_nothing_and_are_left_out_of_the_mean(loss):
    log_probs, where = random_rows(1)
    where[[0, 3, 5]] = False
    log_probs[0], log_probs[3] = math.nan, -INF
    got = evaluate(loss, log_probs, where=where)
    assert_array_equal(got.rows[[0, 3, 5]], 0.0)
    assert_array_equal(got.gradient[[0, 3, 5]], 0.0)
    assert_allclose(got.mean, expected_rows(loss, log_probs, where)[[1, 2, 4]].sum() / 3, rtol=1e-5)
    alone = evaluate(loss, log_probs[[1, 2, 4]], where=where[[1, 2, 4]])
    assert_allclose(got.gradient[[1, 2, 4]], alone.gradient, rtol=1e-6)


@over_all_losses
def test_a_batch_without_any_solution_costs_zero(loss):
    got = evaluate(loss, random_rows(2)[0], where=np.zeros(SHAPE, bool))
    assert got.mean == 0.0
    assert_array_equal(got.rows, np.zeros(SHAPE[0]))
    assert_array_equal(got.gradient, 0.0)


EXTREME = np.array(
    [
        [3e38, -3e38, 3e38, -3e38, 0.0],
        [-3e38, -3e38, -3e38, -3e38, -3e38],
        [-3e38, 3e38, -INF, -INF, -INF],
        [0.0, -INF, -1e-45, -3e38, -200.0],
        [-1000.0, -1001.0, -INF, -1002.0, -1000.0],
        [-INF, -1.0, -2.0, -3.0, -INF],
    ],
    np.float32,
)


@over_all_losses
def test_extreme_scores_cost_what_the_formula_says_and_gradients_stay_finite(loss):
    with np.errstate(over="ignore"):
        expected = expected_rows(loss, EXTREME, np.ones(SHAPE, bool)).astype(np.float32)
    got = evaluate(loss, EXTREME, where=np.ones(SHAPE, bool))
    assert_allclose(got.rows, expected, rtol=1e-6)
    assert np.isfinite(got.gradient).all()


@over_all_losses
def test_a_row_of_impossible_solutions_costs_inf_and_sends_no_gradient(loss):
    log_probs, where = random_rows(3)
    log_probs[2], where[2] = -INF, True
    got = evaluate(loss, log_probs, where=where)
    assert got.rows[2] == INF and got.mean == INF
    assert_array_equal(got.gradient[2], 0.0)
    # The other rows go on learning as if nothing had happened.
    alone = evaluate(loss, log_probs, where=where & (np.arange(6) != 2)[:, None])
    assert_allclose(6 * got.gradient, 5 * alone.gradient, rtol=1e-6)


@over_all_losses
def test_nan_in_a_solution_reaches_the_loss_and_no_other_row(loss):
    log_probs, where = random_rows(5)
    where[:, :2] = True
    log_probs[0, 0] = math.nan
    if loss.sees_all:
        log_probs[1] = -INF
        log_probs[1, 4], where[1, 4] = math.nan, True
    got = evaluate(loss, log_probs, where=where)
    assert_array_equal(np.isnan(got.rows), [True, loss.sees_all] + 4 * [False])
    assert np.isnan(got.mean)
    assert np.isfinite(got.gradient[2:]).all()


@pytest.mark.parametrize("filler", [math.nan, INF])
def test_a_solution_without_weight_does_not_enter_whatever_its_score(filler):
    log_probs = jnp.array([-1.0, filler])
    assert first_only_loss(log_probs) == 1.0
    assert_array_equal(jax.grad(first_only_loss)(log_probs), [-1.0, 0.0])


@over_all_losses
def test_reductions_agree_with_each_other(loss):
    log_probs, where = random_rows(6)
    where[4] = False
    got = evaluate(loss, log_probs, where=where)
    summed = jax.value_and_grad(lambda x: loss(x, where=where, reduce_fn=jnp.sum))
    total, gradient = jax.jit(summed)(log_probs)
    assert got.rows.shape == (6,) and got.mean.shape == total.shape == ()
    assert_allclose(total, got.rows.sum(), rtol=1e-6)
    assert_allclose(got.mean, total / 5, rtol=1e-6)
    assert_allclose(got.gradient, gradient / 5, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", [x for x in ALL_LOSSES if x.formula is hard_em], ids=str)
def test_hard_em_sends_its_gradient_to_the_first_among_ties_alone(loss):
    log_probs = np.full(SHAPE, -2.0, np.float32)
    log_probs[3, 1] = log_probs[3, 4] = -1.0
    where = np.ones(SHAPE, bool)
    where[1, 0] = where[2, :3] = False
    got = evaluate(loss, log_probs, where=where)
    assert_allclose(6 * got.gradient, -np.eye(5)[[0, 1, 3, 1, 0, 0]], rtol=1e-6)


@pytest.mark.parametrize(
    "posterior, loss", [(hard, "hard_em"), (soft, "mml"), (first, "first_only")]
)
@pytest.mark.parametrize("table", ["random", "extreme", "ties"])
def test_em_loss_has_the_gradient_of_the_named_loss(posterior, loss, table):
    log_probs, where = random_rows(10)
    if table == "extreme":
        log_probs, where = EXTREME, np.ones(SHAPE, bool)
    if table == "ties":
        log_probs = np.full(SHAPE, -2.0, np.float32)
    by_name = {case.name: case for case in ALL_LOSSES}
    em = evaluate(by_name[f"em_{posterior.__name__}"], log_probs, where=where)
    named = evaluate(by_name[loss], log_probs, where=where)
    assert_allclose(em.gradient, named.gradient, rtol=1e-5)
    if posterior is not soft:
        assert_allclose(em.rows, named.rows, rtol=1e-6)
