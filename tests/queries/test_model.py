"""SQLova's tables: the original's modules, one query at a time, and nothing from padding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.encoders.bert import Bert, BertConfig
from hardem_jax.errors import InputError
from hardem_jax.losses import mml_loss
from hardem_jax.queries import model
from hardem_jax.queries.model import SQLova
from tests.encoders.modules import assert_trees_close, drawn

CONFIG = BertConfig(30, 8, 2, 2, 16, max_position_embeddings=32)
SIZE = 6
# Two examples: wordpieces of the question, words' first pieces, wordpieces of the headers.
QUESTIONS = (4, 6)
WORDS = ((0, 1, 3), (0, 2, 3, 5))
HEADERS = ((1, 3), (2, 1, 1))


def make(**options):
    return SQLova(Bert(CONFIG, rngs=nnx.Rngs(0)), hidden_size=SIZE, rngs=nnx.Rngs(1), **options)


@pytest.fixture(scope="module")
def parser():
    return drawn(make)


def make_batch(examples, *, tokens=20, pieces=6, words=4, columns=3, header=3, junk=0):
    """Rows as `hardem_jax.queries.inputs` lays them out; ``junk`` stands in all padding."""
    rows = len(examples)
    batch = {
        "token_ids": np.full((rows, tokens), junk),
        "token_type_ids": np.zeros((rows, tokens), int),
        "where": np.zeros((rows, tokens), bool),
        "question_tokens": np.full((rows, pieces), junk),
        "question_where": np.zeros((rows, pieces), bool),
        "words_first": np.full((rows, words), junk),
        "words_where": np.zeros((rows, words), bool),
        "header_tokens": np.full((rows, columns, header), junk),
        "header_where": np.zeros((rows, columns, header), bool),
        "columns_where": np.zeros((rows, columns), bool),
    }
    for row, example in enumerate(examples):
        count, lengths = QUESTIONS[example], HEADERS[example]
        batch["question_tokens"][row, :count] = 1 + np.arange(count)
        batch["question_where"][row, :count] = True
        batch["words_first"][row, : len(WORDS[example])] = WORDS[example]
        batch["words_where"][row, : len(WORDS[example])] = True
        end = count + 2
        for column, length in enumerate(lengths):
            batch["header_tokens"][row, column, :length] = end + np.arange(length)
            batch["header_where"][row, column, :length] = True
            batch["token_type_ids"][row, end : end + length] = 1
            end += length + 1
        batch["columns_where"][row, : len(lengths)] = True
        batch["token_ids"][row, :end] = np.random.default_rng(example).integers(1, 30, end)
        batch["where"][row, :end] = True
    return {name: jnp.asarray(x) for name, x in batch.items()}


def test_shapes_and_masks(parser):
    queries = jax.jit(parser)(make_batch([0, 1]))
    assert queries.first.shape == queries.last.shape == (2, 3, 3, 4)
    assert queries.number.shape == (2, 4) and queries.aggregator.shape == (2, 3, 6)
    for table in (queries.select, queries.number, queries.operator[:, :2], queries.first[:, :2]):
        np.testing.assert_allclose(np.exp(table).sum(axis=-1), 1, rtol=1e-5)
    assert np.all(queries.select[0, 2] == -np.inf) and queries.column[0, 2].tolist() == [0, -np.inf]
    assert np.all(queries.first[0, :, :, 3] == -np.inf)


def test_pieces_within_a_word_share_the_probability_of_values(parser):
    """The softmax over wordpieces is that over words times what no piece within a word has."""
    batch = make_batch([0, 1])
    by_pieces = drawn(lambda: make(value_units="wordpieces"))
    words, pieces = jax.jit(parser)(batch), jax.jit(by_pieces)(batch)
    for example in (0, 1):
        columns, count = len(HEADERS[example]), len(WORDS[example])
        assert count < QUESTIONS[example]
        for name in ("first", "last"):
            ours, theirs = (np.exp(getattr(x, name)[example, :columns]) for x in (pieces, words))
            share = ours.sum(axis=-1, keepdims=True)
            assert np.all((share > 0.1) & (share < 0.99))
            np.testing.assert_allclose(ours, theirs * share, rtol=1e-4)
            assert np.all(ours[..., count:] == 0)
    np.testing.assert_array_equal(words.operator, pieces.operator)


def test_the_last_two_layers_are_read(parser):
    batch = make_batch([0])
    layers = parser.encoder.hidden_states(
        batch["token_ids"], where=batch["where"], token_type_ids=batch["token_type_ids"]
    )
    expected = jnp.concatenate([layers[2], layers[1]], axis=-1)
    np.testing.assert_array_equal(parser.encode_tokens(batch, None), expected)


def test_values_have_the_same_scores_and_gradients_on_a_gpu(monkeypatch, parser):
    rng = np.random.default_rng(0)
    shapes = (2, 3, SIZE), (2, 3, SIZE), (2, 4, SIZE), (2, 2, 3, 3, 4)
    *inputs, weights = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in shapes)
    graphdef, params = nnx.split(parser.value)

    def gradients():
        def loss(params, inputs):
            scores = jnp.stack(nnx.merge(graphdef, params)(*inputs))
            return jnp.sum(scores * weights), scores

        return jax.jit(jax.grad(loss, argnums=(0, 1), has_aux=True))(params, inputs)

    expected = gradients()
    monkeypatch.setattr(model, "platform_of", lambda x: "gpu")
    assert_trees_close(gradients(), expected, atol=1e-6)


SOFTMAXES = (
    *("['attention']", "['number_header']", "['number_pool']"),
    *("['select']['output']", "['value']['output']"),
)


@pytest.mark.slow
@pytest.mark.parametrize("units", ["words", "wordpieces"])
def test_every_parameter_learns_and_dropout_is_asked_for(units):
    batch, parser = make_batch([0, 1]), make(value_units=units)
    z = jnp.array([[0, 1, 1, 1, 2, 0, 1] + [-1] * 8, [2, 0, 2, 0, 0, 1, 1, 1, 1, 2, 3] + [-1] * 4])
    graphdef, params = nnx.split(parser, nnx.Param)

    def loss(params):
        model = nnx.merge(graphdef, params)
        return mml_loss(model(batch, rngs=nnx.Rngs(dropout=0)).log_prob(z[:, None]))

    for path, grad in jax.tree_util.tree_leaves_with_path(jax.jit(jax.grad(loss))(params)):
        name = jax.tree_util.keystr(path)
        # Added to all scores of a softmax alike; nothing else may be dead.
        if "bias" in name and ("['key']" in name or name.startswith(SOFTMAXES)):
            assert np.all(abs(grad) < 1e-6), name
            continue
        assert np.any(grad != 0) and np.all(np.isfinite(grad)), name
    read = jax.jit(lambda key: parser(batch, rngs=nnx.Rngs(dropout=key)).select)
    one, other = (read(jax.random.key(seed)) for seed in (0, 1))
    assert np.any(one != other)


@pytest.mark.parametrize("count", [0, 3])
def test_only_layers_that_there_are_can_be_read(count):
    bert = nnx.eval_shape(lambda: Bert(CONFIG, rngs=nnx.Rngs(0)))
    with pytest.raises(
        InputError, match=f"model.num-target-layers.: expected 1 to 2, .*found {count}"
    ):
        SQLova(bert, num_target_layers=count, rngs=nnx.Rngs(1))
    with pytest.raises(InputError, match="value_units: expected one of .*, found 'word'"):
        SQLova(bert, value_units="word", rngs=nnx.Rngs(1))
