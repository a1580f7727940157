"""P(z|x) over equations and counts: first the ability, then what it takes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax.equations.solutions import rules as equation_rules
from hardem_jax.equations.solutions.rules import COUNT, MINUS, NONE, PERCENT, PLUS
from hardem_jax.losses import first_only_loss, hard_em_loss, mml_loss
from tests.equations.equation_cases import (
    NOTHING,
    ability_distribution,
    all_equations,
    allowed,
    conditioned,
    log_prob_of,
    mode_of,
    softmax,
    top_of,
)
from tests.marks import slow


@pytest.fixture
def abilities():
    """(ability, sign and count logits), where, and their distribution; row 2 has no number."""
    rng = np.random.default_rng(5)
    logits = [rng.normal(size=shape) * 2 for shape in ((3, 2), (3, 2, 3), (3, 10))]
    logits[0][2] = [9, 0]
    where = np.array([[True, True], [False, True], [False, False]])
    return logits, where, ability_distribution(*map(jnp.array, logits), where=jnp.array(where))


COUNTS = [(count, COUNT, -1, NONE) for count in range(10)]


def test_ability_and_what_it_takes_are_multiplied(abilities):
    (ability, signs, counts), _, distribution = abilities
    rows = [(0, PLUS, 1, MINUS), (1, PLUS, -1, NONE), *COUNTS]
    got = np.exp(log_prob_of(distribution, jnp.array([rows] * 3)))
    p_sign = softmax(signs[0])
    expected = [p_sign[0, PLUS] * p_sign[1, MINUS], p_sign[0, NONE] * p_sign[1, PLUS]]
    np.testing.assert_allclose(got[0, :2], softmax(ability)[0, 0] * np.array(expected), rtol=1e-5)
    np.testing.assert_allclose(got[:, 2:], softmax(ability)[:, 1:] * softmax(counts), rtol=1e-5)


def test_a_count_the_model_does_not_have_is_impossible(abilities):
    *_, distribution = abilities
    rows = [(10, COUNT, -1, NONE), (1, COUNT, -1, NONE), (1, PERCENT, -1, NONE)]
    rows += [(-1, COUNT, -1, NONE), (-10, COUNT, -1, NONE)]  # not the last one, nor the first
    assert (
        np.isfinite(log_prob_of(distribution, jnp.array([rows] * 3))).tolist()
        == [[False, True, False, False, False]] * 3
    )


@pytest.mark.slow
@pytest.mark.parametrize("k", [4, 40])
def test_top_merges_both_abilities(abilities, k):
    *_, where, distribution = abilities
    rng = np.random.default_rng(6)
    pairs, lone = rng.random((3, 2, 3, 2, 3)) < 0.7, rng.random((3, 2, 3)) < 0.7
    tables = {"pairs": jnp.array(pairs), "lone": jnp.array(lone)}
    got, log_probs = top_of(distribution, k, **tables)
    for b in range(3):
        rows = [row for row in all_equations(2) if allowed(row, pairs[b], lone[b])] + COUNTS
        scores = np.asarray(log_prob_of(distribution, jnp.array([rows] * 3)))[b]
        scored = [pair for pair in zip(scores, rows, strict=True) if np.isfinite(pair[0])]
        scored = sorted(scored, key=lambda pair: -pair[0])[:k]
        missing = k - len(scored)
        expected = [row for _, row in scored] + [NOTHING] * missing
        assert [tuple(row) for row in got[b].tolist()] == expected
        np.testing.assert_array_equal(log_probs[b], [s for s, _ in scored] + [-np.inf] * missing)
    np.testing.assert_array_equal(mode_of(distribution, **tables), got[:, 0])


def test_without_numbers_only_counts_are_left_however_unlikely(abilities):
    (ability, _, counts), _, found = abilities
    assert softmax(ability)[2, 0] > 0.99
    mode = mode_of(found, pairs=np.ones((3, 2, 3, 2, 3), bool), lone=np.ones((3, 2, 3), bool))
    assert mode[2].tolist() == [counts[2].argmax(), COUNT, -1, NONE]


def test_what_is_impossible_is_not_returned():
    logits = jnp.array([[-jnp.inf, 0.0]]), jnp.zeros((1, 2, 3)), jnp.array([[-jnp.inf, 0.0]])
    distribution = ability_distribution(*logits, where=np.ones((1, 2), bool))
    tables = {"pairs": np.ones((1, 2, 3, 2, 3), bool), "lone": np.ones((1, 2, 3), bool)}
    rows, log_probs = top_of(distribution, 5, **tables)
    # Counting is certain, and so is the count.
    assert rows.tolist() == [[[1, COUNT, -1, NONE]] + [list(NOTHING)] * 4]
    assert np.isfinite(log_probs[0]).tolist() == [True] + [False] * 4


@pytest.mark.parametrize("loss", [mml_loss, *slow(hard_em_loss, first_only_loss)])
def test_gradients_of_both_abilities_are_finite(abilities, loss):
    logits, where, _ = abilities
    rows = [(1, PLUS, -1, NONE), (3, COUNT, -1, NONE), NOTHING, (12, COUNT, -1, NONE)]
    solutions = jnp.array([[True, True, False, False], [True, True, False, False], [False] * 4])

    def total(logits):
        distribution = ability_distribution(*logits, where=jnp.array(where))
        return loss(log_prob_of(distribution, jnp.array([rows] * 3)), where=solutions)

    gradients = jax.jit(jax.grad(total))([jnp.array(part) for part in logits])
    for gradient in map(np.asarray, gradients):
        assert np.all(np.isfinite(gradient))
        assert np.all(gradient[2] == 0)
    assert np.all(np.asarray(gradients[0])[:2] != 0)
    assert np.all(np.asarray(gradients[1])[~where] == 0)


@pytest.mark.slow
def test_signs_over_equations_and_counts_add_up_to_one(abilities):
    logits, where, product = abilities
    rules = equation_rules.EquationRules(special_numbers=False, max_count=9)
    kinds = np.where(where, 1, -1)
    tables = {"pairs": rules.table(kinds), "lone": rules.lone(kinds)}
    distribution = conditioned(product, **tables)
    rows = jnp.array([[*all_equations(2), *COUNTS]] * 3)
    log_probs = log_prob_of(distribution, rows)
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=-1), 1.0, rtol=1e-5)
    ability = softmax(logits[0])
    np.testing.assert_allclose(np.exp(log_probs[:2, -10:]).sum(axis=-1), ability[:2, 1], rtol=1e-5)
    # Without any number, only counting is left, however likely the other ability is.
    np.testing.assert_allclose(np.exp(log_probs[2, -10:]), softmax(logits[2][2]), rtol=1e-5)
    top, best = top_of(distribution, 3, **tables)
    np.testing.assert_allclose(best, log_prob_of(distribution, top), rtol=1e-6)

    def total(logits):
        found = ability_distribution(*logits, where=jnp.array(where))
        return mml_loss(found.over_equations(**tables).log_prob(rows[:, -12:-8]))

    gradients = jax.jit(jax.grad(total))([jnp.array(part) for part in logits])
    assert all(np.all(np.isfinite(gradient)) for gradient in gradients)
