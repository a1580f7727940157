"""P(z | x) over taggings, against sums over every tagging there is."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax.span_sets.distribution import (
    BEGIN,
    INSIDE,
    OUTSIDE,
    TaggingDistribution,
    marked_spans,
)

# One program for a method and a shape, not one for each operation in it.
log_prob_of = jax.jit(TaggingDistribution.log_prob)
mode_of = jax.jit(TaggingDistribution.mode, static_argnames="empty")
NUM_TOKENS = 6


@pytest.fixture(params=[2, 3], ids=["IO", "BIO"])
def num_tags(request):
    return request.param


@functools.cache
def tagged(num_tags, seed=0):
    """Logits of two rows, of which the second may not mark its last token."""
    logits = np.random.default_rng(seed).normal(size=(2, NUM_TOKENS, num_tags)) * 2
    where = np.ones((2, NUM_TOKENS), bool)
    where[1, -1] = False
    return logits, where, TaggingDistribution.from_logits(jnp.array(logits), where=where)


def probability(found, row, tags):
    """Of one tagging, by definition."""
    table = np.exp(np.asarray(found.tags[row], np.float64))
    return float(np.prod([table[place, tag] for place, tag in enumerate(tags)]))


def tags_of(spans, num_tags):
    tags = [OUTSIDE] * NUM_TOKENS
    for first, last in spans:
        tags[first : last + 1] = [INSIDE] * (last + 1 - first)
        tags[first] = BEGIN if num_tags == 3 else INSIDE
    return tags


def test_probabilities_of_all_taggings_add_up_to_one(num_tags):
    logits, where, found = tagged(num_tags)
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(np.exp(found.tags[0]), expected[0], rtol=1e-5)
    assert np.exp(found.tags[1, -1]).tolist() == [1, *[0] * (num_tags - 1)]
    every = itertools.product(range(num_tags), repeat=NUM_TOKENS)
    assert sum(probability(found, 1, tags) for tags in every) == pytest.approx(1, rel=1e-5)


def test_log_prob_of_every_set_of_spans(num_tags):
    _, _, found = tagged(num_tags)
    mentions = np.array([[0, 0], [1, 2], [2, 4], [3, 3], [5, 5], [0, 5]])
    chosen = np.array([*itertools.product([False, True], repeat=len(mentions))])
    log_probs = log_prob_of(found, jnp.stack([mentions] * 2), jnp.stack([chosen] * 2))
    assert log_probs.shape == (2, 64)
    for row in range(2):
        for taken, log_prob in zip(chosen, log_probs[row], strict=True):
            spans = [tuple(span) for span in mentions[taken].tolist()]
            tags = tags_of(spans, num_tags)
            # Spans that overlap have no tagging that marks them, nor have IO spans that touch.
            marks = marked_spans(np.array(tags)) == sorted(spans)
            expected = probability(found, row, tags) if marks else 0.0
            np.testing.assert_allclose(np.exp(log_prob), expected, rtol=1e-4)


def test_a_mention_that_runs_past_the_input_cannot_be_marked(num_tags):
    _, _, found = tagged(num_tags)
    mentions = np.array([[[0, 5], [1, 99], [-3, 1], [-2, -1], [6, 7], [5, 5]]] * 2)
    log_probs = log_prob_of(found, mentions, np.eye(6, dtype=bool)[None].repeat(2, 0))
    assert np.isfinite(log_probs[0]).tolist() == [True, False, False, False, False, True]


@pytest.mark.parametrize("scale", [1.0, 60.0, 3e4])
def test_gradients_are_finite_whatever_the_scores(num_tags, scale):
    logits = jnp.array(tagged(num_tags)[0] * scale, jnp.float32)
    mentions = jnp.array([[[0, 0], [2, 3], [4, 5]]])  # the last one leaves the input
    allowed = jnp.array([[True] * 4 + [False] * 2])

    def loss(logits):
        infinite = jnp.where(allowed[..., None], logits[:1], jnp.inf)  # padding may hold anything
        found = TaggingDistribution.from_logits(infinite, where=allowed)
        log_probs = found.log_prob(mentions, jnp.array([[[True, True, False], [True] * 3]]))
        return jnp.where(log_probs > -1e30, log_probs, 0).sum()

    value, gradient = jax.jit(jax.value_and_grad(loss))(logits)
    assert np.isfinite(value) and np.isfinite(gradient).all()


@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_the_mode_is_the_likeliest_well_formed_tagging(num_tags, seed, empty):
    logits, where, _ = tagged(num_tags, seed)
    if not empty:  # so that the likeliest of all marks nothing
        logits = logits + np.where(np.arange(num_tags) == OUTSIDE, 9, 0)
    found = TaggingDistribution.from_logits(jnp.array(logits), where=where)
    mode = np.asarray(mode_of(found, empty=empty))
    assert empty or mode.any(axis=1).all()
    for row in range(2):
        best = max(
            (
                tags
                for tags in itertools.product(range(num_tags), repeat=NUM_TOKENS)
                if tags_of(marked_spans(np.array(tags)), num_tags) == list(tags)
                and (empty or any(tags))
            ),
            key=lambda tags: probability(found, row, tags),
        )
        assert mode[row].tolist() == list(best)
    if num_tags == 3 and seed == 0 and empty:
        free = np.asarray(found.tags.argmax(-1))
        assert not (mode == free).all()  # the rule about I matters here


def test_a_row_without_words_marks_nothing(num_tags):
    where = jnp.zeros((1, 3), bool)
    found = TaggingDistribution.from_logits(jnp.ones((1, 3, num_tags)), where=where)
    assert mode_of(found, empty=False).tolist() == [[OUTSIDE] * 3]
