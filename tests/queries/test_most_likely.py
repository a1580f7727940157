"""Search of Z_tot: against executing every query of it."""

import random
from collections import defaultdict

import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax.queries.distribution import QueryDistribution
from hardem_jax.queries.most_likely import AllowedQueries, QueryScores
from hardem_jax.tables.table import split_words
from tests.marks import slow
from tests.queries.solutions.brute import random_problem

NUM_COLUMNS, NUM_WORDS = 4, 14
SHAPES = {"select": (4,), "aggregator": (4, 6), "number": (4,), "column": (4,), "operator": (4, 3)}
SHAPES |= {"first": (4, 3, NUM_WORDS), "last": (4, 3, NUM_WORDS)}


def random_distribution(rng, num_columns, num_words, *, scale=2.0):
    """Sharp enough to have a best query, over tables of one size so that one program serves all."""
    draws = {name: scale * rng.standard_normal((1, *shape)) for name, shape in SHAPES.items()}
    return QueryDistribution.from_logits(
        **{name: jnp.asarray(draw, jnp.float32) for name, draw in draws.items()},
        columns=jnp.asarray(np.arange(NUM_COLUMNS)[None] < num_columns),
        words=jnp.asarray(np.arange(NUM_WORDS)[None] < num_words),
    )


def scores_of(distribution):
    return QueryScores(*(np.asarray(getattr(distribution, name))[0] for name in SHAPES))


def log_probs_of(distribution, rows):
    """By the distribution itself, in blocks of one size."""
    found = []
    for start in range(0, len(rows), 512):
        block = np.full((512, 15), -1, np.int32)
        part = rows[start : start + 512]
        block[: len(part)] = part
        found += distribution.log_prob(jnp.asarray(block)[None])[0, : len(part)].tolist()
    return np.array(found)


@pytest.mark.parametrize("seed", [3, *slow(1, 2, 4)])
def test_top_and_results_equal_brute_force(seed):
    """Every option of the rules, tables of up to three columns, questions of up to three words."""
    rng, noise = random.Random(seed), np.random.default_rng(seed)
    several = 0
    for _ in range(40):
        rules, table, question, expected = random_problem(rng)
        words = split_words(question)
        distribution = random_distribution(noise, len(table.header), len(words))
        space = AllowedQueries(table, question, words, rules)
        scores = scores_of(distribution)
        queries, log_probs = space.top(scores, 7)
        rows = list(expected)
        theirs = log_probs_of(distribution, rows)
        order = np.argsort(-theirs, kind="stable")[:7]
        np.testing.assert_allclose(log_probs, theirs[order], atol=2e-5)
        place = {row: index for index, row in enumerate(rows)}
        ours = [place[tuple(row)] for row in queries.tolist()]
        np.testing.assert_allclose(log_probs, theirs[ours], atol=2e-5)
        assert len(set(ours)) == len(ours) == min(7, len(rows))
        several += len(rows) > 7

        mass = defaultdict(float)
        for row, log_prob in zip(rows, theirs, strict=True):
            mass[tuple(expected[row])] += np.exp(log_prob)
        results, left = space.results(scores, max_executions=10**9)
        if not rows:
            assert results == [] and left == 0
            continue
        assert np.exp(results[0].log_prob) <= max(mass.values()) * (1 + 1e-4)
        assert mass[tuple(results[0].result)] >= max(mass.values()) * (1 - 1e-4)
        assert tuple(expected[tuple(results[0].query.tolist())]) == tuple(results[0].result)
        seen = sum(np.exp(found.log_prob) for found in results)
        np.testing.assert_allclose(seen / (1 - left), sum(mass.values()), rtol=1e-4)
    assert several > 20
