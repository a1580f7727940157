"""Intervals and paired tests against closed forms, and against what they promise of samples."""

import math

import numpy as np
import pytest

from hardem_jax.analysis.statistics import difference, interval


def crossed(rng, seeds, questions, of_seeds, of_questions=1.0, of_answers=1.0):
    """``[S, N]`` scores with expectation 0: an effect of each seed, question and answer."""
    effects = of_seeds * rng.normal(size=(seeds, 1))
    return (
        effects
        + of_questions * rng.normal(size=questions)
        + of_answers * rng.normal(size=(seeds, questions))
    )


def halves(found):
    return found.mean - found.low, found.high - found.mean


def test_of_three_seeds_the_ends_are_all_draws_of_one_of_them():
    """Each has a chance of 1 in 27, more than 2.5 %; and weights are rescaled by sqrt(3 / 2)."""
    found = interval(np.repeat([[50.0], [52.0], [57.0]], 10, axis=1))
    expected = [53 - math.sqrt(3 / 2) * 3, 53 + math.sqrt(3 / 2) * 4]
    np.testing.assert_allclose(found, [53, *expected])


def test_an_effect_of_seeds_has_the_standard_error_of_their_mean():
    effects = np.random.default_rng(0).normal(size=(8, 1))
    one_sigma = math.erf(math.sqrt(0.5))
    found = interval(np.repeat(effects, 3, axis=1), level=one_sigma, resamples=20_000)
    # Without rescaling it would be sqrt(7 / 8) of that, 6 % less.
    expected = effects.std(ddof=1) / math.sqrt(8)
    np.testing.assert_allclose(np.mean(halves(found)), expected, rtol=0.02)


def test_the_result_is_a_function_of_the_arguments():
    scores = crossed(np.random.default_rng(0), 3, 50, of_seeds=0.1)
    assert interval(scores) == interval(scores.tolist()) != interval(scores, seed=1)
    assert difference(scores, 2 * scores) == difference(scores, 2 * scores)


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_equal_scores_have_an_interval_of_no_width(seeds):
    scores = np.full((seeds, 30), 100 / 3)
    assert interval(scores) == (100 / 3,) * 3
    assert difference(scores, scores) == (0, 0, 0, 1)
    _, low, high, p = difference(scores + 5, scores, resamples=99)
    assert low == high == pytest.approx(5) and p == 1 / 100


def test_a_difference_is_paired():
    """Questions differ much more than the objectives do on any of them."""
    rng = np.random.default_rng(0)
    b = crossed(rng, 3, 300, of_seeds=0.01, of_questions=10)
    a = b + 0.1 * rng.normal(size=b.shape) + 0.2
    found, other = difference(a, b), difference(b, a)
    assert 0 < found.low < found.mean < found.high < 0.3 and found.p == 1 / 2001
    assert interval(a).low < interval(b).high
    np.testing.assert_allclose([found.mean, found.low, found.high, found.p],
                               [-other.mean, -other.high, -other.low, other.p])  # fmt: skip


def test_p_is_the_tail_of_the_centred_samples():
    """One of four questions is lost: samples without it, and with it twice, are as far as 0."""
    found = difference([[1.0, 1, 1, 0]], [[0.0, 0, 0, 1]], resamples=20_000)
    expected = 1 - 4 * 0.25 * 0.75**3  # all but those with it once
    assert found.mean == 0.5 and found.p == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("count", [1, 2, 6])
def test_few_questions_that_differ_prove_little(count):
    a, b = np.ones((2, count + 3)), np.array([[0.0] * count + [1.0] * 3] * 2)
    assert difference(a, b).p == 2.0 ** (1 - count)


@pytest.mark.parametrize(
    ("call", "culprit"),
    [
        (lambda: interval([1.0, 2.0]), r"scores: expected seeds x questions, found shape \(2,\)"),
        (lambda: interval(np.zeros((3, 0))), r"found shape \(3, 0\)"),
        (lambda: interval([[1.0, math.nan]]), "scores: expected finite scores, found NaN"),
        (lambda: interval([[1.0]], level=95), "level: expected a number between 0 and 1, found 95"),
        (lambda: interval([[1.0]], resamples=0), "resamples: expected at least 1, found 0"),
        (
            lambda: difference(np.zeros((3, 4)), np.zeros((1, 4))),
            r"b: expected the shape of a, \(3, 4\), found \(1, 4\)",
        ),
        (lambda: difference([[1.0]], [[math.inf]]), "b: expected finite scores"),
    ],
)
def test_what_is_no_sample_is_refused(call, culprit):
    with pytest.raises(ValueError, match=culprit):
        call()


def differences(seeds, of_seeds, *, samples=1000, questions=200):
    rng = np.random.default_rng(0)
    for seed in range(samples):
        scores = crossed(rng, seeds, questions, of_seeds)
        yield difference(scores, np.zeros_like(scores), resamples=500, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seeds", "ratio", "covered", "rejected"),
    [(3, 0, 97.9, 2.0), (3, 1, 95.0, 4.6), (3, 2, 90.6, 9.2), (5, 1, 95.7, 4.1), (5, 2, 93.0, 7.0)],
)
def test_intervals_cover_what_the_module_says(seeds, ratio, covered, rejected):
    """Of its table; ``ratio`` is the standard error by seeds as a multiple of that by questions."""
    found = list(differences(seeds, ratio * math.sqrt(seeds / 200)))
    share = 100 * np.mean([low <= 0 <= high for _, low, high, _ in found])
    assert share == pytest.approx(covered, abs=3) and share > 85
    assert 100 * np.mean([p < 0.05 for *_, p in found]) == pytest.approx(rejected, abs=3)


@pytest.mark.slow
def test_p_is_uniform_where_nothing_differs():
    p = np.sort([p for *_, p in differences(1, 0.0)])
    # The test of Kolmogorov and Smirnov, at a level of 1 %.
    assert np.max(np.abs(p - (np.arange(1000) + 0.5) / 1000)) < 1.63 / math.sqrt(1000)
