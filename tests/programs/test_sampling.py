"""What sums, samples and searches of programs make of missing parts and certain ones."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax.programs.distribution import ProgramDistribution
from hardem_jax.programs.sampling import Support
from tests.programs.test_distribution import KINDS, B, F, M, by_formula, logits, programs_of
from tests.programs.test_distribution import distribution as distribution_of
from tests.tables.sampling import KEYS, found

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
    return own | {"shape": np.random.default_rng(seed + 10).normal(size=(B, S)).astype(np.float32)}


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


@pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf])
def test_rows_that_have_no_program_have_no_nan(fill):
    """Row 0 has no field; row 1 has fields, but no links."""
    fields = np.array([[False] * F, [True] * (F - 1) + [False]])
    links = np.zeros((B, M), bool)
    tables = values() | {name: np.full_like(logits()[name], fill) for name in ("link1", "link2")}
    tables["select"][0] = tables["modify"][0] = fill

    def without(tables):
        return distribution(tables, fields=fields, links=links)

    mass, (drawn, log_probs), (best, _), grads = found(without, tables, within=WITHIN)
    assert mass[0] == -np.inf and np.all(log_probs[:, 0] == -np.inf)
    assert np.all(drawn[:, 0] == -1) and np.all(best[0] == -1)
    assert np.all(drawn[:, 1, :, 0] == 0) and np.all(drawn[:, 1, :, 2:] == -1)
    np.testing.assert_allclose(mass[1], 0, atol=1e-6)
    for name, grad in grads.items():
        assert np.all(np.isfinite(grad)), name


def test_certain_factors_are_always_drawn():
    """Also where the likeliest second link is one that the first does not allow."""
    tables = {name: np.zeros_like(x) for name, x in values().items()}
    tables["shape"][:, 3] = 200.0
    tables["select"][..., 0] = tables["modify"][..., 1] = 200.0
    tables["link1"][..., 1], tables["link2"][..., 0] = 200.0, 100.0
    _, (drawn, log_probs), *_ = found(distribution, tables, within=WITHIN)
    assert np.all(drawn[:, 0] == [3, 0, 1, 1, 2])  # row 0 has three links
    assert np.all(drawn[:, 1, :, :4] == [3, 0, 1, 1]) and {*drawn[0, 1, :, 4].tolist()} == {2, 3}
    np.testing.assert_allclose(log_probs[:, 0], 0, atol=1e-4)
    np.testing.assert_allclose(log_probs[:, 1], -np.log(2), atol=1e-4)


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
    best, scores = programs.top(30, within=within)
    assert set(map(tuple, best[scores > -jnp.inf].tolist())) == expected
    samples, log_probs = programs.sample(KEYS[0], 50, within=within)
    assert {tuple(z) for z in samples[0].tolist()} <= expected and jnp.isfinite(log_probs).all()
