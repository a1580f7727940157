"""Word features: the character convolution against its formula, highway, frozen word vectors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.equations.qanet import CharacterCNN, WordEncoder
from tests.marks import slow

RNG = np.random.default_rng(0)
WIDTH, FILTERS = 3, 7
WORDS = ["abcdefg", "abc", "ab", "a", ""]


def make_cnn(**options):
    cnn = CharacterCNN(9, 4, FILTERS, WIDTH, rngs=nnx.Rngs(0), **options)
    cnn.bias[...] = jnp.asarray(RNG.normal(size=FILTERS), jnp.float32)
    return cnn


def char_ids(length):
    ids = np.zeros((1, len(WORDS), length), np.int32)
    for row, word in zip(ids[0], WORDS, strict=True):
        row[: len(word)] = [ord(char) - ord("a") + 2 for char in word]
    return ids


def test_character_convolution_is_the_formula():
    cnn = make_cnn()
    out = np.asarray(cnn(char_ids(7)))[0]
    table, kernel = np.asarray(cnn.table[...]), np.asarray(cnn.filters.kernel[...])
    for vector, word, ids in zip(out, WORDS, char_ids(7)[0], strict=True):
        embedded = np.where((ids > 0)[:, None], table[ids], 0)
        embedded = np.pad(embedded, ((0, WIDTH), (0, 0)))
        places = max(len(word) - WIDTH + 1, 1) if word else 0
        responses = [embedded[i : i + WIDTH].reshape(-1) @ kernel for i in range(places)]
        expected = np.maximum(np.max(responses, axis=0) + cnn.bias[...], 0) if word else 0
        np.testing.assert_allclose(vector, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("length", [15, *slow(8)])
def test_padding_characters_change_nothing(length):
    cnn = make_cnn()
    np.testing.assert_allclose(cnn(char_ids(length)), cnn(char_ids(7)), atol=1e-6)
    short = char_ids(7)[:, 2:, :2]  # narrower than a filter
    np.testing.assert_allclose(cnn(short), cnn(char_ids(length))[:, 2:], atol=1e-6)
    grad = jax.jit(jax.grad(lambda table: _with_table(cnn, table)(char_ids(length)).sum()))
    grad = np.asarray(grad(cnn.table[...]))
    assert np.all(grad[0] == 0) and np.any(grad[2] != 0) and np.all(np.isfinite(grad))


def _with_table(cnn, table):
    graphdef, params = nnx.split(cnn)
    params["table"] = params["table"].replace(table)
    return nnx.merge(graphdef, params)


def make_encoder(vectors=None):
    options = {"size": 8, "num_highway_layers": 2, "dropout": 0.5, "vectors": vectors}
    return WordEncoder(6, 3, characters=make_cnn(), **options, rngs=nnx.Rngs(0))


def word_gradient(encoder, key=None):
    graphdef, params = nnx.split(encoder)
    words = jnp.array([[2, 3, 2, 1, 0]])

    def loss(params):
        return (nnx.merge(graphdef, params)(words, char_ids(7), key) ** 2).sum()

    return nnx.to_pure_dict(jax.jit(jax.grad(loss))(params))


@pytest.mark.slow
def test_pretrained_vectors_are_used_and_get_no_gradient():
    vectors = RNG.normal(size=(6, 3))
    encoder = make_encoder(vectors)
    np.testing.assert_allclose(encoder.word_vectors[...], vectors.astype(np.float32))
    grads = word_gradient(encoder)
    assert np.all(grads["word_vectors"] == 0)
    assert all(np.any(leaf != 0) for leaf in jax.tree.leaves(grads["characters"]))
    other = make_encoder(vectors + 1)
    words = jnp.array([[2, 3, 2, 1, 0]])
    assert not np.allclose(other(words, char_ids(7)), encoder(words, char_ids(7)))


def test_vectors_from_scratch_are_trained():
    grad = np.asarray(word_gradient(make_encoder())["word_vectors"])
    assert np.all(np.any(grad[[1, 2, 3]] != 0, axis=1)) and np.all(grad[[4, 5]] == 0)
