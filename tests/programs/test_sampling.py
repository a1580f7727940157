"""Sums over programs, samples of them and the best of them, against exhaustive enumeration."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from hardem_jax.programs.distribution import ProgramDistribution
from hardem_jax.programs.sampling import Support
from tests.frequencies import p_value
from tests.marks import slow
from tests.programs.test_distribution import (
    FIELDS,
    KINDS,
    LINKS,
    NUM_FIELDS,
    NUM_LINKS,
    SLOTS,
    B,
    F,
    M,
    by_formula,
    logits,
    programs_of,
)
from tests.programs.test_distribution import distribution as distribution_of

#: With a shape that has no field of the result, and one with the slots of the one before it.
SHAPES = (*KINDS, (-1, 1, 1, -1), (2, 1, 0, 0))
S = len(SHAPES)
#: The fields of some shapes ascend; links follow one another in two ways.
RULES = ((-1, -1), (-1, 1), (0, -1), (0, 0), (0, 1), (-1, 1))
_RNG = np.random.default_rng(3)
FOLLOWS = np.stack([np.triu(np.ones((B, M, M), bool), 1), _RNG.random((B, M, M)) < 0.5], axis=1)
WITHIN = Support(np.triu(np.ones((1, 1, F, F), bool), 1), FOLLOWS, RULES)


def values(seed=0, fill=None):
    own = logits(seed, fill)
    rng = np.random.default_rng(seed + 10)
    return own | {"shape": rng.normal(size=(B, S)).astype(np.float32)}


def distribution(tables, **others):
    return distribution_of(tables, kinds=SHAPES, **others)


def is_within(row, program):
    shape, select, modify, first, second = program
    fields, links = RULES[shape]
    if fields >= 0 <= select and modify >= 0 and not WITHIN.fields[0, fields, select, modify]:
        return False
    return links < 0 or first < 0 or second < 0 or bool(FOLLOWS[row, links, first, second])


def enumerated(row, within=None, seed=0):
    """The programs of a row that are allowed, and their log-probabilities."""
    every = [tuple(z) for z in programs_of(row, SHAPES) if within is None or is_within(row, z)]
    return every, np.array([by_formula(values(seed), row, z, SHAPES) for z in every])


COUNT, KEYS = 6_000, jax.random.split(jax.random.key(1), 4)
SOME = [WITHIN, *slow(None)]


def computed(tables, within, *, fields=FIELDS, links=LINKS, k=40):
    """Everything that there is to test, so that it is compiled once."""
    return _computed(tables, within, fields, links, KEYS, k)


@functools.partial(jax.jit, static_argnums=5)
def _computed(tables, within, fields, links, keys, k):

    def total(tables):
        programs = distribution(tables, fields=fields, links=links)
        mass = programs.log_mass(within=within)
        samples = jax.lax.map(lambda key: programs.sample(key, COUNT, within=within), keys)
        best = programs.top(k, within=within)
        return jnp.sum(jnp.where(mass > -jnp.inf, mass, 0.0)), (mass, samples, best)

    (_, found), grads = jax.value_and_grad(total, has_aux=True)(tables)
    return jax.tree.map(jax.lax.stop_gradient, (*found, grads))


@pytest.mark.parametrize("seed", [0, *slow(1, 2)])
@pytest.mark.parametrize("within", SOME)
def test_log_mass_sums_over_every_program(seed, within):
    mass, *_ = computed(values(seed, fill=9.0), within)
    expected = [scipy.special.logsumexp(enumerated(row, within, seed)[1]) for row in range(B)]
    assert within is None or np.max(expected) < -0.1
    np.testing.assert_allclose(mass, expected, rtol=1e-5, atol=2e-6)


def test_the_gradient_of_log_mass_is_that_of_the_sum():
    """The mean under P' of the gradient of log P(z): an entry's share in z minus its P."""
    *_, grads = computed(values(fill=9.0), WITHIN)
    tables = values()
    for row in range(B):
        every, log_probs = enumerated(row, WITHIN)
        expected = {name: np.zeros(x.shape[1:]) for name, x in tables.items()}
        for z, share in zip(every, scipy.special.softmax(log_probs), strict=True):
            sizes = S, *[NUM_FIELDS[row]] * 2, *[NUM_LINKS[row]] * 2
            kinds = 0, *SHAPES[z[0]]
            for name, size, kind, entry in zip(("shape", *SLOTS), sizes, kinds, z, strict=True):
                if kind >= 0:
                    logits = np.atleast_2d(tables[name][row])[kind, :size]
                    own = np.eye(size)[entry] - scipy.special.softmax(logits)
                    np.atleast_2d(expected[name])[kind, :size] += share * own
        for name, grad in grads.items():
            np.testing.assert_allclose(grad[row], expected[name], atol=2e-6, err_msg=name)
            assert np.abs(expected[name]).max() > 1e-3


@pytest.mark.parametrize("within", SOME)
def test_samples_have_the_frequencies_of_the_distribution(within):
    """Whatever the key."""
    _, (found, log_probs), *_ = map_arrays(computed(values(fill=9.0), within))
    p_values = []
    for row in range(B):
        every, scores = enumerated(row, within)
        scores -= scipy.special.logsumexp(scores)
        place = {z: i for i, z in enumerate(every)}
        for programs, own in zip(found[:, row], log_probs[:, row], strict=True):
            drawn = [place[tuple(z)] for z in programs.tolist()]  # all of them are allowed
            np.testing.assert_allclose(own, scores[drawn], rtol=1e-4, atol=1e-5)
            p_values.append(p_value(drawn, scores))
    # Of 8 uniform ones, the least is below 0.001 in one of 125 cases, the median below 0.1 in 200.
    assert min(p_values) > 0.001 and np.median(p_values) > 0.1, p_values


def test_samples_are_independent_of_one_another():
    _, (found, _), *_ = map_arrays(computed(values(fill=9.0), WITHIN))
    first, second = found[:, 0, : COUNT // 2, 0], found[:, 0, COUNT // 2 :, 0]
    table = scipy.stats.contingency.crosstab(first.ravel(), second.ravel()).count
    assert scipy.stats.chi2_contingency(table).pvalue > 0.01


@pytest.mark.parametrize("within, k", [(WITHIN, 40), *slow((WITHIN, 1), (WITHIN, 900), (None, 40))])
def test_the_best_of_those_allowed_are_found(within, k):
    *_, (found, scores), _ = map_arrays(computed(values(fill=9.0), within, k=k))
    for row in range(B):
        every, log_probs = enumerated(row, within)
        order = np.argsort(-log_probs)[:k]
        assert [*map(tuple, found[row, : len(order)].tolist())] == [every[i] for i in order]
        np.testing.assert_allclose(scores[row, : len(order)], log_probs[order], rtol=1e-5)
        assert np.all(found[row, len(order) :] == -1)
        assert np.all(scores[row, len(order) :] == -np.inf)


@pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf])
def test_rows_that_have_no_program_have_no_nan(fill):
    """Row 0 has no field; row 1 has fields, but no links."""
    fields = np.array([[False] * F, [True] * (F - 1) + [False]])
    links = np.zeros((B, M), bool)
    tables = values() | {name: np.full_like(logits()[name], fill) for name in ("link1", "link2")}
    tables["select"][0] = tables["modify"][0] = fill
    mass, (found, log_probs), (best, _), grads = map_arrays(
        computed(tables, WITHIN, fields=fields, links=links)
    )
    assert mass[0] == -np.inf and np.all(log_probs[:, 0] == -np.inf)
    assert np.all(found[:, 0] == -1) and np.all(best[0] == -1)
    assert np.all(found[:, 1, :, 0] == 0) and np.all(found[:, 1, :, 2:] == -1)
    np.testing.assert_allclose(mass[1], 0, atol=1e-6)
    for name, grad in grads.items():
        assert np.all(np.isfinite(grad)), name


def test_certain_factors_are_always_drawn():
    """Also where the likeliest second link is one that the first does not allow."""
    tables = {name: np.zeros_like(x) for name, x in values().items()}
    tables["shape"][:, 3] = 200.0
    tables["select"][..., 0] = tables["modify"][..., 1] = 200.0
    tables["link1"][..., 1], tables["link2"][..., 0] = 200.0, 100.0
    _, (found, log_probs), *_ = map_arrays(computed(tables, WITHIN))
    assert np.all(found[:, 0] == [3, 0, 1, 1, 2])  # row 0 has three links
    assert np.all(found[:, 1, :, :4] == [3, 0, 1, 1]) and {*found[0, 1, :, 4].tolist()} == {2, 3}
    np.testing.assert_allclose(log_probs[:, 0], 0, atol=1e-4)
    np.testing.assert_allclose(log_probs[:, 1], -np.log(2), atol=1e-4)


def map_arrays(tree):
    return jax.tree.map(np.asarray, tree)


@pytest.mark.parametrize("ruled", [False, True])
@pytest.mark.parametrize(("num_fields", "num_links"), [(3, 0), (0, 4), (0, 0)])
def test_there_may_be_no_links_or_no_fields(num_fields, num_links, ruled):
    """Only shapes without their slots are possible then."""
    kinds = ((0, -1, -1, -1), (-1, -1, 0, 0), (-1, -1, -1, -1), (0, 0, 0, 0))
    sizes = {"select": num_fields, "modify": num_fields, "link1": num_links, "link2": num_links}
    programs = ProgramDistribution.from_logits(
        shape=jnp.zeros((1, 4)),
        **{name: jnp.zeros((1, 1, size)) for name, size in sizes.items()},
        **{f"{name}_where": jnp.ones((1, 1, size), bool) for name, size in sizes.items()},
        kinds=kinds,
    )
    within = None
    if ruled:
        pairs = [jnp.ones((1, 1, size, size), bool) for size in (num_fields, num_links)]
        within = Support(*pairs, ((-1, -1), (-1, 0), (-1, -1), (0, 0)))
    expected = {(2, -1, -1, -1, -1)}
    expected |= {(0, field, -1, -1, -1) for field in range(num_fields)}
    expected |= set(itertools.product([1], [-1], [-1], range(num_links), range(num_links)))
    found, scores = programs.top(30, within=within)
    possible = set(map(tuple, found[scores > -jnp.inf].tolist()))
    assert possible == expected
    samples, log_probs = programs.sample(KEYS[0], 50, within=within)
    assert {tuple(z) for z in samples[0].tolist()} <= expected and jnp.isfinite(log_probs).all()


def test_nan_is_not_taken_for_no_program():
    tables = {name: np.full_like(table, np.nan) for name, table in values().items()}
    programs = distribution(tables)
    assert jnp.isnan(programs.sample(KEYS[0], 3)[1]).all() and jnp.isnan(programs.top(1)[1]).all()
