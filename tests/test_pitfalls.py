"""Mistakes that published code has made, besides those that the tests of losses rule out."""

import itertools

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import jaxprs_in_params

from hardem_jax import em_loss, first_only_loss, hard_em_loss, mml_loss, posteriors

LOSSES = [hard_em_loss, mml_loss, first_only_loss]


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_without_a_possible_solution_do_not_trip_the_debugger_for_nan(loss):
    log_probs = jnp.array([[-jnp.inf, -jnp.inf], [-1.0, -2.0], [-1.0, -jnp.inf]])
    where = jnp.array([[True, True], [False, False], [True, True]])
    with jax.debug_nans(True):
        gradient = jax.grad(loss)(log_probs, where=where)
    assert jnp.all(jnp.isfinite(gradient))


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
    assert not list(float_equalities(program(jnp.zeros(6) if ragged else jnp.zeros((3, 2))).jaxpr))
