"""P(z|x) over equations, normalised over Z_tot: the softmax, by brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax.equations.solutions import rules as equation_rules
from hardem_jax.equations.solutions.rules import COUNT, MINUS, NONE, PLUS
from hardem_jax.losses import first_only_loss, hard_em_loss, mml_loss
from tests.equations.equation_cases import (
    NOTHING,
    all_equations,
    allowed,
    conditioned,
    log_prob_of,
    mode_of,
    tag_distribution,
    top_of,
)
from tests.marks import slow

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
    """Every equation of Z_tot, of which the tables of the rules say which they are."""
    pairs, lone = rules.table(kinds), rules.lone(kinds)
    return [row for row in all_equations(len(kinds)) if allowed(row, pairs, lone)]


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
                value += loss((scores - jax.nn.logsumexp(scores))[:3][None], reduce_fn=jnp.sum)
        return value

    value, gradient = jax.jit(jax.value_and_grad(total))(jnp.array(logits, jnp.float32))
    finite = jnp.array(np.where(where[..., None], logits, 0.0))
    expected = jax.jit(jax.value_and_grad(brute_force))(finite)
    np.testing.assert_allclose(value, expected[0], rtol=1e-5)
    np.testing.assert_allclose(gradient, expected[1], atol=1e-5)
    assert np.all(np.asarray(gradient)[~where] == 0)
