"""P(z|x) over equations: the product of tags, nothing for what is no number, the true best."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax.distributions import equation as distribution
from hardem_jax.distributions.equation import (
    COUNT,
    MINUS,
    NONE,
    NUM_TAGS,
    PERCENT,
    PLUS,
    AbilityDistribution,
    TagDistribution,
)
from hardem_jax.losses import first_only_loss, hard_em_loss, mml_loss
from hardem_jax.solutions.equations import rules as equation_rules
from tests.marks import slow

# One program for a method and a shape, not one for each operation in it.
tag_distribution = jax.jit(TagDistribution.from_logits)
ability_distribution = jax.jit(AbilityDistribution.from_logits)
conditioned = jax.jit(lambda found, **rules: found.over_equations(**rules))
log_prob_of = jax.jit(lambda found, rows: found.log_prob(rows))
top_of = jax.jit(lambda found, k, **tables: found.top(k, **tables), static_argnums=1)
mode_of = jax.jit(lambda found, **tables: found.mode(**tables))

OPERATORS = (PLUS, MINUS, PERCENT)
NOTHING = (-1, NONE, -1, NONE)


def all_equations(num_slots):
    """Every row with one or two operands, smallest row first: the order of ties."""
    operands = list(itertools.product(range(num_slots), OPERATORS))
    lone = [(*operand, -1, NONE) for operand in operands]
    pairs = [a + b for a, b in itertools.product(operands, operands) if a[0] < b[0]]
    return sorted(lone + pairs)


def allowed(row, pairs, lone):
    n1, o1, n2, o2 = row
    return bool(lone[n1, o1 - 1] if n2 < 0 else pairs[n1, o1 - 1, n2, o2 - 1])


def gain(tags, row):
    """What the operands of a row add to the tagging without any, in float32 like the code."""
    gains = tags - tags[..., :1]
    n1, o1, n2, o2 = row
    return gains[n1, o1] if n2 < 0 else gains[n1, o1] + gains[n2, o2]


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)


@pytest.fixture
def example():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3, 5, 4)) * 3
    where = rng.random((3, 5)) < 0.6
    where[2] = False  # a row of padding
    rest = rng.normal(size=3)
    tags = tag_distribution(jnp.array(logits), where=jnp.array(where), rest=jnp.array(rest))
    return logits, where, rest, tags


def test_log_prob_is_the_product_of_the_tags_of_all_numbers(example):
    logits, where, rest, tags = example
    rows = all_equations(5)
    got = np.asarray(log_prob_of(tags, jnp.array([rows] * 3)))
    for b, (z, row) in itertools.product(range(3), enumerate(rows)):
        n1, o1, n2, o2 = row
        tagging = np.zeros(5, int)
        tagging[n1] = o1
        if n2 >= 0:
            tagging[n2] = o2
        factors = np.where(where[b], softmax(logits[b])[np.arange(5), tagging], tagging == NONE)
        if np.all(factors > 0):
            np.testing.assert_allclose(got[b, z], rest[b] + np.log(factors).sum(), rtol=1e-5)
        else:
            assert got[b, z] == -np.inf
    assert np.isfinite(got[:2]).any() and np.all(got[2] == -np.inf)


@pytest.mark.parametrize("numbers", [[], [2], [0, 3]])
def test_probabilities_of_all_taggings_add_up_to_that_of_the_rest(numbers):
    # With at most two numbers, every tagging has a row.
    logits = np.random.default_rng(1).normal(size=(1, 4, 4)) * 2
    where = np.isin(np.arange(4), numbers)[None]
    rows = jnp.array([[NOTHING, *all_equations(4)]])
    for rest in (0.0, -2.5):
        tags = tag_distribution(jnp.array(logits), where=jnp.array(where), rest=jnp.array([rest]))
        log_probs = np.asarray(log_prob_of(tags, rows))
        assert np.isfinite(log_probs).sum() == NUM_TAGS ** len(numbers)
        np.testing.assert_allclose(np.exp(log_probs).sum(), np.exp(rest), rtol=1e-5)
    without = tag_distribution(jnp.array(logits), where=jnp.array(where))
    np.testing.assert_allclose(np.exp(log_prob_of(without, rows)).sum(), 1.0, rtol=1e-5)


def test_what_the_table_does_not_hold_is_impossible():
    tags = tag_distribution(np.zeros((1, 3, 4)), where=np.ones((1, 3), bool))
    rows = [(0, COUNT, -1, NONE), (2, COUNT, -1, NONE), (3, PLUS, -1, NONE), (0, PLUS, 9, MINUS)]
    # An operator without a number; a tag that there is not, which is no other slot's.
    rows += [(-1, PLUS, -1, NONE), (0, PLUS, -1, MINUS), (0, 5, -1, NONE), (1, -1, -1, NONE)]
    assert np.all(np.asarray(log_prob_of(tags, jnp.array([rows]))) == -np.inf)


def test_the_same_slot_twice_is_no_tagging():
    tags = tag_distribution(np.zeros((1, 2, 4)), where=np.ones((1, 2), bool))
    rows = [(0, PLUS, 0, PLUS), (0, PLUS, 0, MINUS), (0, PLUS, 1, MINUS)]
    rows += [(0, PLUS, 0, NONE), (0, NONE, 0, NONE), NOTHING]  # one number at most is tagged
    found = np.asarray(log_prob_of(tags, jnp.array([rows])))
    assert np.isfinite(found[0]).tolist() == [False] * 2 + [True] * 4


@pytest.mark.parametrize("dtype, num_slots", [(jnp.int8, 100), (jnp.int16, 8000)])
def test_small_integers_reach_every_number(dtype, num_slots):
    tags = tag_distribution(np.zeros((1, num_slots, 4)), where=np.ones((1, num_slots), bool))
    rows = jnp.array([[(0, PLUS, num_slots - 1, MINUS), (num_slots - 2, PERCENT, -1, NONE)]])
    found = log_prob_of(tags, rows.astype(dtype))
    assert np.all(np.isfinite(found))
    np.testing.assert_array_equal(found, log_prob_of(tags, rows))


@pytest.mark.parametrize("dtype", [jnp.int8, jnp.int16])
def test_small_integers_reach_every_equation(dtype):
    tags = tag_distribution(np.zeros((1, 100, 4)), where=np.ones((1, 100), bool))
    pairs, lone = np.zeros((1, 100, 3, 100, 3), bool), np.zeros((1, 100, 3), bool)
    pairs[0, 98, 0, 99, 2] = pairs[0, 60, 1, 99, 0] = lone[0, 99, 0] = True
    equations = conditioned(tags, pairs=pairs, lone=lone)
    rows = jnp.array([[(98, PLUS, 99, PERCENT), (60, MINUS, 99, PLUS), (99, PLUS, -1, NONE)]])
    assert np.all(np.isfinite(log_prob_of(equations, rows.astype(dtype))))
    counts = ability_distribution(
        np.zeros((1, 2)), np.zeros((1, 1, 3)), np.zeros((1, 300)), where=np.ones((1, 1), bool)
    )
    row = jnp.array([[(99, COUNT, -1, NONE)]])
    assert np.isfinite(log_prob_of(counts, row.astype(dtype)))


@pytest.mark.parametrize("found", [2, 5])
def test_other_numbers_of_tags_are_refused(found):
    with pytest.raises(ValueError, match=f"expected 3 or 4 tags for each number, found {found}"):
        TagDistribution.from_logits(jnp.zeros((1, 2, found)), where=jnp.ones((1, 2), bool))


def test_a_model_without_percent_gives_it_no_mass():
    logits = np.random.default_rng(2).normal(size=(2, 3, 3))
    tags = tag_distribution(jnp.array(logits), where=np.ones((2, 3), bool))
    np.testing.assert_allclose(np.exp(tags.tags[..., :PERCENT]), softmax(logits), rtol=1e-5)
    assert np.all(np.asarray(tags.tags[..., PERCENT]) == -np.inf)


def test_low_precision_logits_are_normalised_in_float32():
    logits = jnp.linspace(-4, 4, 400, dtype=jnp.bfloat16).reshape(1, 100, 4)
    tags = tag_distribution(logits, where=np.ones((1, 100), bool), rest=np.zeros(1, jnp.bfloat16))
    assert tags.tags.dtype == tags.rest.dtype == jnp.float32
    np.testing.assert_allclose(np.exp(tags.tags).sum(axis=-1), 1.0, rtol=1e-6)
    assert log_prob_of(tags, jnp.array([[NOTHING]])).dtype == jnp.float32


def test_hard_em_pulls_at_the_tags_of_one_equation():
    logits = np.random.default_rng(3).normal(size=(3, 5, 4))
    tags = tag_distribution(jnp.array(logits), where=np.ones((3, 5), bool))
    candidates = [(0, PLUS, 1, MINUS), (1, MINUS, 4, PERCENT), (2, PLUS, -1, NONE), NOTHING]
    # The last one is padding, and would be the best.
    where = jnp.array([[True, True, True, False]] * 3)

    def loss(table):
        log_probs = dataclasses.replace(tags, tags=table).log_prob(jnp.array([candidates] * 3))
        return hard_em_loss(log_probs, where=where, reduce_fn=jnp.sum)

    gradient = np.asarray(jax.jit(jax.grad(loss))(tags.tags))
    for b in range(3):
        best = max(candidates[:3], key=lambda row: float(gain(np.asarray(tags.tags[b]), row)))
        expected = np.zeros((5, 4))
        expected[:, NONE] = -1
        for slot, tag in (best[:2], best[2:]):
            if slot >= 0:
                expected[slot] = np.where(np.arange(4) == tag, -1, 0)
        np.testing.assert_array_equal(gradient[b], expected)


@pytest.mark.parametrize("loss", [mml_loss, *slow(hard_em_loss, first_only_loss)])
@pytest.mark.parametrize("filler", [NOTHING, (0, 0, 0, 0), (4, PLUS, 4, PLUS)])
def test_gradients_are_finite_and_none_reaches_what_is_no_number(example, loss, filler):
    logits, where, rest, _ = example
    where = where.copy()
    where[:2, :2] = True
    # Whatever stands in padding, infinities included, must stay there.
    logits = np.where(where[..., None], logits, [np.inf, -np.inf, 1e30, 0.0])
    candidates = jnp.array([[(0, PLUS, 1, MINUS), (0, MINUS, -1, NONE), filler, filler]] * 3)
    solutions = jnp.array([[True, True, False, False]] * 2 + [[False] * 4])

    # Candidates are an argument, so that all fillers are one program.
    def total(logits, rest, candidates):
        tags = tag_distribution(logits, where=jnp.array(where), rest=rest)
        return loss(log_prob_of(tags, candidates), where=solutions)

    run = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))
    value, (of_logits, of_rest) = run(jnp.array(logits), jnp.array(rest), candidates)
    assert np.isfinite(value) and np.all(np.isfinite(of_logits))
    assert np.all(np.asarray(of_logits)[~where] == 0)
    assert np.all(np.any(np.asarray(of_logits)[where] != 0, axis=-1))
    np.testing.assert_allclose(of_rest, [-0.5, -0.5, 0.0], rtol=1e-6)


@pytest.mark.parametrize("num_slots", [0, 5, *slow(1, 2)])
@pytest.mark.parametrize("ties", [False, True])
def test_top_equals_exhaustive_search(num_slots, ties):
    batch, k = 60, 12
    rng = np.random.default_rng(num_slots)
    logits = rng.normal(size=(batch, num_slots, 4)) * 2
    if ties:
        logits = np.round(logits / 2)
    where = rng.random((batch, num_slots)) < 0.8
    density = rng.random((batch, 1)) ** 0.5
    # Entries with n1 >= n2 are set as well: they mean nothing.
    pairs = rng.random((batch, (3 * num_slots) ** 2)) < density
    pairs = pairs.reshape(batch, num_slots, 3, num_slots, 3)
    lone = (rng.random((batch, 3 * num_slots)) < density).reshape(batch, num_slots, 3)
    tags = tag_distribution(
        jnp.array(logits), where=jnp.array(where), rest=jnp.array(rng.normal(size=batch) * 9)
    )
    if ties:  # log-probabilities that are whole numbers: equal sums are equal to the last bit
        tags = dataclasses.replace(
            tags, tags=jnp.where(tags.where[..., None], jnp.array(logits, jnp.float32), tags.tags)
        )
    tables = {"pairs": jnp.array(pairs), "lone": jnp.array(lone)}
    got, log_probs = top_of(tags, k, **tables)
    table = np.asarray(tags.tags)
    for b in range(batch):
        rows = [row for row in all_equations(num_slots) if allowed(row, pairs[b], lone[b])]
        rows = [row for row in rows if np.isfinite(gain(table[b], row))]
        rows.sort(key=lambda row: -gain(table[b], row))  # stable: ties stay in order
        expected = rows[:k] + [NOTHING] * (k - len(rows))
        assert [tuple(row) for row in got[b].tolist()] == expected
        assert np.all(np.asarray(log_probs[b, len(rows) :]) == -np.inf)
    assert got.dtype == jnp.int32
    possible = np.asarray(got)[..., 0] >= 0
    np.testing.assert_array_equal(
        log_probs, np.where(possible, np.asarray(log_prob_of(tags, got)), -np.inf)
    )
    np.testing.assert_array_equal(mode_of(tags, **tables), got[:, 0])


def test_ties_go_to_the_earlier_slot_and_to_the_lone_number_first():
    tags = tag_distribution(np.zeros((1, 2, 4)), where=np.ones((1, 2), bool))
    pairs, lone = np.zeros((1, 2, 3, 2, 3), bool), np.ones((1, 2, 3), bool)
    pairs[:, 0, :2, 1, :2], lone[..., PERCENT - 1] = True, False
    assert top_of(tags, 9, pairs=pairs, lone=lone)[0].tolist() == [
        [
            [0, PLUS, -1, NONE],
            [0, PLUS, 1, PLUS],
            [0, PLUS, 1, MINUS],
            [0, MINUS, -1, NONE],
            [0, MINUS, 1, PLUS],
            [0, MINUS, 1, MINUS],
            [1, PLUS, -1, NONE],
            [1, MINUS, -1, NONE],
            [-1, NONE, -1, NONE],
        ]
    ]


def test_a_long_text_does_not_round_the_ranking_away():
    logits = np.zeros((1, 3, 4), np.float32)
    logits[0, :, PLUS] = [1.0, 1.0 + 1e-6, 1.0 + 2e-6]
    tags = tag_distribution(logits, where=np.ones((1, 3), bool), rest=jnp.array([-1000.0]))
    pairs, lone = np.zeros((1, 3, 3, 3, 3), bool), np.ones((1, 3, 3), bool)
    assert top_of(tags, 3, pairs=pairs, lone=lone)[0][0, :, 0].tolist() == [2, 1, 0]


def test_argmax_tags_takes_every_number_by_itself(example):
    logits, where, _, tags = example
    got = tags.argmax_tags()
    np.testing.assert_array_equal(got, np.where(where, logits.argmax(axis=-1), NONE))
    assert got.dtype == jnp.int32


@pytest.fixture
def abilities():
    """(ability, sign and count logits), where, and their distribution; row 2 has no number."""
    rng = np.random.default_rng(5)
    logits = [rng.normal(size=shape) * 2 for shape in ((3, 2), (3, 2, 3), (3, 10))]
    logits[0][2] = [9, 0]
    where = np.array([[True, True], [False, True], [False, False]])
    distribution = ability_distribution(*map(jnp.array, logits), where=jnp.array(where))
    return logits, where, distribution


@pytest.fixture
def x64():
    jax.config.update("jax_enable_x64", True)  # jax.enable_x64 is not in the oldest jax
    yield
    jax.config.update("jax_enable_x64", False)


COUNTS = [(count, COUNT, -1, NONE) for count in range(10)]


def test_ability_and_what_it_takes_are_multiplied(abilities):
    (ability, signs, counts), _, distribution = abilities
    rows = [(0, PLUS, 1, MINUS), (1, PLUS, -1, NONE), *COUNTS]
    got = np.exp(log_prob_of(distribution, jnp.array([rows] * 3)))
    p_sign = softmax(signs[0])
    expected = [p_sign[0, PLUS] * p_sign[1, MINUS], p_sign[0, NONE] * p_sign[1, PLUS]]
    np.testing.assert_allclose(got[0, :2], softmax(ability)[0, 0] * np.array(expected), rtol=1e-5)
    np.testing.assert_allclose(got[:, 2:], softmax(ability)[:, 1:] * softmax(counts), rtol=1e-5)


def test_probabilities_of_both_abilities_add_up_to_one(abilities):
    *_, distribution = abilities
    rows = [NOTHING, *all_equations(2), *COUNTS]
    total = np.exp(log_prob_of(distribution, jnp.array([rows] * 3))).sum(axis=-1)
    np.testing.assert_allclose(total, 1.0, rtol=1e-5)


def test_a_count_the_model_does_not_have_is_impossible(abilities):
    *_, distribution = abilities
    rows = [(10, COUNT, -1, NONE), (1, COUNT, -1, NONE), (1, PERCENT, -1, NONE)]
    rows += [(-1, COUNT, -1, NONE), (-10, COUNT, -1, NONE)]  # not the last one, nor the first
    assert (
        np.isfinite(log_prob_of(distribution, jnp.array([rows] * 3))).tolist()
        == [[False, True, False, False, False]] * 3
    )


@pytest.mark.slow
@pytest.mark.parametrize("k", [4, 40])
def test_top_merges_both_abilities(abilities, k):
    *_, where, distribution = abilities
    rng = np.random.default_rng(6)
    pairs, lone = rng.random((3, 2, 3, 2, 3)) < 0.7, rng.random((3, 2, 3)) < 0.7
    tables = {"pairs": jnp.array(pairs), "lone": jnp.array(lone)}
    got, log_probs = top_of(distribution, k, **tables)
    for b in range(3):
        rows = [row for row in all_equations(2) if allowed(row, pairs[b], lone[b])] + COUNTS
        scores = np.asarray(log_prob_of(distribution, jnp.array([rows] * 3)))[b]
        scored = [pair for pair in zip(scores, rows, strict=True) if np.isfinite(pair[0])]
        scored = sorted(scored, key=lambda pair: -pair[0])[:k]
        missing = k - len(scored)
        expected = [row for _, row in scored] + [NOTHING] * missing
        assert [tuple(row) for row in got[b].tolist()] == expected
        np.testing.assert_array_equal(
            log_probs[b], [score for score, _ in scored] + [-np.inf] * missing
        )
    np.testing.assert_array_equal(mode_of(distribution, **tables), got[:, 0])


def test_equal_equations_and_counts_are_ranked_in_that_order():
    zeros = np.log([0.5, 0.5]), np.log([[[0.5, 0.25, 0.25]]]), np.log(np.full((1, 4), 0.25))
    distribution = ability_distribution(
        jnp.array(zeros[0])[None], *map(jnp.array, zeros[1:]), where=np.ones((1, 1), bool)
    )
    top, _ = top_of(
        distribution, 4, pairs=np.zeros((1, 1, 3, 1, 3), bool), lone=np.ones((1, 1, 3), bool)
    )
    assert top.tolist() == [
        [[0, PLUS, -1, NONE], [0, MINUS, -1, NONE], [0, COUNT, -1, NONE], [1, COUNT, -1, NONE]]
    ]


def test_without_numbers_only_counts_are_left_however_unlikely(abilities):
    (ability, _, counts), _, distribution = abilities
    assert softmax(ability)[2, 0] > 0.99
    mode = mode_of(
        distribution, pairs=np.ones((3, 2, 3, 2, 3), bool), lone=np.ones((3, 2, 3), bool)
    )
    assert mode[2].tolist() == [counts[2].argmax(), COUNT, -1, NONE]


def test_what_is_impossible_is_not_returned():
    logits = jnp.array([[-jnp.inf, 0.0]]), jnp.zeros((1, 2, 3)), jnp.array([[-jnp.inf, 0.0]])
    distribution = ability_distribution(*logits, where=np.ones((1, 2), bool))
    tables = {"pairs": np.ones((1, 2, 3, 2, 3), bool), "lone": np.ones((1, 2, 3), bool)}
    rows, log_probs = top_of(distribution, 5, **tables)
    # Counting is certain, and so is the count.
    assert rows.tolist() == [[[1, COUNT, -1, NONE]] + [list(NOTHING)] * 4]
    assert np.isfinite(log_probs[0]).tolist() == [True] + [False] * 4


def test_abilities_have_32_bits_where_jax_has_64(abilities, x64):
    *_, distribution = abilities
    tables = {"pairs": np.ones((3, 2, 3, 2, 3), bool), "lone": np.ones((3, 2, 3), bool)}
    found = distribution.over_equations(**tables)
    rows, log_probs = found.top(2, **tables)
    assert found.ability.dtype == log_probs.dtype == found.log_prob(rows).dtype == jnp.float32


@pytest.mark.parametrize("loss", [mml_loss, *slow(hard_em_loss, first_only_loss)])
def test_gradients_of_both_abilities_are_finite(abilities, loss):
    logits, where, _ = abilities
    rows = [(1, PLUS, -1, NONE), (3, COUNT, -1, NONE), NOTHING, (12, COUNT, -1, NONE)]
    solutions = jnp.array([[True, True, False, False], [True, True, False, False], [False] * 4])

    def total(logits):
        distribution = ability_distribution(*logits, where=jnp.array(where))
        log_probs = log_prob_of(distribution, jnp.array([rows] * 3))
        return loss(log_probs, where=solutions)

    gradients = jax.jit(jax.grad(total))([jnp.array(part) for part in logits])
    for gradient in map(np.asarray, gradients):
        assert np.all(np.isfinite(gradient))
        assert np.all(gradient[2] == 0)
    assert np.all(np.asarray(gradients[0])[:2] != 0)
    assert np.all(np.asarray(gradients[1])[~where] == 0)


def test_codes_are_those_of_the_solutions():
    names = ("NONE", "PLUS", "MINUS", "PERCENT", "COUNT")
    codes = [[getattr(room, name) for name in names] for room in (distribution, equation_rules)]
    assert codes[0] == codes[1]


# Normalised over Z_tot.

KINDS = np.array(  # padding in between, at the end and everywhere; special numbers only
    [[0, 0, 1, 1, 2], [0, 1, -1, 1, 2], [1, 2, -1, -1, -1], [-1] * 5, [0, 0, -1, -1, -1]]
)
RULES = [
    equation_rules.EquationRules(),
    equation_rules.EquationRules(special_pairs=True, lone_special=True, negative=True),
    equation_rules.EquationRules(lone_text=False, question_numbers=False, percent="term"),
    equation_rules.EquationRules(percent="factor", negative=True, special_numbers=False),
]


def z_tot(rules, kinds):
    """Every equation of Z_tot, from what the rules say of each kind and operator by itself."""
    text = [k == 1 or (k == 2 and rules.question_numbers) for k in kinds]
    special = [k == 0 and rules.special_numbers for k in kinds]
    rows = []
    for n1, o1, n2, o2 in all_equations(len(kinds)):
        if n2 < 0:
            may = (text[n1] and rules.lone_text) or (special[n1] and rules.lone_special)
            fits = o1 in rules.lone_operators()
        else:
            both = all(text[n] or special[n] for n in (n1, n2))
            may = both and (rules.special_pairs or text[n1] or text[n2])
            fits = (o1, o2) in rules.pair_operators()
        if may and fits:
            rows.append((n1, o1, n2, o2))
    return rows


def score(logits, row):
    """Sum of the scores of an equation's tags, in float64."""
    n1, o1, n2, o2 = row
    scores = logits - logits[:, :1]
    return scores[n1, o1] + (scores[n2, o2] if n2 >= 0 else 0.0)


def over_equations(logits, rules, kinds=KINDS, **options):
    tags = tag_distribution(jnp.array(logits), where=jnp.array(kinds >= 0), **options)
    return tags, conditioned(tags, pairs=rules.table(kinds), lone=rules.lone(kinds))


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("scale", [60, *slow(1)])  # exp(120) is no float32
def test_over_equations_is_a_softmax_over_z_tot(rules, scale):
    logits = np.random.default_rng(7).normal(size=(len(KINDS), 5, 4)) * scale
    _, equations = over_equations(logits, rules)
    rows = all_equations(5)
    got = np.asarray(log_prob_of(equations, jnp.array([rows] * len(KINDS))))
    assert got.dtype == np.float32
    for b, kinds in enumerate(KINDS):
        members = z_tot(rules, kinds)
        scores = np.array([score(logits[b], row) for row in members])
        total = np.logaddexp.reduce(scores) if members else -np.inf
        np.testing.assert_allclose(equations.log_total[b], total, rtol=1e-5, atol=1e-5)
        expected = dict(zip(members, scores - total, strict=True))
        for row, log_prob in zip(rows, got[b], strict=True):
            if row in expected:
                np.testing.assert_allclose(log_prob, expected[row], rtol=1e-5, atol=1e-4)
            else:
                assert log_prob == -np.inf
        if members:
            np.testing.assert_allclose(np.exp(got[b]).sum(), 1.0, rtol=1e-4)


@pytest.mark.slow
def test_over_equations_is_the_product_given_that_the_tagging_is_an_equation():
    logits = np.random.default_rng(8).normal(size=(len(KINDS), 5, 4)) * 2
    rest = jnp.array(np.random.default_rng(9).normal(size=len(KINDS)))
    tags, equations = over_equations(logits, RULES[0], rest=rest)
    for b, kinds in enumerate(KINDS):
        members = jnp.array([z_tot(RULES[0], kinds) or [NOTHING]] * len(KINDS))
        product, given = log_prob_of(tags, members)[b], log_prob_of(equations, members)[b]
        if np.isfinite(given).all():
            expected = product - jax.nn.logsumexp(product)
            np.testing.assert_allclose(given, expected, rtol=1e-4, atol=1e-4)


def test_rows_that_are_no_equation_have_no_mass_in_the_softmax():
    _, equations = over_equations(np.zeros((1, 2, 4)), RULES[0], np.array([[1, 1]]))
    rows = [
        *(NOTHING, (0, 0, 0, 0), (0, COUNT, -1, NONE), (1, PLUS, 0, PLUS), (0, PLUS, 0, MINUS)),
        *((0, PLUS, 2, PLUS), (0, PLUS, -1, PLUS), (9, PLUS, -1, NONE), (0, NONE, 1, PLUS)),
    ]
    assert np.all(np.asarray(log_prob_of(equations, jnp.array([rows]))) == -np.inf)


@pytest.mark.parametrize("rules", RULES)
def test_top_of_the_softmax_is_that_of_the_tagging(rules):
    logits = np.random.default_rng(10).normal(size=(len(KINDS), 5, 4)) * 2
    tags, equations = over_equations(logits, rules)
    tables = {"pairs": rules.table(KINDS), "lone": rules.lone(KINDS)}
    rows, log_probs = top_of(equations, 7, **tables)
    np.testing.assert_array_equal(rows, top_of(tags, 7, **tables)[0])
    np.testing.assert_allclose(log_probs, log_prob_of(equations, rows), rtol=1e-6)
    np.testing.assert_array_equal(mode_of(equations, **tables), rows[:, 0])
    np.testing.assert_array_equal(equations.argmax_tags(), tags.argmax_tags())
    everything = {"pairs": np.ones((5, 5, 3, 5, 3), bool), "lone": np.ones((5, 5, 3), bool)}
    np.testing.assert_array_equal(top_of(equations, 7, **everything)[0], rows)


@pytest.mark.parametrize("loss", [mml_loss, *slow(hard_em_loss, first_only_loss)])
def test_gradients_of_the_softmax_are_those_of_brute_force_and_finite(loss):
    rules, where = RULES[0], KINDS >= 0
    logits = np.random.default_rng(11).normal(size=(len(KINDS), 5, 4))
    # Whatever padding holds, infinities included, must stay there.
    logits = np.where(where[..., None], logits, [np.inf, -np.inf, 1e30, 0.0])
    members = [z_tot(rules, kinds) for kinds in KINDS]
    candidates = jnp.array([(rows + [NOTHING] * 3)[:3] for rows in members])
    solutions = jnp.array([np.arange(3) < len(rows) for rows in members])

    def total(logits):
        _, equations = over_equations(logits, rules)
        return loss(log_prob_of(equations, candidates), where=solutions, reduce_fn=jnp.sum)

    def brute_force(logits):
        value = 0.0
        for b, rows in enumerate(members):
            if rows:
                n1, o1, n2, o2 = np.array(rows).T
                gains = logits[b] - logits[b, :, :1]
                scores = gains[n1, o1] + jnp.where(n2 >= 0, gains[n2, o2], 0.0)
                log_probs = (scores - jax.nn.logsumexp(scores))[:3]
                value += loss(log_probs[None], reduce_fn=jnp.sum)
        return value

    value, gradient = jax.jit(jax.value_and_grad(total))(jnp.array(logits, jnp.float32))
    finite = jnp.array(np.where(where[..., None], logits, 0.0))
    expected = jax.jit(jax.value_and_grad(brute_force))(finite)
    np.testing.assert_allclose(value, expected[0], rtol=1e-5)
    np.testing.assert_allclose(gradient, expected[1], atol=1e-5)
    assert np.all(np.asarray(gradient)[~where] == 0)


@pytest.mark.slow
def test_a_tag_without_mass_leaves_the_softmax_finite():
    logits = np.random.default_rng(12).normal(size=(1, 3, 3))  # no PERCENT
    rules = dataclasses.replace(RULES[0], percent="term")

    def total(logits):
        _, equations = over_equations(logits, rules, np.array([[1, 1, 2]]))
        return log_prob_of(equations, jnp.array([[(0, PLUS, 1, MINUS)]]))[0, 0]

    value, gradient = jax.value_and_grad(total)(jnp.array(logits))
    assert np.isfinite(value) and np.all(np.isfinite(gradient)) and np.any(gradient != 0)


@pytest.mark.slow
def test_signs_over_equations_and_counts_add_up_to_one(abilities):
    logits, where, product = abilities
    rules = equation_rules.EquationRules(special_numbers=False, max_count=9)
    kinds = np.where(where, 1, -1)
    tables = {"pairs": rules.table(kinds), "lone": rules.lone(kinds)}
    distribution = conditioned(product, **tables)
    rows = jnp.array([[*all_equations(2), *COUNTS]] * 3)
    log_probs = log_prob_of(distribution, rows)
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=-1), 1.0, rtol=1e-5)
    ability = softmax(logits[0])
    np.testing.assert_allclose(np.exp(log_probs[:2, -10:]).sum(axis=-1), ability[:2, 1], rtol=1e-5)
    # Without any number, only counting is left, however likely the other ability is.
    np.testing.assert_allclose(np.exp(log_probs[2, -10:]), softmax(logits[2][2]), rtol=1e-5)
    top, best = top_of(distribution, 3, **tables)
    np.testing.assert_allclose(best, log_prob_of(distribution, top), rtol=1e-6)
    with pytest.raises(ValueError, match="already"):
        distribution.over_equations(**tables)

    def total(logits):
        found = ability_distribution(*logits, where=jnp.array(where))
        return mml_loss(found.over_equations(**tables).log_prob(rows[:, -12:-8]))

    gradients = jax.jit(jax.grad(total))([jnp.array(part) for part in logits])
    assert all(np.all(np.isfinite(gradient)) for gradient in gradients)
