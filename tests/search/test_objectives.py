"""Objectives that search, against exact expectations and against losses over the whole of Z."""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax import losses, posteriors
from hardem_jax.objectives import AnyObjective, label
from hardem_jax.queries.distribution import QueryDistribution
from hardem_jax.search import candidates
from hardem_jax.search.objectives import (
    MAPO,
    MAPOX,
    MERL,
    AnySearchObjective,
    BeamHardEM,
    BeamMML,
    IterativeML,
    Reinforce,
)
from tests.marks import slow
from tests.queries.test_distribution import COLUMNS, WORDS, B, K, logits, queries_of

WIDTH = 3 + 4 * K
ROWS = np.ones(B, bool)
EVERY = [np.array(list(queries_of(row))) for row in range(B)]
LONGEST = max(map(len, EVERY))
#: All queries of each row, padded.
SPACE = np.stack([np.pad(e, ((0, LONGEST - len(e)), (0, 0)), constant_values=-1) for e in EVERY])
#: The queries that lead to the answers, arbitrary ones: Z.
RIGHT = np.stack([np.random.default_rng(5).permutation(e)[:9] for e in EVERY])
KEY = jax.random.key(7)


@dataclasses.dataclass(frozen=True)
class Given:
    """A distribution whose Z is given as an array, so that rewards need no host."""

    found: Any
    right: jax.Array
    limits: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def beam(self, count):
        return jax.lax.stop_gradient(self.found).top(count, **self.limits)[0]

    def sample(self, key, count):
        return jax.lax.stop_gradient(self.found).sample(key, count, **self.limits)[0]

    def log_prob(self, solutions):
        return self.found.log_prob(solutions)

    def log_mass(self):
        return self.found.log_mass(**self.limits)

    def reward(self, solutions, where):
        return (candidates.contains(self.right, solutions) & where).astype(jnp.float32)


def space_of(values, right=RIGHT):
    found = QueryDistribution.from_logits(**values, columns=COLUMNS, words=WORDS)
    return Given(found, jnp.asarray(right))


def first_memory(objective, batch=B):
    rows = objective.remembers(WIDTH)
    return {name: jnp.repeat(jnp.asarray(row)[None], batch, axis=0) for name, row in rows.items()}


def policy(values):
    """log P' of every query, ``[B, N]``, by enumeration; -inf at padding."""
    found = QueryDistribution.from_logits(**values, columns=COLUMNS, words=WORDS)
    where = candidates.exist(jnp.asarray(SPACE))
    return jax.nn.log_softmax(jnp.where(where, found.log_prob(jnp.asarray(SPACE)), -jnp.inf))


def right_of(queries, space=SPACE):
    return np.asarray(candidates.contains(jnp.asarray(queries), jnp.asarray(space)))


def flat(grads):
    return jnp.concatenate([x.reshape(-1) for x in jax.tree.leaves(grads)])


def within_three_standard_errors(gradient, exact, draws=3000):
    """Along fixed random directions of the logits."""
    keys = jax.random.split(KEY, draws)
    estimates = jax.jit(lambda k: jax.lax.map(lambda x: flat(gradient(x)), k, batch_size=100))(keys)
    exact = flat(exact)
    directions = np.random.default_rng(1).normal(size=(6, len(exact)))
    along = np.asarray(estimates, np.float64) @ directions.T
    error = np.abs(along.mean(0) - directions @ np.asarray(exact, np.float64))
    standard = along.std(0, ddof=1) / np.sqrt(draws)
    assert np.all(standard > 0) and np.all(error < 3 * standard), error / standard
    assert np.linalg.norm(exact) > 1e-3


# With the leave-one-out baseline advantages sum to 0, and the normalisation cancels.
@pytest.mark.parametrize("baseline", ["none", *slow("leave-one-out")])
def test_reinforce_estimates_the_gradient_of_the_expected_reward(baseline):
    objective = Reinforce(samples=4, baseline=baseline)
    right = right_of(RIGHT)

    def expected(values):
        return -jnp.mean(jnp.sum(jnp.exp(policy(values)), axis=-1, where=right))

    def estimate(key):
        def loss(values):
            return objective(space_of(values), {}, step=0, key=key, rows=jnp.asarray(ROWS))[0]

        return jax.grad(loss)(logits())

    within_three_standard_errors(estimate, jax.jit(jax.grad(expected))(logits()))


@dataclasses.dataclass(frozen=True)
class FourSolutions:
    """A softmax over the solutions 0 to 3, of which the first two are right, and given samples."""

    logits: jax.Array
    drawn: jax.Array

    def sample(self, key, count):
        del key
        # Every one, right or wrong, in memory or not.
        explored = jnp.arange(count, dtype=jnp.int32) % 4
        samples = self.drawn if count == len(self.drawn) else explored
        return samples[None, :, None]

    def log_prob(self, solutions):
        return jax.nn.log_softmax(self.logits)[solutions[..., 0]]

    def log_mass(self):
        return jnp.zeros(1, jnp.float32)

    def reward(self, solutions, where):
        return ((solutions[..., 0] < 2) & where).astype(jnp.float32)


LIKELY = np.log(np.array([0.6, 0.1, 0.2, 0.1], np.float32))


def mapo_over_four(logits, known, alpha):
    """The cost of one question with some of the four solutions in memory, exactly."""
    inside, right = np.isin(np.arange(4), known), np.arange(4) < 2
    log_probs = jax.nn.log_softmax(logits)
    probs = jax.lax.stop_gradient(jnp.exp(log_probs))
    mass = jnp.sum(probs, where=inside)
    weight = jnp.maximum(mass, alpha) if known else 0.0
    own = jnp.sum(probs * log_probs, where=inside) / jnp.maximum(mass, 1e-30)
    rest = jnp.sum(probs * log_probs, where=right & ~inside) / jnp.maximum(1 - mass, 1e-30)
    return -weight * own - (1 - weight) * rest


@pytest.mark.parametrize("explore", [0, *slow(2)])
@pytest.mark.parametrize("known", [[0], [1], [], *slow([0, 1])], ids=str)
@pytest.mark.parametrize("alpha", [0.0, 0.8])
@pytest.mark.parametrize("samples", [1, 2, *slow(4)])
def test_mapo_is_unbiased_however_often_samples_are_in_memory(samples, alpha, known, explore):
    """Over all 4 ** K draws: also those whose samples are all in memory, so that none is left.

    The solutions that are explored do not enter the estimate.
    """
    objective = MAPO(samples=samples, explore=explore, memory=2, alpha=alpha, seen=4)
    solutions = jnp.array([*known, -1, -1][:2]).reshape(1, 2, 1)
    memory = first_memory(objective, 1) | {"solutions": solutions}
    outcomes = np.array(list(itertools.product(range(4), repeat=samples)))

    def gradient(drawn):
        def loss(logits):
            space = FourSolutions(logits, drawn)
            return objective(space, memory, step=0, key=KEY, rows=jnp.ones(1, bool))[0]

        return jax.grad(loss)(LIKELY)

    gradients = np.asarray(jax.jit(jax.vmap(gradient))(outcomes), float)
    got = np.exp(LIKELY)[outcomes].prod(axis=1) @ gradients
    np.testing.assert_allclose(got, jax.grad(mapo_over_four)(LIKELY, known, alpha), atol=1e-6)
    if alpha == 0:  # then it is the gradient of the expected reward
        reward = jax.grad(lambda x: -jnp.sum(jax.nn.softmax(x)[:2]))(LIKELY)
        np.testing.assert_allclose(got, reward, atol=1e-6)


@pytest.mark.parametrize("known", [[], [0]], ids=str)
def test_mapo_gives_no_weight_to_a_remembered_solution_without_mass(known):
    logits = jnp.asarray(LIKELY).at[3].set(-jnp.inf)

    def loss(solutions):
        objective = MAPO(samples=2, explore=0, memory=2, alpha=0.5, seen=4)
        memory = first_memory(objective, 1) | {"solutions": solutions.reshape(1, 2, 1)}
        space = FourSolutions(logits, jnp.array([1, 2]))
        return objective(space, memory, step=0, key=KEY, rows=jnp.ones(1, bool))[0]

    np.testing.assert_allclose(
        loss(jnp.array([*known, 3, -1][:2])), loss(jnp.array([*known, -1, -1][:2])), rtol=1e-6
    )


def uniform_loss(log_probs, **rows):
    return losses.em_loss(log_probs, posteriors.uniform, **rows)


OVER_Z = [(BeamHardEM, losses.hard_em_loss)]
OVER_Z += slow((BeamMML, losses.mml_loss), (IterativeML, uniform_loss))


@pytest.mark.parametrize("kind, loss_over_z", OVER_Z)
def test_with_a_beam_that_holds_everything_it_is_the_loss_over_z(kind, loss_over_z):
    """Row 1 has 42 queries, so a beam of 42 holds them all; row 0 is not real."""
    rows, beam = jnp.array([False, True]), len(EVERY[1])
    objective = kind(beam=beam, memory=12)

    def searched(values):
        return objective(space_of(values), first_memory(objective), step=0, key=KEY, rows=rows)

    def given(values):
        where = jnp.array([[False] * 9, [True] * 9])
        return loss_over_z(space_of(values).log_prob(jnp.asarray(RIGHT)), where=where)

    def with_gradient(values):
        (value, (counts, memory)), grads = jax.value_and_grad(
            lambda v: (lambda x: (x[0], x[1:]))(searched(v)), has_aux=True
        )(values)
        return value, counts, memory, grads

    value, counts, memory, grads = jax.jit(with_gradient)(logits())
    expected, expected_grads = jax.jit(jax.value_and_grad(given))(logits())
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    np.testing.assert_allclose(flat(grads), flat(expected_grads), atol=1e-5)
    known = {*map(tuple, memory["solutions"][1].tolist())}
    assert known == {(-1,) * WIDTH, *map(tuple, RIGHT[1].tolist())}
    assert float(counts["found"][0]) == float(counts["found"][1]) == 1
    assert counts["reward"][0] == 9 and counts["reward"][1] == beam
    assert counts["remembered"][0] == 9 and counts["averaged"][0] == 1


@pytest.mark.parametrize("kind", [Reinforce, BeamHardEM, *slow(BeamMML, MAPO, MAPOX)])
def test_without_a_reward_there_is_no_gradient(kind):
    """Nor NaN; a third question, which is padding, has no columns, and its memory reads 0."""
    objective = kind()
    values = {n: np.concatenate([x, x[:1]]) for n, x in logits(fill=np.nan).items()}
    columns = np.concatenate([COLUMNS, [[False] * 4]])
    words = np.concatenate([WORDS, [[False] * 4]])
    rows = jnp.array([True, True, False])
    memory = jax.tree.map(lambda x: x.at[2].set(0), first_memory(objective, 3))

    def loss(values):
        found = QueryDistribution.from_logits(**values, columns=columns, words=words)
        space = Given(found, jnp.full((3, 1, WIDTH), -1))
        value, counts, after = objective(space, memory, step=0, key=KEY, rows=rows)
        return value, (counts, after)

    (value, (counts, after)), grads = jax.jit(jax.value_and_grad(loss, has_aux=True))(values)
    assert value == 0 and not np.any(flat(grads))
    assert counts["found"] == (0, 2) and counts["reward"][0] == 0 < counts["reward"][1]
    if "solutions" in after:
        assert np.all(np.asarray(after["solutions"])[:2] == -1)


def test_what_was_found_stays_known_without_being_drawn_again():
    """Hard EM on a beam of one that is wrong still learns from its memory."""
    objective = BeamHardEM(beam=1, memory=4)
    memory = {"solutions": jnp.asarray(RIGHT[:, :4])}
    values = logits()

    def loss(values):
        return objective(space_of(values), memory, step=0, key=KEY, rows=jnp.asarray(ROWS))[0]

    log_probs = jax.jit(lambda v: space_of(v).log_prob(jnp.asarray(RIGHT[:, :4])))(values)
    assert not right_of(RIGHT, np.asarray(jax.jit(lambda v: space_of(v).beam(1))(values))).any()
    np.testing.assert_allclose(jax.jit(loss)(values), -jnp.mean(jnp.max(log_probs, -1)), rtol=1e-5)


def test_what_is_remembered_is_not_explored_though_it_was_tried_long_ago():
    objective = MAPO(samples=2, explore=4, memory=2, seen=2)
    known = jnp.array([[[0], [1]]])
    space = FourSolutions(jnp.asarray(LIKELY), jnp.array([2, 3]))
    seen = candidates.see(jnp.zeros((1, 2), jnp.uint32), jnp.array([[[2]]]), jnp.ones((1, 1), bool))
    assert objective._new(space, known, seen, KEY).ravel().tolist() == [3, -1, -1, -1]


@pytest.mark.parametrize("kind", [Reinforce, MAPO, MAPOX])
def test_nan_shows_in_the_loss_which_has_32_bits(kind):
    objective = kind(samples=2)
    memory = {name: jnp.asarray(row[None]) for name, row in objective.remembers(1).items()}

    def loss(logits, real=True):
        space = FourSolutions(logits, jnp.array([1, 2], jnp.int32))
        call = {"step": jnp.int32(0), "key": KEY, "rows": jnp.array([real])}
        return objective(space, memory, **call)[0]

    assert jnp.isnan(loss(jnp.full(4, jnp.nan))) and loss(jnp.full(4, jnp.nan), False) == 0
    for project in (jax.enable_x64(True), jax.numpy_dtype_promotion("strict")):
        with project:
            assert jax.eval_shape(loss, LIKELY).dtype == jnp.float32


@pytest.mark.slow
def test_mapox_is_iterative_ml_at_first():
    objective = MAPOX(samples=2, explore=2, memory=3, warmup=10)
    memory = first_memory(objective) | {"solutions": jnp.asarray(RIGHT[:, :3])}
    space = space_of(logits(), right=RIGHT[:, :3])  # nothing else can be found
    call = {"key": KEY, "rows": jnp.asarray(ROWS)}
    loss = jax.jit(lambda step: objective(space, memory, step=step, **call)[0])
    early, late = loss(9), loss(10)
    spread = -jnp.mean(jnp.sum(policy(logits()), axis=-1, where=right_of(RIGHT[:, :3])) / 3)
    np.testing.assert_allclose(early, spread, rtol=1e-5)
    mapo = MAPO(samples=2, explore=2, memory=3)
    of_mapo = jax.jit(lambda step: mapo(space, memory, step=step, **call)[0])(10)
    np.testing.assert_allclose(late, of_mapo, rtol=1e-5)
    assert abs(float(early) - float(late)) > 0.01


@pytest.mark.parametrize("kind", get_args(AnySearchObjective))
def test_labels_differ_from_those_of_all_objectives(kind):
    titles = [other.title for other in (*get_args(AnyObjective), *get_args(AnySearchObjective))]
    assert label(kind()) == kind.title and titles.count(kind.title) == 1


def test_values_without_meaning_are_refused():
    """Limits of their own; numbers that mean nothing anywhere are tried as flags."""
    wrong = {Reinforce: {"samples": 1}, MAPO: {"alpha": 1.0}, MERL: {"held_out": 1}}
    wrong |= {BeamMML: {"beam": 10.5}, MAPOX: {"samples": None}}
    for kind, options in wrong.items():
        with pytest.raises(ValueError, match="expected|needs"):
            kind(**options)
