"""Losses over K draws, against expectations over all draws that there are."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax import sampled
from tests.loss_cases import nothing_implicit

#: A model of four solutions, the first two right; the last of them is the least likely.
LOGITS = np.array([0.3, -0.8, 0.9, 0.1])
RIGHT = np.array([True, True, False, False])
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum()
P = PROBS[RIGHT].sum()
#: d log P(z) / d logits of each z, and of log of the sum over right ones.
SCORES = np.eye(4) - PROBS
MML = (PROBS[RIGHT] / P) @ SCORES[RIGHT]


def expected_gradient(loss, draws):
    """-E[d loss / d logits] over all ``4 ** draws`` outcomes of K draws, each computed."""
    outcomes = np.array(list(itertools.product(range(4), repeat=draws)))

    @jax.jit
    @jax.vmap
    def gradient(chosen):
        def of_logits(logits):
            log_probs = jax.nn.log_softmax(logits)
            return loss(log_probs[chosen], jnp.asarray(RIGHT)[chosen], log_probs)

        return -jax.grad(of_logits)(jnp.asarray(LOGITS, jnp.float32))

    return PROBS[outcomes].prod(axis=1) @ np.asarray(gradient(outcomes), float)


@pytest.mark.parametrize("draws", [1, 2, 4])
def test_reinforce_is_unbiased_for_the_expected_reward(draws):
    def loss(log_probs, right, _):
        return sampled.reinforce_loss(log_probs, right.astype(jnp.float32))

    np.testing.assert_allclose(expected_gradient(loss, draws), P * MML, atol=1e-5)


@pytest.mark.parametrize("control_variate", [True, False])
@pytest.mark.parametrize("draws", [1, 2, 4])
def test_trice_is_unbiased_for_mml_if_memory_is_a_draw_from_the_posterior(draws, control_variate):
    found = 0.0
    for kept in 0, 1:

        def loss(log_probs, right, all_log_probs, kept=kept):
            return sampled.trice_loss(
                log_probs,
                right,
                memory_log_probs=all_log_probs[kept],
                has_memory=True,
                control_variate=control_variate,
            )

        found += PROBS[kept] / P * expected_gradient(loss, draws)
    np.testing.assert_allclose(found, MML, atol=1e-5)


def trice_by_hand(log_probs, right, memory, has_memory):
    """The coefficients of the draws and of the memory, step by step."""
    count = len(right)
    weights, at_memory, length = np.zeros(count), 0.0, 0
    state = "memory" if has_memory else None
    for k in range(count):
        state = k if right[k] else state
        if state is None:
            continue
        length += 1
        others = [right[j] for j in range(count) if j != k]
        if state == "memory":
            at_memory += 1
        else:
            weights[state] += 1
        weights[k] -= np.mean(others) if others else 0.0
    return weights / max(length, 1), at_memory / max(length, 1)


@pytest.mark.parametrize("has_memory", [True, False])
def test_trice_follows_the_chain(has_memory):
    rights = np.array(list(itertools.product([False, True], repeat=4)))
    log_probs = np.log(np.linspace(0.1, 0.4, 4))

    def loss(log_probs, memory):
        rows = jnp.broadcast_to(log_probs[None], rights.shape)
        known = jnp.full(len(rights), has_memory)
        return sampled.trice_loss(
            rows, rights, memory_log_probs=memory, has_memory=known, reduce_fn=None
        )

    draws, memory = jax.jacobian(loss, argnums=(0, 1))(log_probs, np.full(len(rights), -1.0))
    for row, right in enumerate(rights):
        expected, at_memory = trice_by_hand(log_probs, right, -1.0, has_memory)
        np.testing.assert_allclose(-draws[row], expected, atol=1e-6)
        np.testing.assert_allclose(-memory[row, row], at_memory, atol=1e-6)


LOSSES = {
    "advantage": lambda x, y, **rows: sampled.advantage_loss(x, y, **rows),
    "reinforce": lambda x, y, **rows: sampled.reinforce_loss(x, y, **rows),
    "trice": lambda x, y, **rows: sampled.trice_loss(
        x, y > 0.5, memory_log_probs=y[..., 0], has_memory=y[..., 0] > 0, **rows
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_neither_dtype_nor_rank_is_promoted_implicitly(name):
    log_probs, other = jnp.zeros((2, 4, 3))
    with nothing_implicit():  # traced only: that is where it would raise
        jax.eval_shape(jax.grad(lambda x: LOSSES[name](x, other, where=other > 0)), log_probs)


@pytest.mark.parametrize("name", LOSSES)
def test_padding_is_as_if_it_were_not_there(name):
    loss, rng = LOSSES[name], np.random.default_rng(0)
    log_probs, y = -rng.exponential(size=(3, 5)), rng.uniform(0.1, 1, (3, 5))
    where = np.arange(5) < np.array([[5], [3], [1]])
    values = loss(log_probs, jnp.asarray(y), where=where, reduce_fn=None)
    for row, count in enumerate([5, 3, 1]):
        alone = loss(log_probs[row, :count], jnp.asarray(y[row, :count]))
        np.testing.assert_allclose(values[row], alone, rtol=1e-5)
    mean = loss(log_probs, jnp.asarray(y), where=where)
    np.testing.assert_allclose(mean, np.mean(values), rtol=1e-5)
    total = loss(log_probs, jnp.asarray(y), where=where, reduce_fn=jnp.sum)
    np.testing.assert_allclose(total, np.sum(values), rtol=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_empty_rows_and_impossible_draws_leave_finite_gradients(name):
    log_probs = jnp.array([[-1.0, -jnp.inf, -2.0], [-1.0, -1.0, -1.0], [-jnp.inf] * 3])
    where = jnp.array([[True, True, True], [False] * 3, [True, True, True]])
    y = jnp.array([[0.9, 0.2, 0.7], [0.9, 0.2, 0.7], [0.0, 0.0, 0.0]])
    values = LOSSES[name](log_probs, y, where=where, reduce_fn=None)
    gradient = jax.grad(lambda x: LOSSES[name](x, y, where=where))(log_probs)
    assert values[1] == 0 and np.all(np.isfinite(values)) and np.all(np.isfinite(gradient))
    assert not np.any(gradient[1]) and np.any(gradient[0])


def test_a_memory_that_is_impossible_costs_nothing():
    """Whether the chain stays there or leaves at once, and without NaN in gradients."""
    rights = jnp.array([[True, False], [False, True], [False, False]])
    log_probs = jnp.broadcast_to(jnp.array([-1.0, -2.0]), rights.shape)

    def loss(log_probs, memory):
        known = {"memory_log_probs": memory, "has_memory": jnp.ones(3, bool)}
        return sampled.trice_loss(log_probs, rights, **known, reduce_fn=jnp.sum)

    grad = jax.value_and_grad(loss, argnums=(0, 1))
    value, (draws, memory) = grad(log_probs, jnp.full(3, -jnp.inf))
    expected, (same, _) = grad(log_probs, jnp.zeros(3))
    assert np.isfinite(value) and not np.any(memory)
    np.testing.assert_array_equal(value, expected)
    np.testing.assert_array_equal(draws, same)
    assert np.isnan(loss(log_probs, jnp.full(3, jnp.nan)))


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"rewards must have log_probs' shape \(3,\), got \(2,\)"):
        sampled.reinforce_loss(jnp.zeros(3), jnp.zeros(2))
    memory = {"memory_log_probs": jnp.zeros(3), "has_memory": jnp.ones(3)}
    with pytest.raises(ValueError, match=r"right must have log_probs' shape \(3, 2\), got \(2,\)"):
        sampled.trice_loss(jnp.zeros((3, 2)), jnp.zeros(2), **memory)
    zeros = jnp.zeros((3, 2))
    for name in memory:
        with pytest.raises(ValueError, match=rf"{name} must have shape \(3,\), got \(1,\)"):
            sampled.trice_loss(zeros, zeros, **(memory | {name: jnp.zeros(1)}))


@pytest.mark.usefixtures("x64")
def test_the_loss_has_32_bits_where_jax_has_64():
    log_probs = jnp.log(jnp.array([[0.5, 0.2, 0.1]], jnp.float32))
    memory = {"memory_log_probs": jnp.zeros(1), "has_memory": jnp.ones(1, bool)}
    assert sampled.trice_loss(log_probs, jnp.array([[0, 1, 0]]), **memory).dtype == jnp.float32
