"""Estimates over programs, whose exact gradients are sums over all that are allowed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax.search import candidates
from hardem_jax.search.objectives import MAPO, Reinforce
from tests.marks import slow
from tests.programs.test_distribution import B
from tests.programs.test_sampling import WITHIN, distribution, enumerated, values
from tests.search.test_objectives import Given, clipped_loss, within_three_standard_errors

ROWS = np.ones(B, bool)
EVERY = [np.array(enumerated(row, WITHIN)[0]) for row in range(B)]
LARGEST = max(map(len, EVERY))
#: All programs of each row, padded, and the right ones, arbitrary.
SPACE = np.stack([np.pad(e, ((0, LARGEST - len(e)), (0, 0)), constant_values=-1) for e in EVERY])
RIGHT = np.stack([np.random.default_rng(5).permutation(e)[:9] for e in EVERY])
INSIDE = np.asarray(candidates.contains(jnp.asarray(RIGHT[:, :3]), jnp.asarray(SPACE)))
REWARDED = np.asarray(candidates.contains(jnp.asarray(RIGHT), jnp.asarray(SPACE)))


def policy(tables):
    """log P' of every program, ``[B, N]``, by enumeration; -inf at padding."""
    where = SPACE[..., 0] >= 0
    log_probs = distribution(tables).log_prob(jnp.asarray(SPACE))
    return jax.nn.log_softmax(jnp.where(where, log_probs, -jnp.inf))


def expected_reward(tables):
    return -jnp.mean(jnp.sum(jnp.exp(policy(tables)), axis=-1, where=REWARDED))


def clipped(tables):
    return clipped_loss(policy(tables), INSIDE, REWARDED, 0.6)


CASES = [(Reinforce(samples=4, baseline="none"), expected_reward)]
CASES += slow(
    (Reinforce(samples=4), expected_reward),
    (MAPO(samples=4, explore=0, memory=3, alpha=0.6), clipped),
)


@pytest.mark.parametrize("objective, expected", CASES)
def test_estimates_have_the_mean_of_the_exact_gradient(objective, expected):
    memory = {n: np.repeat(row[None], B, axis=0) for n, row in objective.remembers(5).items()}
    if memory:
        memory["solutions"] = jnp.asarray(RIGHT[:, :3])

    def estimate(key):
        def loss(tables):
            space = Given(distribution(tables), jnp.asarray(RIGHT), {"within": WITHIN})
            return objective(space, memory, step=0, key=key, rows=jnp.asarray(ROWS))[0]

        return jax.grad(loss)(values())

    within_three_standard_errors(estimate, jax.jit(jax.grad(expected))(values()))
