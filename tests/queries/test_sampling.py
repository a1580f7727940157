"""What sums, samples and searches of queries make of limits, missing parts and certain ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from hardem_jax.queries.distribution import QueryDistribution
from hardem_jax.queries.sampling import Support
from tests.marks import slow
from tests.queries.test_distribution import (
    COLUMNS,
    WORDS,
    B,
    K,
    by_formula,
    logits,
    queries_of,
    query_distribution,
)

KEY = jax.random.key(1)
#: Some conditions of each row, in any order, with padding; heads that exclude some of row 0.
LINKS = [[[2, 1, 0, 2], [0, 0, 1, 1], [0, 0, 0, 1], [-1] * 4, [2, 0, 2, 2], [0, 1, 1, 2]]]
LINKS += [[[0, 1, 3, 3], [0, 0, 0, 2], [-1] * 4, [-1] * 4, [-1] * 4, [-1] * 4]]
HEADS = np.ones((B, 4, 2), bool)
HEADS[0, 1] = HEADS[0, 0, 1] = False
WITHIN = Support(np.array(LINKS), HEADS)


def is_within(row, query):
    clause = [query[i : i + 4] for i in range(3, 3 + 4 * query[2], 4)]
    return HEADS[row, query[0], query[1]] and all(part in LINKS[row] for part in clause)


values = logits


def distribution(values):
    return QueryDistribution.from_logits(**values, columns=COLUMNS, words=WORDS)


def enumerated(row, within=None, max_conditions=K, seed=0):
    """The queries of a row that are allowed, and their log-probabilities."""
    every = [z for z in queries_of(row) if z[2] <= max_conditions]
    every = [z for z in every if within is None or is_within(row, z)]
    return every, np.array([by_formula(logits(seed), row, z) for z in every])


@pytest.mark.parametrize("fill", [np.nan, *slow(np.inf, -np.inf)])
def test_rows_without_columns_or_words_have_no_query_and_no_nan(fill):
    """Row 0 has no column; row 1 has one, but no word, and so no condition."""
    columns, words = COLUMNS & np.array([[False], [True]]), np.zeros_like(WORDS)

    def total(values):
        queries = QueryDistribution.from_logits(**values, columns=columns, words=words)
        found, log_probs = queries.sample(jax.random.key(0), 50)
        mass = queries.log_mass()
        return mass[1] + jnp.sum(log_probs[1]), (mass, found, log_probs)

    run = jax.jit(jax.value_and_grad(total, has_aux=True))
    (_, (mass, found, log_probs)), grads = run(logits(fill=fill))
    mass, found, log_probs = map(np.asarray, (mass, found, log_probs))
    assert mass[0] == -np.inf and np.all(found[0] == -1) and np.all(log_probs[0] == -np.inf)
    assert np.all(found[1, :, 0] == 0) and np.all(found[1, :, 2:] == [0] + [-1] * 4 * K)
    values = logits()
    none = -np.log1p(np.exp(values["column"][1, 0]))  # P(no condition) x P(0 conditions)
    none += values["number"][1, 0] - scipy.special.logsumexp(values["number"][1])
    np.testing.assert_allclose(mass[1], none, rtol=1e-5)
    for name, grad in grads.items():
        assert np.all(np.isfinite(grad)), name


def test_certain_factors_are_always_drawn():
    """Probabilities that are 0 or 1 in float32, on a table with as many columns as conditions."""
    values = {name: np.zeros_like(x) for name, x in logits().items()}
    values["number"][:, K] = 200.0
    values["column"][0] = [200.0, -200.0, 200.0, 0.0]
    values["column"][1] = -200.0
    values["operator"][:, :, 1] = values["first"][..., 1] = values["last"][..., 2] = 200.0
    queries = query_distribution(**values, columns=COLUMNS, words=WORDS)
    found, log_probs = map(np.asarray, jax.jit(lambda q, k: q.sample(k, 500))(queries, KEY))
    assert np.all(found[0, :, 2:] == [2, 0, 1, 1, 2, 2, 1, 1, 2])
    np.testing.assert_allclose(log_probs[0], -np.log(6), rtol=1e-4)  # the head is open
    # One column cannot have two conditions: P(1) = P(0), and having it costs exp(-200).
    assert np.all(found[1, :, 2] == 0)


@jax.jit
def sampled(queries, within=None):
    """Everything that finds queries, in one program."""
    samples = queries.sample(KEY, 20, within=within)
    return samples, queries.top(10, within=within), queries.log_mass(within=within)


def test_queries_have_32_bits_where_jax_has_64():
    with jax.enable_x64(True):
        (drawn, _), (best, _), _ = sampled(distribution(values()))
    assert drawn.dtype == best.dtype == jnp.int32


@pytest.mark.parametrize("name", ["columns", "aggregators", "operators", "words"])
def test_a_dimension_may_have_no_entries(name):
    """Without columns or aggregators there is no query, otherwise one without conditions."""
    sizes = {"columns": 2, "aggregators": 2, "operators": 1, "words": 3} | {name: 0}
    columns, aggregators, operators, words = sizes.values()
    queries = QueryDistribution.from_logits(
        select=jnp.zeros((1, columns)),
        aggregator=jnp.zeros((1, columns, aggregators)),
        number=jnp.zeros((1, 3)),
        column=jnp.zeros((1, columns)),
        operator=jnp.zeros((1, columns, operators)),
        first=jnp.zeros((1, columns, operators, words)),
        last=jnp.zeros((1, columns, operators, words)),
        columns=jnp.ones((1, columns), bool),
        words=jnp.ones((1, words), bool),
    )
    (samples, log_probs), (possible, scores), _ = sampled(queries)
    assert queries.greedy().shape == (1, 11)
    if name in ("columns", "aggregators"):
        assert (samples == -1).all() and (log_probs == -jnp.inf).all()
        return
    assert (scores[0] > -jnp.inf).sum() == 4 and (possible[0, :4, 2] == 0).all()
    assert {tuple(z) for z in samples[0].tolist()} <= {tuple(z) for z in possible[0].tolist()}
    np.testing.assert_allclose(log_probs, np.log(1 / 4), rtol=1e-5)


def test_a_support_may_link_no_condition():
    within = Support(jnp.zeros((B, 0, 4), jnp.int32), jnp.ones((B, 4, 2), bool))
    (samples, log_probs), *_ = sampled(distribution(values()), within)
    assert (samples[..., 2] == 0).all() and jnp.isfinite(log_probs).all()
