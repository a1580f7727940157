"""Mistakes that published code on this task has made, each kept out by a test of its name."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from numpy.testing import assert_allclose, assert_array_equal

from hardem_jax import (
    HardEM,
    annealed_loss,
    em_loss,
    first_only_loss,
    hard_em_loss,
    mml_loss,
    posteriors,
)
from hardem_jax.losses import hard_probability
from tests.marks import slow

LOSSES = [hard_em_loss, mml_loss, first_only_loss]


def test_mml_pulls_at_the_likely_solution_not_at_the_unlikely_one():
    nll = np.array([1.0, 2.0, 4.0, 8.0])
    gradient = jax.grad(mml_loss)(-jnp.asarray(nll, jnp.float32))
    assert_allclose(gradient, -np.exp(-nll) / np.exp(-nll).sum(), rtol=1e-5)
    assert np.argmin(gradient) == 0


def test_mml_falls_when_a_solution_grows_likelier():
    low, high = jnp.log(jnp.array([[0.1, 0.2], [0.1, 0.3]]))
    assert mml_loss(high) < mml_loss(low)


@pytest.mark.parametrize("loss", [hard_em_loss, mml_loss])
def test_a_solution_of_loss_zero_is_a_solution_not_padding(loss):
    # Learnt perfectly: log P = 0, where "loss == 0" was once taken for padding.
    log_probs = jnp.array([[-5.0, 0.0], [-5.0, -0.0]])
    assert_allclose(loss(log_probs, reduce_fn=None), [loss(log_probs[0])] * 2)
    assert loss(log_probs) <= 0.0
    assert_allclose(jax.grad(loss)(log_probs[0])[1], -1.0, atol=0.01)
    assert_array_equal(loss(jnp.zeros((1, 1)), reduce_fn=None), [0.0])
    assert_array_equal(jax.grad(loss)(jnp.zeros((1, 1))), [[-1.0]])


def test_mml_of_very_unlikely_solutions_does_not_underflow():
    # exp(-104) is 0 in float32: without the shift this would be -log 0.
    assert_allclose(mml_loss(jnp.array([-500.0, -500.0])), 500.0 - math.log(2), rtol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_row_without_solutions_neither_costs_inf_nor_dilutes_the_mean(loss):
    log_probs = jnp.log(jnp.array([[0.25, 0.25], [0.5, 0.5]]))
    where = jnp.array([[True, False], [False, False]])
    assert_allclose(loss(log_probs, where=where), -math.log(0.25), rtol=1e-6)
    assert_array_equal(jax.grad(loss)(log_probs, where=where), [[-1.0, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize("loss", LOSSES)
def test_a_row_of_impossible_solutions_is_not_silently_free(loss):
    assert loss(jnp.array([[-jnp.inf, -jnp.inf], [-1.0, -1.0]])) == jnp.inf


@pytest.mark.parametrize("loss", LOSSES)
def test_a_where_around_a_bad_branch_does_not_leak_nan_into_gradients(loss):
    log_probs = jnp.array([[-jnp.inf, -jnp.inf], [jnp.nan, jnp.nan], [-1.0, -jnp.inf]])
    where = jnp.array([[True, True], [False, False], [True, True]])
    gradient = jax.grad(loss)(log_probs, where=where)
    assert_array_equal(gradient, [[0.0, 0.0], [0.0, 0.0], [-0.5, 0.0]])


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_without_a_possible_solution_do_not_trip_the_debugger_for_nan(loss):
    log_probs = jnp.array([[-jnp.inf, -jnp.inf], [-1.0, -2.0], [-1.0, -jnp.inf]])
    where = jnp.array([[True, True], [False, False], [True, True]])
    with jax.debug_nans(True):
        gradient = jax.grad(loss)(log_probs, where=where)
    assert jnp.all(jnp.isfinite(gradient))


def test_replicas_do_not_draw_their_own_objective():
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    log_probs = jax.device_put(jnp.log(jnp.full((8, 2), 0.25)), sharding)
    steps = jax.jit(lambda x, key: annealed_loss(x, step=1, key=key, tau=2, reduce_fn=None))
    drawn = {tuple(np.asarray(steps(log_probs, jax.random.key(i))).tolist()) for i in range(8)}
    assert len(drawn) == 2  # over eight steps both objectives, ...
    assert all(len(set(rows)) == 1 for rows in drawn)  # ... in each step only one


def test_annealing_runs_from_mml_to_hard_em_and_the_cap_is_a_choice():
    assert hard_probability(0, tau=100) == 0.0
    assert hard_probability(100, tau=100) == 1.0
    assert_allclose(hard_probability(10**6, tau=100, cap=0.8), 0.8)


@pytest.mark.parametrize("tau", [None, 0])
def test_no_annealing_is_reachable_and_divides_by_nothing(tau):
    log_probs, key = jnp.log(jnp.array([0.25, 0.25])), jax.random.key(0)
    for step in (0, 10**6):
        got = jax.value_and_grad(HardEM(tau=tau), has_aux=True)(log_probs, step=step, key=key)
        assert_allclose(got[0][0], -math.log(0.25), rtol=1e-6)
        assert_array_equal(got[1], [-1.0, 0.0])


def test_the_mean_is_over_rows_so_that_the_learning_rate_does_not_depend_on_batch_size():
    row = jnp.log(jnp.array([[0.25, 0.5]]))
    for loss in LOSSES:
        assert_allclose(loss(jnp.tile(row, (8, 1))), loss(row), rtol=1e-6)
        assert_allclose(loss(jnp.tile(row, (8, 1)), reduce_fn=jnp.sum), 8 * loss(row), rtol=1e-6)


def test_a_duplicate_in_the_solution_set_biases_mml_but_neither_hard_em_nor_its_gradient():
    once, twice = jnp.log(jnp.array([0.4, 0.3])), jnp.log(jnp.array([0.4, 0.3, 0.3]))
    assert hard_em_loss(once) == hard_em_loss(twice)
    assert_array_equal(jax.grad(hard_em_loss)(twice), [-1.0, 0.0, 0.0])
    # The same solution twice counts twice: duplicates must be removed when Z is built.
    assert_allclose(mml_loss(twice), -math.log(0.4 + 0.3 + 0.3), rtol=1e-5, atol=1e-6)


def test_tied_spans_get_one_answer_not_half_an_answer_each():
    gradient = jax.grad(hard_em_loss)(jnp.log(jnp.full(4, 0.25)))
    assert_array_equal(gradient, [-1.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("layout", ["padded", *slow("ragged")])
def test_no_solution_is_cut_off_however_many_there_are(layout):
    # The likeliest stands last, where a limit on mentions in document order would drop it.
    log_probs = jnp.linspace(-9.0, -1.0, 5_000)
    rows = {"segment_ids": jnp.zeros(5_000, int), "num_segments": 1} if layout == "ragged" else {}
    assert hard_em_loss(log_probs, **rows) == 1.0
    gradient = jax.grad(hard_em_loss)(log_probs, **rows)
    assert gradient[-1] == -1.0 and jnp.count_nonzero(gradient) == 1
    exact = np.logaddexp.reduce(np.linspace(-9.0, -1.0, 5_000))
    assert_allclose(mml_loss(log_probs, **rows), -exact, rtol=1e-5)


def test_solutions_that_tie_in_bfloat16_are_told_apart_in_float32():
    log_probs = jnp.array([-3.001, -3.0, -3.002])
    assert (log_probs.astype(jnp.bfloat16) == -3.0).all()
    assert_array_equal(jax.grad(hard_em_loss)(log_probs), [0.0, -1.0, 0.0])


def test_sums_over_bfloat16_input_are_made_in_float32():
    # A bfloat16 sum of ones sticks at 256.
    log_probs = jnp.zeros(3_000, jnp.bfloat16)
    assert mml_loss(log_probs).dtype == jnp.float32
    assert_allclose(mml_loss(log_probs), -math.log(3_000), rtol=1e-6)


def float_equalities(jaxpr):
    """Comparisons for equality of two arrays of floats, inner functions included."""
    for equation in jaxpr.eqns:
        if equation.primitive.name in ("eq", "ne"):
            left, right = equation.invars
            floats = jnp.issubdtype(left.aval.dtype, jnp.floating)
            # With a constant, or with itself (which NaN fails), is no question of rounding.
            if floats and left.aval.shape == right.aval.shape != () and left is not right:
                yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from float_equalities(inner)


def em_with_hard_posterior(log_probs, **rows):
    return em_loss(log_probs, posteriors.hard, **rows)


@pytest.mark.parametrize(
    ("loss", "ragged"), [*itertools.product([*LOSSES, em_with_hard_posterior], (False, True))]
)
def test_no_solution_is_chosen_by_equality_of_floats(loss, ragged):
    # XLA may compute both sides on its own and round them differently: then none is equal, and
    # the question costs nothing and teaches nothing (jax issue 40564).
    layout = {"segment_ids": jnp.arange(6) // 2, "num_segments": 3} if ragged else {}
    program = jax.make_jaxpr(jax.value_and_grad(lambda x: loss(x, **layout)))
    log_probs = jnp.zeros(6) if ragged else jnp.zeros((3, 2))
    assert not list(float_equalities(program(log_probs).jaxpr))
