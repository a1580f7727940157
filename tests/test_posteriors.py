"""Every posterior: rows sum to 1 or are 0, and the bridges between them."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hardem_jax.posteriors import Annealed, Sampled, Tempered, TopK, at, first, hard, soft, uniform
from tests.loss_cases import random_rows, shuffled_ragged

POSTERIORS = {"hard": hard, "first": first, "soft": soft, "uniform": uniform}
POSTERIORS |= {f"tempered({power})": Tempered(float(power)) for power in ("0.5", "1e6")}
POSTERIORS |= {f"top_k({k})": TopK(k) for k in (1, 3, 9)}
POSTERIORS |= {"annealed": Annealed(tau=100).at(50, None)}
COMPILED = {name: jax.jit(posterior) for name, posterior in POSTERIORS.items()}
RAGGED = {name: jax.jit(x, static_argnames="num_segments") for name, x in POSTERIORS.items()}
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
    rows, unravel = shuffled_ragged(0, log_probs, where)
    ragged = np.asarray(RAGGED[name](rows.pop("log_probs"), **rows))
    assert_allclose(unravel(ragged), weights(name, log_probs, where), rtol=1e-6)
    assert_array_equal(ragged[[0, 1, -1]], 0.0)


@over_all_posteriors
def test_room_for_no_solution_at_all(name):
    assert weights(name, np.zeros((3, 0), np.float32)).shape == (3, 0)
    none = POSTERIORS[name](jnp.zeros(0), segment_ids=jnp.zeros(0, int), num_segments=3)
    assert none.shape == (0,)


@over_all_posteriors
def test_nan_is_not_hidden(name):
    got = weights(name, np.array([[math.nan, -1.0, -2.0, -3.0, -4.0]], np.float32))[0]
    # Either the weights are NaN, or all of the weight is on the NaN.
    assert math.isnan(got[0]) or got[0] == 1.0


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


def test_bridges_between_posteriors():
    log_probs, where = rows_with_every_difficulty()
    assert_array_equal(weights("top_k(1)", log_probs, where), weights("hard", log_probs, where))
    assert_allclose(weights("top_k(9)", log_probs, where), weights("soft", log_probs, where))
    assert_allclose(Tempered(1.0)(log_probs, where=where), weights("soft", log_probs, where))
    untied = np.delete(log_probs, [3, 4, 5], 0), np.delete(where, [3, 4, 5], 0)
    assert_allclose(weights("tempered(1e6)", *untied), weights("hard", *untied), atol=1e-6)


def test_annealed_goes_geometrically_from_start_to_end():
    posterior = Annealed(tau=100, start=0.25, end=4.0)
    log_probs = np.log(np.array([[0.1, 0.4, 0.2]], np.float32))
    for step, beta in (0, 0.25), (25, 0.5), (50, 1.0), (100, 4.0), (1000, 4.0):
        got = jax.jit(lambda step: posterior.at(step, None)(log_probs))(step)
        assert_allclose(got, Tempered(beta)(log_probs), rtol=1e-5)


@pytest.mark.parametrize("beta", [0.0, 1.0, 2.0])
def test_draws_have_the_tempered_frequencies(beta):
    repeats = 20_000
    log_probs = np.log(np.array([0.1, 0.4, 0.2, 0.3], np.float32))
    where = np.array([True, True, True, False])
    posterior = Sampled(beta).at(0, jax.random.key(0))
    drawn = posterior(np.tile(log_probs, (repeats, 1)), where=np.tile(where, (repeats, 1)))
    assert set(np.unique(drawn)) == {0.0, 1.0}
    expected = np.asarray(Tempered(beta)(log_probs, where=where))
    four_deviations = 4 * np.sqrt(expected * (1 - expected) / repeats)
    assert (np.abs(drawn.mean(0) - expected) <= four_deviations + 1e-6).all()


def test_draws_follow_the_key_and_leave_out_what_is_impossible(request):
    log_probs, where = rows_with_every_difficulty()
    one, again, other = (
        np.asarray(Sampled().at(7, jax.random.key(seed))(log_probs, where=where))
        for seed in (0, 0, 1)
    )
    assert_array_equal(one, again)
    assert (one != other).any()
    assert_array_equal(one.sum(-1), [1, 0, 0, 1, 1, 1, 1, 1])
    assert_array_equal(one[~where | (log_probs == -math.inf)], 0.0)
    ragged = {"segment_ids": np.nonzero(where)[0], "num_segments": 8}
    drawn = np.asarray(Sampled().at(0, jax.random.key(0))(log_probs[where], **ragged))
    assert_array_equal(np.bincount(ragged["segment_ids"], drawn, 8), one.sum(-1))
    request.getfixturevalue("x64")
    assert_array_equal(one, Sampled().at(7, jax.random.key(0))(log_probs, where=where))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_posterior_that_draws_chooses_nan(place):
    log_probs = np.log(np.array([[0.2, 0.3, 0.4]] * 3, np.float32))
    log_probs[1, place] = math.nan
    got = Sampled().at(0, jax.random.key(0))(log_probs)
    assert_array_equal(got[1], np.arange(3) == place)
    assert_array_equal(got.sum(-1), 1)


def test_at_gives_the_posterior_of_a_step():
    assert at(soft, 3, jax.random.key(0)) is soft and at(TopK(2), 0, None) == TopK(2)
    log_probs = np.log(np.array([[0.1, 0.3]], np.float32))
    assert_allclose(at(Annealed(tau=10), 0, None)(log_probs), soft(log_probs), rtol=1e-6)
