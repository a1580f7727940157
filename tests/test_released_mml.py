"""The released MML: a soft maximum of costs, in both layouts, with the contract of the losses."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from hardem_jax.loss_variants import released_mml_loss
from hardem_jax.losses import mml_loss
from tests.loss_cases import INF, Loss, evaluate, expected_rows, random_rows


def soft_maximum(row: list[float]) -> float:
    costs = [-score for score in row]
    top = max(costs)
    if math.isinf(top):
        return top
    return top + math.log(math.fsum(math.exp(cost - top) for cost in costs))


RELEASED = Loss("released", released_mml_loss, soft_maximum)


def test_weights_of_the_release_and_of_mml():
    nll = jnp.array([1.0, 2.0, 4.0, 8.0])
    e = np.exp(np.asarray(nll, float))
    released, right = jax.grad(released_mml_loss)(-nll), jax.grad(mml_loss)(-nll)
    assert_allclose(released, -e / e.sum(), rtol=1e-5)
    assert_allclose(released, [-0.001, -0.002, -0.018, -0.979], atol=5e-4)
    assert_allclose(right, [-0.705, -0.259, -0.035, -0.001], atol=5e-4)


def test_value_mask_and_impossible_solutions():
    log_probs, where = random_rows(0)
    where[1] = False  # costs 0, left out of the mean
    log_probs[2, 0], where[2, 0] = -INF, True  # one impossible solution is enough for +inf
    log_probs[3], where[3] = -INF, True
    log_probs[4], where[4] = [3e38, -3e38, 0.0, -1e-45, 5.0], True
    log_probs[~where] = math.nan
    got = evaluate(RELEASED, log_probs, where=where)
    assert_allclose(got.rows, expected_rows(RELEASED, log_probs, where), rtol=1e-5)
    assert_array_equal(got.rows[1:4], [0.0, INF, INF])
    assert_array_equal(got.gradient[1:4], 0.0)
    assert_array_equal(got.gradient[~where], 0.0)
    assert np.isfinite(got.gradient).all()
    finite = where & ~np.isin(np.arange(6), [1, 2, 3])[:, None]
    alone = evaluate(RELEASED, log_probs, where=finite)
    # float64 keeps the sum of a 3e38 and the rest; three rows are left to take the mean of.
    assert_allclose(alone.mean, expected_rows(RELEASED, log_probs, finite).sum() / 3, rtol=1e-5)


def test_an_impossible_solution_hides_no_nan():
    assert jnp.isnan(released_mml_loss(jnp.array([math.nan, -INF])))
