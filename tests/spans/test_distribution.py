"""P(z|x) over spans: normalised where it may be, zero elsewhere, and its true mode."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax.spans.distribution import SpanDistribution

# One program for a method and a shape, not one for each operation in it.
span_distribution = jax.jit(SpanDistribution.from_logits)
top_of = jax.jit(lambda found, k, length: found.top(k, max_length=length), static_argnums=(1, 2))
mode_of = jax.jit(lambda found, length: found.mode(max_length=length), static_argnums=1)


@pytest.fixture
def example():
    rng = np.random.default_rng(0)
    start, end = rng.normal(size=(2, 3, 9)) * 3
    where = rng.random((3, 9)) < 0.6
    where[2] = False  # a row of padding
    spans = span_distribution(jnp.array(start), jnp.array(end), where=jnp.array(where))
    return start, end, where, spans


def test_log_prob_is_the_product_of_two_softmaxes_over_the_allowed_positions(example):
    start, end, where, spans = example
    candidates = np.array([list(itertools.product(range(9), repeat=2))] * 3)
    log_probs = np.asarray(jax.jit(lambda found, z: found.log_prob(z))(spans, candidates))
    for row in range(2):
        p_start = np.exp(start[row]) * where[row] / np.sum(np.exp(start[row]) * where[row])
        p_end = np.exp(end[row]) * where[row] / np.sum(np.exp(end[row]) * where[row])
        expected = np.outer(p_start, p_end).reshape(-1)
        np.testing.assert_allclose(np.exp(log_probs[row]), expected, rtol=1e-5)
        np.testing.assert_allclose(np.exp(log_probs[row]).sum(), 1.0, rtol=1e-5)
    assert np.all(log_probs[2] == -np.inf)


def test_positions_beyond_the_text_have_no_mass_and_no_gradient():
    spans = span_distribution(np.zeros((1, 3)), np.zeros((1, 3)), where=np.ones((1, 3), bool))
    beyond = jnp.array([[[0, 3], [3, 0], [-1, -1], [0, -1], [-2, 2], [0, 2]]])
    log_probs = spans.log_prob(beyond)
    assert np.all(np.asarray(log_probs[0, :5]) == -np.inf)
    np.testing.assert_allclose(np.exp(log_probs[0, 5]), 1 / 9, rtol=1e-6)

    def total(logits):
        found = SpanDistribution.from_logits(logits, logits, where=jnp.ones((1, 3), bool))
        log_probs = found.log_prob(beyond)
        return jnp.sum(jnp.where(jnp.isfinite(log_probs), log_probs, 0.0))

    expected = [[1 - 2 / 3, -2 / 3, 1 - 2 / 3]]  # of one span, from the first token to the last
    np.testing.assert_allclose(jax.grad(total)(jnp.zeros((1, 3))), expected, rtol=1e-5)


@pytest.mark.parametrize("max_length, count", [(1, 3), (2, 5), (3, 6), (30, 6)])
def test_top_may_be_asked_for_more_spans_than_there_are(max_length, count):
    logits = np.random.default_rng(1).normal(size=(1, 3))
    spans = span_distribution(logits, logits, where=np.ones((1, 3), bool))
    found, log_probs = top_of(spans, 100, max_length)
    assert found.shape == (1, 100, 2) and log_probs.shape == (1, 100)
    assert np.isfinite(log_probs[0]).tolist() == [True] * count + [False] * (100 - count)
    possible = {tuple(span) for span in found[0, :count].tolist()}
    assert len(possible) == count and all(0 <= j - i < max_length for i, j in possible)


def test_a_span_lies_in_one_part(example):
    *_, spans = example
    parts = np.array([[0, 0, 1, 1, 1, 2, 0, 0, 0]] * 3)
    top = jax.jit(lambda found, parts: found.top(81, max_length=9, parts=parts))
    got, log_probs = top(spans, parts)
    everything, scores = top_of(spans, 81, 9)
    modes = jax.jit(lambda found, parts: found.mode(max_length=9, parts=parts))(spans, parts)
    np.testing.assert_array_equal(modes, got[:, 0])
    for row in range(2):
        found = dict(zip(map(tuple, got[row].tolist()), log_probs[row].tolist(), strict=True))
        for span, score in zip(everything[row].tolist(), scores[row].tolist(), strict=True):
            if np.isfinite(score):
                together = parts[0, span[0]] == parts[0, span[1]]
                # The document is one part, although other parts may lie between its ends.
                assert found.get(tuple(span), -np.inf) == (score if together else -np.inf)


@pytest.mark.parametrize("max_length", [1, 3, 20])
def test_top_equals_exhaustive_search(example, max_length):
    *_, spans = example
    got, log_probs = top_of(spans, 5, max_length)
    start, end = np.asarray(spans.start), np.asarray(spans.end)
    for row in range(2):
        scored = sorted(
            (
                (float(start[row, i] + end[row, j]), (i, j))
                for i in range(9)
                for j in range(i, min(9, i + max_length))
            ),
            key=lambda pair: -pair[0],
        )[:5]
        possible = [span for score, span in scored if np.isfinite(score)]
        assert [tuple(span) for span in got[row].tolist()][: len(possible)] == possible
        np.testing.assert_array_equal(log_probs[row], [score for score, _ in scored])
    np.testing.assert_array_equal(mode_of(spans, max_length), got[:, 0])


def test_ties_go_to_the_earlier_then_shorter_span():
    zeros = np.zeros((1, 3), np.float32)
    spans = span_distribution(zeros, zeros, where=np.ones((1, 3), bool))
    assert top_of(spans, 4, 2)[0].tolist() == [[[0, 0], [0, 1], [1, 1], [1, 2]]]


def test_within_keeps_scores_and_takes_the_rest_away(example):
    *_, where, spans = example
    inner = jnp.array(where & (np.arange(9) < 4))
    restricted = spans.restrict_to(inner)
    for name in ("start", "end"):
        kept = np.where(inner, np.asarray(getattr(spans, name)), -np.inf)
        np.testing.assert_array_equal(getattr(restricted, name), kept)
    assert np.asarray(top_of(restricted, 1, 9)[0][0]).max() < 4
    np.testing.assert_array_equal(restricted.where, inner)
    # A wider mask gives nothing back, and what was normalised stays normalised.
    wider = restricted.restrict_to(jnp.ones_like(inner))
    np.testing.assert_array_equal(wider.where, inner)
    np.testing.assert_array_equal(wider.start, restricted.start)
    np.testing.assert_array_equal(wider.log_partitions, spans.log_partitions)


def test_starts_and_ends_may_be_restricted_apart(example):
    *_, where, spans = example
    starts, ends = jnp.array(where & (np.arange(9) % 2 == 0)), jnp.array(where & (np.arange(9) > 3))
    restricted = spans.restrict_to(starts, ends)
    for name, allowed in (("start", starts), ("end", ends)):
        kept = np.where(allowed, np.asarray(getattr(spans, name)), -np.inf)
        np.testing.assert_array_equal(getattr(restricted, name), kept)
    np.testing.assert_array_equal(restricted.where, starts | ends)


def test_no_gradient_outside_the_allowed_positions_and_none_is_nan(example):
    start, end, where, _ = example
    candidates = jnp.array([[[4, 5], [0, 1]]] * 3)

    def total(start, end):
        spans = SpanDistribution.from_logits(start, end, where=jnp.array(where))
        log_probs = spans.log_prob(candidates)
        return jnp.sum(jnp.where(jnp.isfinite(log_probs), log_probs, 0.0))

    for gradient in jax.jit(jax.grad(total, argnums=(0, 1)))(jnp.array(start), jnp.array(end)):
        assert np.all(np.isfinite(gradient))
        assert np.all(np.asarray(gradient)[~where] == 0)
        assert np.any(np.asarray(gradient)[where] != 0)


@pytest.mark.slow
def test_rows_that_share_a_softmax_are_one_long_row(example):
    start, end, where, _ = example
    start, end, where = (np.concatenate([x, x[::-1] / 2 if x.dtype != bool else x[::-1]])
                         for x in (start, end, where))  # fmt: skip
    spans = SpanDistribution.from_logits(jnp.array(start), jnp.array(end), where=jnp.array(where))
    long = SpanDistribution.from_logits(
        *(jnp.array(x.reshape(2, -1)) for x in (start, end)), where=jnp.array(where.reshape(2, -1))
    )
    shared = spans.normalize_over_groups(3)
    for name in ("start", "end"):
        got = np.asarray(getattr(shared, name)).reshape(2, -1)
        np.testing.assert_allclose(got, getattr(long, name), rtol=1e-5, atol=1e-5)
    sums = np.repeat(long.log_partitions, 3, axis=0)  # each row has the sum of its group
    np.testing.assert_allclose(shared.log_partitions, sums, rtol=1e-5)
    np.testing.assert_array_equal(shared.where, where)
    assert np.all(np.asarray(spans.log_partitions)[~where.any(axis=1)] == -np.inf)
    # One row to a group changes nothing, and a group of padding alone has no mass.
    np.testing.assert_array_equal(spans.normalize_over_groups(1).start, spans.start)
    nothing = SpanDistribution.from_logits(
        jnp.zeros((2, 4)), jnp.zeros((2, 4)), where=jnp.zeros((2, 4), bool)
    )
    with jax.debug_nans(True):  # not even on the way
        assert np.all(np.asarray(nothing.normalize_over_groups(2).start) == -np.inf)


@pytest.mark.slow
def test_gradients_through_padding_are_finite_and_change_no_others(example):
    start, end, where, _ = example

    def loss(start, end, group_size, where):
        spans = SpanDistribution.from_logits(start, end, where=where).normalize_over_groups(
            group_size
        )
        return jnp.sum(spans.start, where=where) + jnp.sum(jnp.where(where, spans.end, 0.0) ** 2)

    rows = jax.grad(loss, (0, 1))(jnp.array(start), jnp.array(end), 3, jnp.array(where))
    # The second of two groups is nothing but padding.
    twice = [jnp.array(np.concatenate([x, x])) for x in (start, end)]
    padding = jnp.array(np.concatenate([where, np.zeros_like(where)]))
    for got, alone in zip(jax.grad(loss, (0, 1))(*twice, 3, padding), rows, strict=True):
        np.testing.assert_allclose(got, np.concatenate([alone, np.zeros_like(alone)]), rtol=1e-5)
        assert np.all(np.isfinite(got))
