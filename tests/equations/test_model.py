"""Heads of the equation tagger: the paper's formula, and padding takes no part."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.encoders.bert import Bert, BertConfig
from hardem_jax.equations.model import EquationTagger
from hardem_jax.equations.solutions.rules import MINUS, NONE, PASSAGE, PLUS, SPECIAL, EquationRules
from hardem_jax.errors import InputError
from hardem_jax.losses import hard_em_loss
from tests.encoders.modules import drawn, run

CONFIG = BertConfig(
    vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
)
NUM_SPECIAL = 10


def make(**more):
    return drawn(lambda: EquationTagger(Bert(CONFIG, rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1), **more))


@pytest.fixture
def batch():
    """Three texts of 9, 6 and no tokens; two numbers of the first begin in the same wordpiece."""
    return dict(
        token_ids=jax.random.randint(jax.random.key(0), (3, 9), 0, 20),
        token_type_ids=jnp.zeros((3, 9), jnp.int32),
        where=jnp.arange(9)[None, :] < jnp.array([[9], [6], [0]]),
        number_tokens=jnp.array([[2, 5, 5], [4, 0, 0], [0, 0, 0]]),
        numbers_where=jnp.array([[True] * 3, [True, False, False], [False] * 3]),
    )


def test_another_product_is_refused():
    with pytest.raises(InputError, match="product_over: expected one of .*, found 'token'"):
        make(product_over="token")


def last_layer(tagger, batch):
    where, types = batch["where"], batch["token_type_ids"]
    return run(tagger.encoder, batch["token_ids"], where=where, token_type_ids=types)


def test_numbers_are_tagged_at_their_wordpiece_and_special_ones_from_the_pooled_text(batch):
    tagger = make()
    hidden = last_layer(tagger, batch)
    tags = run(tagger, batch)
    w1, w2 = tagger.tag_scores.kernel[...], tagger.special_scores.kernel[...]
    assert w1.shape == (16, 4) and w2.shape == (16, NUM_SPECIAL * 4)
    assert tagger.tag_scores.bias is None and tagger.special_scores.bias is None
    for row, length, positions in ((0, 9, [2, 5, 5]), (1, 6, [4])):
        pooled = hidden[row, :length].max(axis=0)
        expected = jax.nn.log_softmax(jnp.einsum("D,DST->ST", pooled, w2.reshape(16, -1, 4)))
        np.testing.assert_allclose(tags.tags[row, :NUM_SPECIAL], expected, rtol=1e-4)
        expected = jax.nn.log_softmax(hidden[row, jnp.array(positions)] @ w1)
        of_text = tags.tags[row, NUM_SPECIAL : NUM_SPECIAL + len(positions)]
        np.testing.assert_allclose(of_text, expected, rtol=1e-4)
    expected = np.concatenate([np.ones((3, NUM_SPECIAL), bool), batch["numbers_where"]], axis=1)
    np.testing.assert_array_equal(tags.where, expected)
    assert np.all(np.isfinite(tags.tags[:, :NUM_SPECIAL]))


@pytest.mark.slow
def test_the_two_products_differ_by_the_words_that_say_none(batch):
    numbers, tokens = run(make(), batch), run(make(product_over="tokens"), batch)
    tagger = make()
    scores = jax.nn.log_softmax(last_layer(tagger, batch) @ tagger.tag_scores.kernel[...])
    # Position 5 carries two numbers and is left out once; padding numbers carry no position 0.
    words = [[0, 1, 3, 4, 6, 7, 8], [0, 1, 2, 3, 5], []]
    expected = [float(scores[row, jnp.array(at, int), NONE].sum()) for row, at in enumerate(words)]
    np.testing.assert_allclose(tokens.rest, expected, rtol=1e-5)
    np.testing.assert_array_equal(numbers.rest, [0, 0, 0])
    np.testing.assert_array_equal(numbers.tags, tokens.tags)


def test_heads_stay_in_float32_under_bfloat16(batch):
    encoder = drawn(lambda: Bert(CONFIG, rngs=nnx.Rngs(0), dtype=jnp.bfloat16))
    tagger = EquationTagger(encoder, product_over="tokens", rngs=nnx.Rngs(1))
    hidden, tags = last_layer(tagger, batch), run(tagger, batch)
    assert hidden.dtype == jnp.bfloat16 and tags.tags.dtype == tags.rest.dtype == jnp.float32
    scores = hidden.astype(jnp.float32) @ tagger.tag_scores.kernel[...]
    expected = jax.nn.log_softmax(scores[1, 4])
    np.testing.assert_allclose(tags.tags[1, NUM_SPECIAL], expected, rtol=1e-5)


def test_bias_towards_no_tag_is_where_both_heads_start(batch):
    encoder = drawn(lambda: Bert(CONFIG, rngs=nnx.Rngs(0)))
    biased = EquationTagger(encoder, no_tag_bias=2.0, rngs=nnx.Rngs(1))
    heads = biased.tag_scores, biased.special_scores
    assert [head.bias[...].tolist() for head in heads] == [[2, 0, 0, 0], [2, 0, 0, 0] * 10]
    odds = _odds_against_none(run(biased, batch))
    for head in heads:
        head.bias[...] = jnp.zeros_like(head.bias[...])
    np.testing.assert_allclose(odds, _odds_against_none(run(biased, batch)) - 2, atol=1e-5)


def _odds_against_none(tags):
    """``[numbers, 3]`` of all real numbers."""
    return np.asarray(tags.tags[..., 1:] - tags.tags[..., :1])[np.asarray(tags.where)]


def with_kinds(batch):
    kinds = np.where(batch["numbers_where"], PASSAGE, -1)
    special = np.full((3, NUM_SPECIAL), SPECIAL)
    special[2] = -1  # a row of padding
    return batch | {"kinds": jnp.array(np.concatenate([special, kinds], axis=1))}


@pytest.mark.slow
def test_with_rules_the_equations_of_z_tot_add_up_to_one(batch):
    rules = EquationRules()
    batch = with_kinds(batch)
    found = run(make(rules=rules), batch)
    rows, log_probs = found.top(
        999, pairs=rules.table(batch["kinds"]), lone=rules.lone(batch["kinds"])
    )
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=-1), [1, 1, 0], rtol=1e-5)
    # 3 lone numbers, and 3 pairs of them and 30 with a special number, each with 3 operators.
    assert np.isfinite(log_probs).sum(axis=-1).tolist() == [3 + 3 * 33, 1 + 3 * 10, 0]
    np.testing.assert_array_equal(found.argmax_tags(), run(make(), batch).argmax_tags())


@pytest.mark.parametrize(
    "options", [{}, {"product_over": "tokens"}, {"rules": EquationRules(), "no_tag_bias": 2.0}]
)
def test_padding_gets_no_gradient_from_any_head(batch, options):
    graphdef, params = nnx.split(make(**options), nnx.Param)
    candidates = jnp.array([[(0, PLUS, NUM_SPECIAL, MINUS), (NUM_SPECIAL, PLUS, -1, NONE)]] * 3)
    solutions = jnp.array([[True, True], [True, False], [False, False]])
    batch = with_kinds(batch)
    # A word that occurs in padding alone must not matter.
    batch["token_ids"] = jnp.where(batch["where"], jnp.minimum(batch["token_ids"], 18), 19)

    def total(params):
        log_probs = nnx.merge(graphdef, params)(batch).log_prob(candidates)
        return hard_em_loss(log_probs, where=solutions)

    gradient = jax.jit(jax.grad(total))(params)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient))
    table = np.asarray(jax.tree.leaves(gradient["encoder"]["embeddings"]["word"])[0])
    assert np.all(table[19] == 0) and np.any(table[:19] != 0)
