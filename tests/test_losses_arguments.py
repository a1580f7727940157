"""What may be passed to a loss, what is refused, and what tells a caller that input is wrong."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hardem_jax.loss_variants import thresholded_loss
from hardem_jax.losses import check_log_probs, hard_em_loss, has_solution, mean_over
from tests.loss_cases import (
    ALL_LOSSES,
    Loss,
    hard_em,
    nothing_implicit,
    options,
    over_all_losses,
    random_rows,
)

THRESHOLDED = Loss("thresholded", options(thresholded_loss, threshold=0.2), hard_em)


def test_a_mask_of_any_dtype_is_its_truth():
    log_probs, where = random_rows(30)
    where[2] = False
    expected = hard_em_loss(log_probs, where=where, reduce_fn=None)
    for true, false in ((0.5, 0.0), (2, 0), (np.uint8(255), np.uint8(0)), (-1, 0)):
        got = hard_em_loss(log_probs, where=np.where(where, true, false), reduce_fn=None)
        assert_array_equal(got, expected)


@pytest.mark.parametrize("loss", [*ALL_LOSSES, THRESHOLDED], ids=repr)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_neither_dtype_nor_rank_is_promoted_implicitly(loss, dtype):
    log_probs, where = (jnp.asarray(x) for x in random_rows(33))
    ragged = {"segment_ids": jnp.repeat(jnp.arange(6), 5), "num_segments": 6}
    x = log_probs.astype(dtype)
    with nothing_implicit():  # traced only: that is where it would raise
        for scores, rows in ((x, {"where": where}), (x.ravel(), ragged)):
            jax.eval_shape(jax.grad(lambda x, rows=rows: loss(x, log_weights=x, **rows)), scores)
            jax.eval_shape(lambda x, rows=rows: loss(x, reduce_fn=None, **rows), scores)
        mean = functools.partial(loss, reduce_fn=mean_over("devices"))
        jax.eval_shape(jax.vmap(mean, axis_name="devices"), x)


@over_all_losses
def test_lists_and_numpy_arrays_are_arrays(loss):
    log_probs, where = random_rows(33)
    expected = loss(jnp.asarray(log_probs), where=jnp.asarray(where))
    assert_array_equal(loss(log_probs, where=where), expected)
    assert_array_equal(loss(log_probs.tolist(), where=where.tolist()), expected)
    assert_array_equal(loss(log_probs.astype(np.float64), where=where), expected)
    assert loss([[-1, -2], [-3, -4]]).dtype == jnp.float32
    ragged = {"segment_ids": np.array([0, 1, 0], np.uint8), "num_segments": np.int64(2)}
    expected = loss(jnp.array([[-1.0, -2.0], [-0.5, 0]]), where=jnp.array([[1, 1], [1, 0]]))
    assert_allclose(loss([-1.0, -0.5, -2.0], **ragged), expected, rtol=1e-6)
    assert loss([], segment_ids=[], num_segments=2) == 0.0


ZEROS = {"log_probs": np.zeros(3), "segment_ids": np.array([0, 1, 1]), "num_segments": 2}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"log_probs": np.zeros((2, 3), complex)}, TypeError, "log_probs must be real numbers"),
        ({"where": np.ones(3, complex)}, TypeError, "where must be real numbers, got complex64"),
        ({"where": np.ones(2)}, ValueError, r"where must have log_probs' shape \(3,\), got \(2,\)"),
        ({"log_weights": np.ones(2)}, ValueError, r"log_weights must have log_probs' shape \(3,\)"),
        ({"segment_ids": np.zeros(3)}, TypeError, "segment_ids must be integers, got float32"),
        ({"segment_ids": np.zeros(2, int)}, ValueError, r"segment_ids must have .* got \(2,\)"),
        ({"segment_ids": None}, ValueError, "both segment_ids and num_segments"),
        ({"num_segments": None}, ValueError, "both segment_ids and num_segments"),
        ({"num_segments": 2.0}, TypeError, r"num_segments must be a Python int .*, got 2\.0"),
        ({"num_segments": -1}, ValueError, "num_segments must be at least 0, got -1"),
        (
            {"log_probs": np.zeros((2, 3)), "segment_ids": np.zeros((2, 3), int)},
            *(ValueError, r"ragged log_probs must be \[N\], got \(2, 3\)"),
        ),
        ({"log_probs": -1.0}, ValueError, "at least one axis"),
    ],
    ids=str,
)
def test_arguments_that_make_no_sense_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        hard_em_loss(**(ZEROS | arguments))


@over_all_losses
def test_reduce_fn_gets_the_rows_that_have_a_solution_and_no_others(loss):
    log_probs, where = random_rows(34)
    where[[1, 4]] = False
    for mask in where, np.zeros_like(where):
        rows = loss(log_probs, where=mask, reduce_fn=lambda values, where: where)
        assert rows.dtype == bool
        assert_array_equal(rows, mask.any(-1))
        assert loss(log_probs, where=mask, reduce_fn=jnp.sum) >= 0.0


def test_has_solution_says_which_values_count():
    log_probs, where = random_rows(35)
    where[[0, 3]] = False
    log_probs[1], where[1] = -math.inf, True
    values = hard_em_loss(log_probs, where=where, reduce_fn=None)
    counted = has_solution(log_probs, where=where)
    assert_array_equal(counted, [False, True, True, False, True, True])
    assert_array_equal(values[~counted], 0.0)
    finite = np.asarray(counted) & (np.arange(6) != 1)
    mean = hard_em_loss(log_probs, where=where & finite[:, None])
    assert_allclose(mean, values[finite].sum() / 3, rtol=1e-6)
    ragged = has_solution([-1.0, -2.0], segment_ids=[2, 3], num_segments=3)
    assert_array_equal(ragged, [False, False, True])


GOOD = np.log(np.array([[0.25, 0.75, 0.5], [0.125, 0.125, 0.25]], np.float32))
ALL_BUT_ONE = np.array([[True, True, False], [True, True, True]])


def test_log_probs_of_distinct_solutions_pass():
    check_log_probs(GOOD, where=ALL_BUT_ONE)
    check_log_probs(jnp.asarray(GOOD, jnp.bfloat16), where=ALL_BUT_ONE)
    check_log_probs(np.full((2, 3), -np.inf))
    check_log_probs(np.zeros((0, 3)))
    check_log_probs(GOOD.ravel(), segment_ids=[0, 0, 1, 2, 2, 2], num_segments=3)
    check_log_probs(np.full((2, 3), np.nan), where=np.zeros((2, 3), bool))
    jax.block_until_ready(jax.jit(lambda x: check_log_probs(x, where=ALL_BUT_ONE))(GOOD))
    jax.effects_barrier()


FAULTS = {
    "nan": (np.where(np.eye(2, 3), np.nan, GOOD), "row 0: NaN among the log-probs"),
    "logits": (GOOD + 3.0, r"row 0: a log-prob of 2\.71\d, above 0; are these logits"),
    "probabilities": (np.exp(GOOD), r"row 0: a log-prob of 0\.75, above 0; .* probabilities"),
    "sum": (GOOD + [[0.0], [0.72]], r"row 1: probabilities sum to 1\.02\d; are there duplicates"),
}


@pytest.mark.parametrize("log_probs, message", FAULTS.values(), ids=FAULTS)
def test_what_cannot_be_log_probs_is_named(log_probs, message):
    log_probs = np.asarray(log_probs, np.float32)
    with pytest.raises(ValueError, match=message):
        check_log_probs(log_probs, where=ALL_BUT_ONE)
    ragged = {"segment_ids": np.repeat([0, 1], 3), "num_segments": 2}
    with pytest.raises(ValueError, match=message):
        check_log_probs(log_probs.ravel(), where=ALL_BUT_ONE.ravel(), **ragged)
    with pytest.raises(Exception, match=message):  # JAX's runtime error, with ours inside
        jax.jit(lambda x: check_log_probs(x, where=ALL_BUT_ONE))(log_probs)
        jax.effects_barrier()
