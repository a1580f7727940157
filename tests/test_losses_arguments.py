"""What may be passed to a loss, what is refused, and what tells a caller that input is wrong."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hardem_jax.loss_variants import released_mml_loss, thresholded_loss
from hardem_jax.losses import check_log_probs, hard_em_loss, has_solution, mean_over, mml_loss
from tests.loss_cases import (
    ALL_LOSSES,
    Loss,
    evaluate,
    hard_em,
    nothing_implicit,
    options,
    over_all_losses,
    random_rows,
)
from tests.marks import slow

RELEASED = Loss("released", released_mml_loss, hard_em)
THRESHOLDED = Loss("thresholded", options(thresholded_loss, threshold=0.2), hard_em)

MASKS = {
    "float": lambda mask: np.where(mask, np.float32(0.5), np.float32(0.0)),
    "int": lambda mask: np.where(mask, 2, 0),
    "uint8": lambda mask: np.where(mask, np.uint8(255), np.uint8(0)),
    "negative": lambda mask: np.where(mask, -1, 0),
}
over_all_masks = pytest.mark.parametrize("mask", ["float", *slow("int", "uint8", "negative")])


@over_all_losses
@over_all_masks
@pytest.mark.parametrize("ragged", [False, True], ids=["padded", "ragged"])
def test_a_mask_of_any_dtype_is_its_truth(loss, mask, ragged):
    log_probs, where = random_rows(30)
    where[2], rows = False, {}
    if ragged:
        log_probs, where = log_probs.ravel(), where.ravel()
        rows = {"segment_ids": np.repeat(np.arange(6), 5)[::-1].copy(), "num_segments": 6}
    expected = evaluate(loss, log_probs, where=where, **rows)
    got = evaluate(loss, log_probs, where=MASKS[mask](where), **rows)
    assert_array_equal(got.rows, expected.rows)
    assert_array_equal(got.mean, expected.mean)
    assert_array_equal(got.gradient, expected.gradient)


@pytest.mark.parametrize("loss", [*ALL_LOSSES, RELEASED, THRESHOLDED], ids=repr)
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


@over_all_losses
def test_ragged_lists_and_numpy_arrays_are_arrays(loss):
    log_probs, rows = [-1.0, -0.5, -2.0], [0, 1, 0]
    expected = loss(jnp.array(log_probs), segment_ids=jnp.array(rows), num_segments=2)
    assert_array_equal(loss(log_probs, segment_ids=rows, num_segments=2), expected)
    count = np.int64(2)
    got = loss(np.array(log_probs), segment_ids=np.array(rows, np.uint8), num_segments=count)
    assert_array_equal(got, expected)


@over_all_losses
def test_an_empty_list_is_a_ragged_batch_without_solutions(loss):
    assert loss([], segment_ids=[], num_segments=2) == 0.0


@over_all_losses
def test_a_misspelt_keyword_is_named(loss):
    with pytest.raises(TypeError, match="mask"):
        loss(jnp.zeros((2, 3)), mask=jnp.ones((2, 3), bool))


@over_all_losses
def test_complex_numbers_are_refused(loss):
    with pytest.raises(TypeError, match="log_probs must be real numbers, got complex64"):
        loss(jnp.zeros((2, 3), jnp.complex64))
    with pytest.raises(TypeError, match="where must be real numbers, got complex64"):
        loss(jnp.zeros((2, 3)), where=jnp.ones((2, 3), jnp.complex64))


@over_all_losses
def test_arguments_of_the_ragged_layout_that_make_no_sense_are_named(loss):
    log_probs, ids = jnp.zeros(3), jnp.array([0, 1, 1])
    with pytest.raises(TypeError, match="segment_ids must be integers, got float32"):
        loss(log_probs, segment_ids=ids.astype(jnp.float32), num_segments=2)
    with pytest.raises(TypeError, match=r"num_segments must be a Python int .*, got 2\.0"):
        loss(log_probs, segment_ids=ids, num_segments=2.0)
    with pytest.raises(TypeError, match="num_segments must be a Python int"):
        jax.jit(lambda n: loss(log_probs, segment_ids=ids, num_segments=n))(2)
    with pytest.raises(ValueError, match="num_segments must be at least 0, got -1"):
        loss(log_probs, segment_ids=ids, num_segments=-1)


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


def test_duplicates_count_as_often_as_they_are_listed_in_mml_only():
    four_times = jnp.log(jnp.full(4, 0.5))
    assert_allclose(mml_loss(four_times), math.log(0.5), rtol=1e-6)  # less than certainty costs
    assert_allclose(hard_em_loss(four_times), -math.log(0.5), rtol=1e-6)
    with pytest.raises(ValueError, match="probabilities sum to 2; are there duplicates in Z"):
        check_log_probs(four_times)


def test_a_softmax_over_z_alone_cannot_be_seen_and_costs_nothing():
    """As documented: rows that sum to 1 may also be those of a model that has learned."""
    over_z = jax.nn.log_softmax(jnp.array([[3.0, -1.0], [0.5, 2.0]]))
    check_log_probs(over_z)
    assert_allclose(mml_loss(over_z), 0.0, atol=1e-6)


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


@pytest.mark.parametrize("log_probs, message", FAULTS.values(), ids=FAULTS)
def test_it_is_named_inside_jit_too(log_probs, message):
    checked = jax.jit(lambda x: check_log_probs(x, where=ALL_BUT_ONE))
    with pytest.raises(Exception, match=message):  # JAX's runtime error, with ours inside
        checked(np.asarray(log_probs, np.float32))
        jax.effects_barrier()
