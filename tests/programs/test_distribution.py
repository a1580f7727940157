"""P(z | x) over programs against its formula and against exhaustive enumeration."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax.programs.distribution import SLOTS, ProgramDistribution
from hardem_jax.programs.most_likely import ProgramScores

B, S, F, M = 2, 4, 5, 4
# Nothing but a result; a condition; a modifier and a condition; all slots.
KINDS = ((0, -1, -1, -1), (1, -1, 0, -1), (1, 0, 1, -1), (2, 1, 0, 0))
SHAPES = {"shape": (B, S), "select": (B, 3, F), "modify": (B, 2, F)}
SHAPES |= {"link1": (B, 2, M), "link2": (B, 1, M)}
NUM_FIELDS, NUM_LINKS = (4, 2), (3, 4)
FIELDS = np.arange(F)[None] < np.array(NUM_FIELDS)[:, None]
LINKS = np.arange(M)[None] < np.array(NUM_LINKS)[:, None]


def logits(seed=0, fill=None):
    """Random ones; ``fill`` stands wherever there is neither field nor link."""
    rng = np.random.default_rng(seed)
    values = {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    if fill is not None:
        for name in SLOTS:
            where = LINKS if "link" in name else FIELDS
            values[name] = np.where(where[:, None], values[name], fill)
    return values


def distribution(values, *, fields=FIELDS, links=LINKS, kinds=KINDS, **others):
    masks = {"select": fields, "modify": fields, "link1": links, "link2": links}
    where = {f"{n}_where": jnp.broadcast_to(x[:, None], SHAPES[n]) for n, x in masks.items()}
    return ProgramDistribution.from_logits(**values, kinds=kinds, **where | others)


def programs_of(row, kinds=KINDS):
    """All combinations of slots of one example."""
    sizes = NUM_FIELDS[row], NUM_FIELDS[row], NUM_LINKS[row], NUM_LINKS[row]
    for shape, slots in enumerate(kinds):
        ranges = [range(n) if k >= 0 else (-1,) for n, k in zip(sizes, slots, strict=True)]
        yield from ([shape, *entries] for entries in itertools.product(*ranges))


def log_softmax(x):
    x = x.astype(np.float64)
    return x - np.log(np.exp(x).sum())


def by_formula(values, row, program, kinds=KINDS):
    """log P(z), factor by factor, in float64."""
    shape, *slots = program
    log_prob = log_softmax(values["shape"][row])[shape]
    sizes = NUM_FIELDS[row], NUM_FIELDS[row], NUM_LINKS[row], NUM_LINKS[row]
    for name, size, kind, entry in zip(SLOTS, sizes, kinds[shape], slots, strict=True):
        if kind >= 0:
            log_prob += log_softmax(values[name][row, kind, :size])[entry]
    return log_prob


def test_log_prob_is_the_sum_of_the_factors():
    rng = np.random.default_rng(0)
    rows = [np.array(list(programs_of(row))) for row in range(B)]
    chosen = np.stack([rng.permutation(row)[:60] for row in rows])
    values = logits()
    expected = [[by_formula(values, row, z) for z in chosen[row]] for row in range(B)]
    found = distribution(logits(fill=7.0)).log_prob(jnp.asarray(chosen, jnp.int16))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_shapes_that_nothing_can_fill_have_no_mass():
    programs = distribution(logits(), links=np.zeros((B, M), bool))
    assert np.isfinite(programs.shape).tolist() == [[True, False, False, False]] * B
    np.testing.assert_allclose(programs.shape[:, 0], 0, atol=1e-6)
    assert np.all(distribution(logits(), fields=np.zeros((B, F), bool)).shape == -np.inf)
    allowed = np.array([[True, False, True, False]] * B)
    chosen = distribution(logits(), shape_where=allowed).shape
    assert np.array_equal(np.isfinite(chosen), allowed)
    np.testing.assert_allclose(np.exp(chosen).sum(axis=-1), 1, rtol=1e-6)
    # Kind 1 of the first link is that of shape 2 only.
    of_kind = np.broadcast_to(np.array([True, False])[None, :, None], SHAPES["link1"])
    found = distribution(logits(), link1_where=of_kind).shape
    assert np.isfinite(found).tolist() == [[True, True, False, True]] * B


@pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf])
def test_padding_neither_has_mass_nor_spoils_gradients(fill):
    z = jnp.array([[[3, 0, 1, 2, 0], [0, 3, -1, -1, -1]], [[2, 1, 1, 3, -1], [-1] * 5]])
    outside = jnp.array([[[1, 4, -1, 0, -1]], [[1, 0, -1, 4, -1]]])  # a field, a link too far

    def total(values):
        programs = distribution(values)
        return jnp.sum(programs.log_prob(z)), programs.log_prob(outside)

    (value, out), grads = jax.value_and_grad(total, has_aux=True)(logits(fill=fill))
    assert np.isfinite(value) and out[0] == -np.inf
    for name, grad in grads.items():
        assert np.all(np.isfinite(grad)) and np.any(grad != 0), name
        where = {"shape": None, "link1": LINKS, "link2": LINKS}.get(name, FIELDS)
        if where is not None:
            assert np.all(np.moveaxis(np.asarray(grad), 1, 2)[~where] == 0), name


def test_a_program_fills_the_slots_of_its_shape_and_no_others():
    complete = [[1, 0, -1, 1, -1], [2, 0, 1, 1, -1], [3, 0, 1, 1, 2]]
    lacking = [[1, 0, -1, -1, -1], [1, -1, -1, 1, -1], [2, 0, -1, 1, -1], [3, 0, 1, -1, 2]]
    too_many = [[0, 0, 1, -1, -1], [0, 0, -1, 1, -1], [1, 0, -1, 1, 2], [1, 0, 0, 1, -1]]
    z = jnp.array([[*complete, *lacking, *too_many, [S, 0, 1, 1, 2], [-1] * 5]] * B)
    log_probs = distribution(logits(1)).log_prob(z)
    assert np.isfinite(log_probs).tolist() == [[True] * 3 + [False] * 9 + [True]] * B

    def total(values):
        return jnp.sum(distribution(values).log_prob(z)[:, 3:-2])  # -inf, all of them

    for grad in jax.grad(total)(logits(1)).values():
        assert not np.any(grad)
    beyond = jnp.array([[[3, 0, 0, M, 0]]] * B)  # not the first entry of the next kind
    assert np.all(distribution(logits(1)).log_prob(beyond) == -np.inf)


def test_the_search_yields_every_combination_in_order():
    """Of those that have mass: row 1 of the first tables has no links."""
    none = distribution(logits(), links=np.zeros((B, M), bool))
    arrays = [np.asarray(getattr(none, name)[1]) for name in ("shape", *SLOTS)]
    found = sorted(z for z, _ in ProgramScores(*arrays, KINDS).best_first())
    assert found == [(0, 0, -1, -1, -1), (0, 1, -1, -1, -1)]
    tables = distribution(logits())
    for row in range(B):
        arrays = [np.asarray(getattr(tables, name)[row]) for name in ("shape", *SLOTS)]
        found = list(ProgramScores(*arrays, KINDS).best_first())
        everything = list(programs_of(row))
        expected = tables.log_prob(jnp.asarray(np.array([everything] * B)))[row].tolist()
        by_row = dict(zip(map(tuple, everything), expected, strict=True))
        assert len(found) == len(by_row) and {z for z, _ in found} == by_row.keys()
        assert [p for _, p in found] == sorted((p for _, p in found), reverse=True)
        np.testing.assert_allclose([by_row[z] for z, _ in found], [p for _, p in found], rtol=1e-5)
