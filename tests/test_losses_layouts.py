"""One value and one gradient, however the solutions are laid out, compiled, cast or placed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify
from numpy.testing import assert_allclose, assert_array_equal

from hardem_jax.losses import hard_em_loss
from tests.loss_cases import (
    ALL_LOSSES,
    INF,
    PAPER_LOSSES,
    evaluate,
    over_all_losses,
    random_rows,
    shuffled_ragged,
)
from tests.marks import slow


@over_all_losses
@pytest.mark.parametrize("seed", range(3))
def test_ragged_is_padded_in_value_and_gradient(loss, seed):
    log_probs, where = random_rows(seed)
    where[2] = False  # an empty row
    log_probs[3], where[3] = -INF, True  # a hopeless one
    log_probs[4] = log_probs[4, 0]  # ties
    log_probs[5, 2] = -INF
    padded = evaluate(loss, log_probs, where=where)
    ragged_rows, unravel = shuffled_ragged(seed, log_probs, where)
    ragged = evaluate(loss, **ragged_rows)
    assert_allclose(ragged.rows, padded.rows, rtol=1e-6, atol=1e-6)
    assert_allclose(ragged.mean, padded.mean, rtol=1e-6)
    assert_allclose(unravel(ragged.gradient), padded.gradient, rtol=1e-5, atol=1e-7)
    assert_array_equal(ragged.gradient[[0, 1, -1]], 0.0)


@over_all_losses
@pytest.mark.parametrize("num_segments", [2, 0])
def test_checkify_does_not_object_to_ids_of_padding(loss, num_segments):
    rows = {"segment_ids": np.array([-1, 0, 1, 0, 2, 7], np.int32), "num_segments": num_segments}
    gradient = jax.grad(lambda x: loss(x, **rows))
    checked = jax.jit(checkify.checkify(gradient, errors=checkify.all_checks))
    error, _ = checked(jnp.arange(-6.0, 0.0))
    error.throw()


@over_all_losses
def test_leading_axes_are_batch(loss):
    log_probs, where = random_rows(11)
    flat = evaluate(loss, log_probs, where=where)
    got = evaluate(loss, log_probs.reshape(3, 2, 5), where=where.reshape(3, 2, 5))
    assert_allclose(got.rows, flat.rows.reshape(3, 2), rtol=1e-6, atol=1e-6)
    assert_allclose(got.mean, flat.mean, rtol=1e-6)
    assert_allclose(got.gradient, flat.gradient.reshape(3, 2, 5), rtol=1e-5, atol=1e-8)


@over_all_losses
@pytest.mark.parametrize(("shape", "rows"), [((4, 0), 4), ((0,), 3), ((0,), 0), ((3,), 0)])
def test_room_for_no_solution_or_no_row_costs_nothing(loss, shape, rows):
    """The last has three solutions, but all are padding: no row of that number exists."""
    given = {"where": np.ones(shape, bool)}
    if len(shape) == 1:
        given |= {"segment_ids": np.arange(*shape, dtype=np.int32), "num_segments": rows}
    got = evaluate(loss, np.full(shape, -1.0, np.float32), **given)
    assert_array_equal(got.rows, np.zeros(rows))
    assert got.mean == 0.0
    assert_array_equal(got.gradient, np.zeros(shape))


def test_vmap_over_the_ragged_layout():
    log_probs, _ = random_rows(13, (2, 5))
    segment_ids = jnp.array([[0, 1, 0, 2, 2], [2, 2, 1, 0, 0]])

    def rows(log_probs, segment_ids):
        return hard_em_loss(log_probs, segment_ids=segment_ids, num_segments=3, reduce_fn=None)

    got = jax.jit(jax.vmap(rows))(log_probs, segment_ids)
    a, b = -log_probs
    expected = [[min(a[0], a[2]), a[1], min(a[3], a[4])], [min(b[3], b[4]), b[2], min(b[0], b[1])]]
    assert_array_equal(got, expected)


@pytest.mark.parametrize(
    "loss, dtype",
    [
        *((x, jnp.bfloat16) for x in PAPER_LOSSES),
        *slow(*((x, jnp.bfloat16) for x in ALL_LOSSES[3:])),
        *slow(*((x, jnp.float16) for x in PAPER_LOSSES)),
    ],
)
def test_low_precision_is_float32_on_the_rounded_input(loss, dtype):
    log_probs, where = random_rows(14)
    rounded = jnp.asarray(log_probs, dtype)
    low = evaluate(loss, rounded, where=where)
    full = evaluate(loss, np.asarray(rounded, np.float32), where=where)
    assert low.rows.dtype == low.mean.dtype == np.float32
    assert_allclose(low.rows, full.rows, rtol=1e-6, atol=1e-6)
    assert_allclose(low.mean, full.mean, rtol=1e-6)
    assert low.gradient.dtype == dtype
    gradients = [x.gradient.astype(np.float32) for x in (low, full)]
    assert_allclose(*gradients, rtol=float(jnp.finfo(dtype).eps))


@over_all_losses
def test_nan_in_a_ragged_solution_reaches_its_row_alone(loss):
    log_probs = np.array([np.nan, -1.0, -2.0, np.nan], np.float32)
    got = evaluate(
        loss,
        log_probs,
        where=np.array([True, True, True, False]),
        segment_ids=np.array([0, 0, 1, 1], np.int32),
        num_segments=2,
    )
    assert_array_equal(np.isnan(got.rows), [True, False])
    assert got.gradient[3] == 0.0 and np.isfinite(got.gradient[2])
