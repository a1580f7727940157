"""Sums over solutions, samples of them and the best of them, against exhaustive enumeration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from tests.frequencies import p_value
from tests.marks import slow
from tests.programs import test_sampling as programs
from tests.queries import test_sampling as queries
from tests.tables.sampling import COUNT, found

#: A parser, and which of its solutions are allowed.
QUERIES = [(queries, {"within": queries.WITHIN}), (queries, {})]
LIMITED = [(queries, {"max_conditions": limit}) for limit in (0, 1, 7)]
PROGRAMS = [(programs, {"within": programs.WITHIN}), *slow((programs, {}))]
CASES = [*QUERIES, *PROGRAMS, *slow(*LIMITED)]
B = 2


@pytest.mark.parametrize("seed", [0, *slow(1, 2)])
@pytest.mark.parametrize("parser, options", CASES)
def test_log_mass_sums_over_every_solution(parser, options, seed):
    mass, *_ = found(parser.distribution, parser.values(seed, fill=9.0), **options)
    every = [parser.enumerated(row, seed=seed, **options)[1] for row in range(B)]
    np.testing.assert_allclose(mass, [*map(scipy.special.logsumexp, every)], rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("parser, options", [QUERIES[1], PROGRAMS[0]])
def test_the_gradient_of_log_mass_is_that_of_the_sum(parser, options):
    rows = [parser.enumerated(row, **options)[0] for row in range(B)]

    def summed(values):
        distribution = parser.distribution(values)
        log_probs = (distribution.log_prob(jnp.array([z] * B))[i] for i, z in enumerate(rows))
        return sum(map(jax.nn.logsumexp, log_probs))

    expected = jax.jit(jax.grad(summed))(parser.values())
    *_, grads = found(parser.distribution, parser.values(fill=9.0), **options)
    for name, grad in grads.items():
        np.testing.assert_allclose(grad, expected[name], atol=2e-6, err_msg=name)
    assert max(np.abs(x).max() for x in expected.values()) > 1e-3


@pytest.mark.parametrize("parser, options", CASES)
def test_samples_have_the_frequencies_of_the_distribution(parser, options):
    """Whatever the key."""
    _, (solutions, log_probs), *_ = found(parser.distribution, parser.values(fill=9.0), **options)
    p_values = []
    for row in range(B):
        every, scores = parser.enumerated(row, **options)
        scores -= scipy.special.logsumexp(scores)
        place = {tuple(z): i for i, z in enumerate(every)}
        for drawn, own in zip(solutions[:, row], log_probs[:, row], strict=True):
            drawn = [place[tuple(z)] for z in drawn.tolist()]  # all of them are allowed
            np.testing.assert_allclose(own, scores[drawn], rtol=1e-4, atol=1e-5)
            p_values.append(p_value(drawn, scores))
    # Of 8 uniform ones, the least is below 0.001 in one of 125 cases, the median below 0.1 in 200.
    assert min(p_values) > 0.001 and np.median(p_values) > 0.1, p_values


@pytest.mark.parametrize("parser, options", [QUERIES[1], PROGRAMS[0]])
def test_samples_are_independent_of_one_another(parser, options):
    _, (solutions, _), *_ = found(parser.distribution, parser.values(fill=9.0), **options)
    first, second = solutions[:, 0, : COUNT // 2, 0], solutions[:, 0, COUNT // 2 :, 0]
    table = scipy.stats.contingency.crosstab(first.ravel(), second.ravel()).count
    assert scipy.stats.chi2_contingency(table).pvalue > 0.01


@pytest.mark.parametrize("k", [40, *slow(1, 900)])
@pytest.mark.parametrize("parser, options", [QUERIES[0], *PROGRAMS])
def test_the_best_of_those_allowed_are_found(parser, options, k):
    values = parser.values(fill=9.0)
    _, _, (solutions, scores), _ = found(parser.distribution, values, k=k, **options)
    for row in range(B):
        every, log_probs = parser.enumerated(row, **options)
        order = np.argsort(-log_probs)[:k]
        assert solutions[row, : len(order)].tolist() == [[*every[i]] for i in order]
        np.testing.assert_allclose(scores[row, : len(order)], log_probs[order], rtol=1e-5)
        assert np.all(solutions[row, len(order) :] == -1)
        assert np.all(scores[row, len(order) :] == -np.inf)


@pytest.mark.parametrize("parser", [queries, programs])
def test_nan_is_not_taken_for_no_solution(parser):
    values = {name: np.full_like(x, np.nan) for name, x in parser.values().items()}
    mass, (_, log_probs), (_, scores), _ = found(parser.distribution, values)
    assert np.isnan(log_probs).all() and np.isnan(scores[:, 0]).all()
    assert np.isnan(mass).all()
