"""P(z | x) over queries against its formula and against exhaustive search."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax.errors import InputError
from hardem_jax.queries.distribution import QueryDistribution
from tests.marks import slow

# One program for a method and a shape, not one for each operation in it.
query_distribution = jax.jit(QueryDistribution.from_logits)
log_prob_of = jax.jit(
    lambda found, rows, conditions="sum": found.log_prob(rows, conditions=conditions),
    static_argnames="conditions",
)

B, C, A, K, OPS, W = 2, 4, 2, 2, 2, 4
SHAPES = {"select": (B, C), "aggregator": (B, C, A), "number": (B, K + 1), "column": (B, C)}
SHAPES |= {"operator": (B, C, OPS), "first": (B, C, OPS, W), "last": (B, C, OPS, W)}
NUM_COLUMNS, NUM_WORDS = (3, 1), (3, 4)
COLUMNS = np.arange(C)[None] < np.array(NUM_COLUMNS)[:, None]
WORDS = np.arange(W)[None] < np.array(NUM_WORDS)[:, None]


def logits(seed=0, fill=None):
    """Random ones; ``fill`` stands wherever there is neither column nor word."""
    rng = np.random.default_rng(seed)
    values = {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    if fill is not None:
        for name in ("select", "aggregator", "column", "operator", "first", "last"):
            values[name][~COLUMNS] = fill
        for name in ("first", "last"):
            values[name] = np.where(WORDS[:, None, None], values[name], fill)
    return values


def distribution(seed=0, fill=None):
    return query_distribution(**logits(seed, fill), columns=COLUMNS, words=WORDS)


def queries_of(row, *, forward=True):
    """All queries of one example: rows, and the set of columns of each."""
    columns, words = range(NUM_COLUMNS[row]), range(NUM_WORDS[row])
    spans = [(s, e) for s in words for e in words if s <= e or not forward]
    one = list(itertools.product(range(OPS), spans))
    for select, aggregator in itertools.product(columns, range(A)):
        for size in range(K + 1):
            for chosen in itertools.combinations(columns, size):
                for parts in itertools.product(one, repeat=size):
                    clause = [
                        number
                        for column, (operator, span) in zip(chosen, parts, strict=True)
                        for number in (column, operator, *span)
                    ]
                    yield [select, aggregator, size, *clause] + [-1] * (4 * (K - size))


def log_softmax(x, where=True):
    x = np.where(where, x.astype(np.float64), -np.inf)
    with np.errstate(divide="ignore"):
        return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def by_formula(values, row, query):
    """log P(z), factor by factor, in float64."""
    select, aggregator, number, *clause = query
    columns, words = slice(NUM_COLUMNS[row]), slice(NUM_WORDS[row])
    log_prob = log_softmax(values["select"][row, columns])[select]
    log_prob += log_softmax(values["aggregator"][row, select])[aggregator]
    log_prob += log_softmax(values["number"][row])[number]
    conditions = [clause[4 * i : 4 * i + 4] for i in range(number)]
    in_where = {column for column, *_ in conditions}
    for column, x in enumerate(values["column"][row, columns].astype(np.float64)):
        log_prob -= np.log1p(np.exp(-x if column in in_where else x))
    for column, operator, first, last in conditions:
        log_prob += log_softmax(values["operator"][row, column])[operator]
        log_prob += log_softmax(values["first"][row, column, operator, words])[first]
        log_prob += log_softmax(values["last"][row, column, operator, words])[last]
    return log_prob


@pytest.mark.parametrize("seed", [0, *slow(1, 2)])
def test_log_prob_is_the_sum_of_the_factors(seed):
    rng = np.random.default_rng(seed)
    rows = [list(queries_of(row, forward=False)) for row in range(B)]
    chosen = np.stack([rng.permutation(np.array(r))[:20] for r in rows])
    expected = [[by_formula(logits(seed), row, z) for z in chosen[row]] for row in range(B)]
    found = log_prob_of(distribution(seed, fill=7.0), jnp.asarray(chosen, jnp.int16))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_mean_of_conditions_is_the_released_score():
    z = [0, 1, 2, 0, 1, 0, 1, 2, 0, 1, 1]
    rows = jnp.array([[z], [z]])
    queries = distribution()
    conditions = sum(
        queries.operator[0, c, o] + queries.first[0, c, o, s] + queries.last[0, c, o, e]
        for c, o, s, e in ((0, 1, 0, 1), (2, 0, 1, 1))
    )
    difference = log_prob_of(queries, rows) - log_prob_of(queries, rows, conditions="mean")
    np.testing.assert_allclose(difference[0, 0], conditions / 2, rtol=1e-5)


def test_what_the_tables_do_not_hold_has_no_mass():
    """It is not another cell's: an aggregator, an operator, a word too far, or none."""
    rest = [-1] * 4
    real = [[0, 1, 1, 1, 1, 0, 1, *rest], [0, 1, 0, *rest, *rest]]
    bad = [[0, A, 0, *rest, *rest], [C, 0, 0, *rest, *rest], [0, 1, K + 1, *rest, *rest]]
    bad += [[0, 1, 1, *condition, *rest] for condition in ([1, OPS, 0, 1], [1, -1, 0, 1])]
    bad += [[0, 1, 1, *condition, *rest] for condition in ([1, 1, -1, 1], [1, 1, 0, W])]
    bad += [[0, 1, 1, *condition, *rest] for condition in ([-1, 1, 0, 1], [C, 0, 0, 1], rest)]
    found = log_prob_of(distribution(), jnp.array([[*real, *bad]] * B))
    assert np.isfinite(found[0]).tolist() == [True] * 2 + [False] * len(bad)


@pytest.mark.parametrize("dtype", [jnp.int8, jnp.int16])
def test_small_integers_reach_every_cell(dtype):
    shapes = {"select": (1, 99), "aggregator": (1, 99, 6), "number": (1, 2), "column": (1, 99)}
    shapes |= {"operator": (1, 99, 3), "first": (1, 99, 3, 120), "last": (1, 99, 3, 120)}
    rng = np.random.default_rng(0)
    queries = query_distribution(
        **{name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()},
        columns=np.ones((1, 99), bool),
        words=np.ones((1, 120), bool),
    )
    row = jnp.array([[[98, 5, 1, 98, 2, 118, 119]]])
    found = log_prob_of(queries, row.astype(dtype))
    assert np.isfinite(found) and found == log_prob_of(queries, row)


@pytest.mark.parametrize("limit", [1, *slow(None, 0)])
@pytest.mark.parametrize("seed", [0, *slow(1, 2)])
def test_top_is_exhaustive_search(seed, limit):
    k = 40
    queries = distribution(seed, fill=50.0)
    found, scores = jax.jit(lambda q: q.top(k, max_conditions=limit))(queries)
    modes = jax.jit(lambda q: q.mode(max_conditions=limit))(queries)
    for row in range(B):
        every = [z for z in queries_of(row) if limit is None or z[2] <= limit]
        ranked = sorted(((by_formula(logits(seed), row, z), z) for z in every), reverse=True)[:k]
        count = len(ranked)
        assert found[row, :count].tolist() == [z for _, z in ranked]
        np.testing.assert_allclose(scores[row, :count], [p for p, _ in ranked], rtol=1e-5)
        assert np.all(found[row, count:] == -1) and np.all(scores[row, count:] == -np.inf)
        assert modes[row].tolist() == ranked[0][1]
    if limit == 0:
        assert count == A  # one column only: fewer than k
    with pytest.raises(ValueError, match="max_conditions: expected at least 0, found -1"):
        queries.log_mass(max_conditions=-1)


def test_another_way_to_score_conditions_is_refused():
    with pytest.raises(InputError, match=r"conditions: expected one of \('sum', 'mean'\), found"):
        distribution().log_prob(jnp.full((B, 1, 3 + 4 * K), -1), conditions="average")


def test_greedy_takes_one_decision_after_the_other():
    values = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    values["select"][:, [2, 0]] = 3, 1
    values["aggregator"][0, 2, 1] = 1
    values["number"][:, 2] = 1
    values["column"][0] = [-1, 2, 5, 9]  # the last is no column of this table
    values["operator"][0, 1, 1] = 1
    values["first"][0, 1, 1, 2] = values["last"][0, 1, 1, 0] = 1  # ends before it begins
    values["last"][0, 2, 0, 1] = 1
    queries = query_distribution(**values, columns=COLUMNS, words=WORDS)
    found = jax.jit(lambda q: q.greedy())(queries)
    assert found[0].tolist() == [2, 1, 2, 1, 1, 2, 0, 2, 0, 0, 1]
    # Row 1 has one column, so one condition is all it can have.
    assert found[1, 2:].tolist() == [1, 0, 0, 0, 0, -1, -1, -1, -1]


@pytest.mark.parametrize("fill", [np.nan, *slow(np.inf, -np.inf)])
def test_padding_neither_has_mass_nor_spoils_gradients(fill):
    z = jnp.array([[[0, 0, 1, 2, 1, 0, 2, -1, -1, -1, -1]], [[0, 1, 1, 0, 0, 3, 3] + [-1] * 4]])
    outside = jnp.array([[[3, 0, 0] + [-1] * 8], [[0, 0, 1, 1, 0, 0, 0] + [-1] * 4]])

    def total(values):
        queries = QueryDistribution.from_logits(**values, columns=COLUMNS, words=WORDS)
        return jnp.sum(queries.log_prob(z)), queries.log_prob(outside)

    (value, out), grads = jax.jit(jax.value_and_grad(total, has_aux=True))(logits(fill=fill))
    assert np.isfinite(value) and np.all(out == -np.inf)
    for name, grad in grads.items():
        assert np.all(np.isfinite(grad)), name
    assert np.all(np.asarray(grads["select"])[~COLUMNS] == 0)
    assert np.any(np.asarray(grads["first"])[:, :, :, :3] != 0)
