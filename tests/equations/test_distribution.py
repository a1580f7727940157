"""P(z|x) over equations: the product of tags, nothing for what is no number, the true best."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax.equations.distribution import NUM_TAGS
from hardem_jax.equations.solutions.rules import COUNT, MINUS, NONE, PERCENT, PLUS
from hardem_jax.losses import first_only_loss, hard_em_loss, mml_loss
from tests.equations.equation_cases import (
    NOTHING,
    all_equations,
    allowed,
    gain,
    log_prob_of,
    mode_of,
    softmax,
    tag_distribution,
    top_of,
)
from tests.marks import slow


@pytest.fixture
def example():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3, 5, 4)) * 3
    where = rng.random((3, 5)) < 0.6
    where[2] = False  # a row of padding
    rest = rng.normal(size=3)
    tags = tag_distribution(jnp.array(logits), where=jnp.array(where), rest=jnp.array(rest))
    return logits, where, rest, tags


def test_log_prob_is_the_product_of_the_tags_of_all_numbers(example):
    logits, where, rest, tags = example
    rows = all_equations(5)
    got = np.asarray(log_prob_of(tags, jnp.array([rows] * 3)))
    for b, (z, row) in itertools.product(range(3), enumerate(rows)):
        n1, o1, n2, o2 = row
        tagging = np.zeros(5, int)
        tagging[n1] = o1
        if n2 >= 0:
            tagging[n2] = o2
        factors = np.where(where[b], softmax(logits[b])[np.arange(5), tagging], tagging == NONE)
        if np.all(factors > 0):
            np.testing.assert_allclose(got[b, z], rest[b] + np.log(factors).sum(), rtol=1e-5)
        else:
            assert got[b, z] == -np.inf
    assert np.isfinite(got[:2]).any() and np.all(got[2] == -np.inf)


@pytest.mark.parametrize("numbers", [[], [2], [0, 3]])
def test_probabilities_of_all_taggings_add_up_to_that_of_the_rest(numbers):
    # With at most two numbers, every tagging has a row.
    logits = np.random.default_rng(1).normal(size=(1, 4, 4)) * 2
    where = np.isin(np.arange(4), numbers)[None]
    rows = jnp.array([[NOTHING, *all_equations(4)]])
    for rest in (0.0, -2.5):
        tags = tag_distribution(jnp.array(logits), where=jnp.array(where), rest=jnp.array([rest]))
        log_probs = np.asarray(log_prob_of(tags, rows))
        assert np.isfinite(log_probs).sum() == NUM_TAGS ** len(numbers)
        np.testing.assert_allclose(np.exp(log_probs).sum(), np.exp(rest), rtol=1e-5)
    without = tag_distribution(jnp.array(logits), where=jnp.array(where))
    np.testing.assert_allclose(np.exp(log_prob_of(without, rows)).sum(), 1.0, rtol=1e-5)


def test_what_the_table_does_not_hold_is_impossible():
    tags = tag_distribution(np.zeros((1, 3, 4)), where=np.ones((1, 3), bool))
    rows = [(0, COUNT, -1, NONE), (2, COUNT, -1, NONE), (3, PLUS, -1, NONE), (0, PLUS, 9, MINUS)]
    # An operator without a number; a tag that there is not, which is no other slot's.
    rows += [(-1, PLUS, -1, NONE), (0, PLUS, -1, MINUS), (0, 5, -1, NONE), (1, -1, -1, NONE)]
    assert np.all(np.asarray(log_prob_of(tags, jnp.array([rows]))) == -np.inf)


def test_the_same_slot_twice_is_no_tagging():
    tags = tag_distribution(np.zeros((1, 2, 4)), where=np.ones((1, 2), bool))
    rows = [(0, PLUS, 0, PLUS), (0, PLUS, 0, MINUS), (0, PLUS, 1, MINUS)]
    rows += [(0, PLUS, 0, NONE), (0, NONE, 0, NONE), NOTHING]  # one number at most is tagged
    found = np.asarray(log_prob_of(tags, jnp.array([rows])))
    assert np.isfinite(found[0]).tolist() == [False] * 2 + [True] * 4


@pytest.mark.parametrize("dtype, num_slots", [(jnp.int8, 100), (jnp.int16, 8000)])
def test_small_integers_reach_every_number(dtype, num_slots):
    tags = tag_distribution(np.zeros((1, num_slots, 4)), where=np.ones((1, num_slots), bool))
    rows = jnp.array([[(0, PLUS, num_slots - 1, MINUS), (num_slots - 2, PERCENT, -1, NONE)]])
    found = log_prob_of(tags, rows.astype(dtype))
    assert np.all(np.isfinite(found))
    np.testing.assert_array_equal(found, log_prob_of(tags, rows))


def test_a_model_without_percent_gives_it_no_mass():
    logits = np.random.default_rng(2).normal(size=(2, 3, 3))
    tags = tag_distribution(jnp.array(logits), where=np.ones((2, 3), bool))
    np.testing.assert_allclose(np.exp(tags.tags[..., :PERCENT]), softmax(logits), rtol=1e-5)
    assert np.all(np.asarray(tags.tags[..., PERCENT]) == -np.inf)


def test_low_precision_logits_are_normalised_in_float32():
    logits = jnp.linspace(-4, 4, 400, dtype=jnp.bfloat16).reshape(1, 100, 4)
    tags = tag_distribution(logits, where=np.ones((1, 100), bool), rest=np.zeros(1, jnp.bfloat16))
    assert tags.tags.dtype == tags.rest.dtype == jnp.float32
    np.testing.assert_allclose(np.exp(tags.tags).sum(axis=-1), 1.0, rtol=1e-6)
    assert log_prob_of(tags, jnp.array([[NOTHING]])).dtype == jnp.float32


@pytest.mark.parametrize("loss", [mml_loss, *slow(hard_em_loss, first_only_loss)])
@pytest.mark.parametrize("filler", [NOTHING, (0, 0, 0, 0), (4, PLUS, 4, PLUS)])
def test_gradients_are_finite_and_none_reaches_what_is_no_number(example, loss, filler):
    logits, where, rest, _ = example
    where = where.copy()
    where[:2, :2] = True
    # Whatever stands in padding, infinities included, must stay there.
    logits = np.where(where[..., None], logits, [np.inf, -np.inf, 1e30, 0.0])
    candidates = jnp.array([[(0, PLUS, 1, MINUS), (0, MINUS, -1, NONE), filler, filler]] * 3)
    solutions = jnp.array([[True, True, False, False]] * 2 + [[False] * 4])

    # Candidates are an argument, so that all fillers are one program.
    def total(logits, rest, candidates):
        tags = tag_distribution(logits, where=jnp.array(where), rest=rest)
        return loss(log_prob_of(tags, candidates), where=solutions)

    run = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))
    value, (of_logits, of_rest) = run(jnp.array(logits), jnp.array(rest), candidates)
    assert np.isfinite(value) and np.all(np.isfinite(of_logits))
    assert np.all(np.asarray(of_logits)[~where] == 0)
    assert np.all(np.any(np.asarray(of_logits)[where] != 0, axis=-1))
    np.testing.assert_allclose(of_rest, [-0.5, -0.5, 0.0], rtol=1e-6)


@pytest.mark.parametrize("num_slots", [0, 5, *slow(1, 2)])
@pytest.mark.parametrize("ties", [False, True])
def test_top_equals_exhaustive_search(num_slots, ties):
    batch, k = 60, 12
    rng = np.random.default_rng(num_slots)
    logits = rng.normal(size=(batch, num_slots, 4)) * 2
    if ties:
        logits = np.round(logits / 2)
    where = rng.random((batch, num_slots)) < 0.8
    density = rng.random((batch, 1)) ** 0.5
    # Entries with n1 >= n2 are set as well: they mean nothing.
    pairs = rng.random((batch, (3 * num_slots) ** 2)) < density
    pairs = pairs.reshape(batch, num_slots, 3, num_slots, 3)
    lone = (rng.random((batch, 3 * num_slots)) < density).reshape(batch, num_slots, 3)
    tags = tag_distribution(
        jnp.array(logits), where=jnp.array(where), rest=jnp.array(rng.normal(size=batch) * 9)
    )
    if ties:  # log-probabilities that are whole numbers: equal sums are equal to the last bit
        tags = dataclasses.replace(
            tags, tags=jnp.where(tags.where[..., None], jnp.array(logits, jnp.float32), tags.tags)
        )
    tables = {"pairs": jnp.array(pairs), "lone": jnp.array(lone)}
    got, log_probs = top_of(tags, k, **tables)
    table = np.asarray(tags.tags)
    for b in range(batch):
        rows = [row for row in all_equations(num_slots) if allowed(row, pairs[b], lone[b])]
        rows = [row for row in rows if np.isfinite(gain(table[b], row))]
        rows.sort(key=lambda row: -gain(table[b], row))  # stable: ties stay in order
        assert [tuple(row) for row in got[b].tolist()] == rows[:k] + [NOTHING] * (k - len(rows))
        assert np.all(np.asarray(log_probs[b, len(rows) :]) == -np.inf)
    assert got.dtype == jnp.int32
    possible = np.asarray(got)[..., 0] >= 0
    scores = np.asarray(log_prob_of(tags, got))
    np.testing.assert_array_equal(log_probs, np.where(possible, scores, -np.inf))
    np.testing.assert_array_equal(mode_of(tags, **tables), got[:, 0])


def test_a_long_text_does_not_round_the_ranking_away():
    logits = np.zeros((1, 3, 4), np.float32)
    logits[0, :, PLUS] = [1.0, 1.0 + 1e-6, 1.0 + 2e-6]
    tags = tag_distribution(logits, where=np.ones((1, 3), bool), rest=jnp.array([-1000.0]))
    pairs, lone = np.zeros((1, 3, 3, 3, 3), bool), np.ones((1, 3, 3), bool)
    assert top_of(tags, 3, pairs=pairs, lone=lone)[0][0, :, 0].tolist() == [2, 1, 0]


def test_argmax_tags_takes_every_number_by_itself(example):
    logits, where, _, tags = example
    got = tags.argmax_tags()
    np.testing.assert_array_equal(got, np.where(where, logits.argmax(axis=-1), NONE))
    assert got.dtype == jnp.int32
