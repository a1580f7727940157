"""The decoder: its samples against its own teacher-forced probabilities, and those against sums."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.errors import InputError
from hardem_jax.models.decoder import Decoder, DecoderConfig
from tests.models.modules import drawn

V, P, N, END = 4, 3, 3, 1
CONFIG = DecoderConfig(vocab_size=V, max_tokens=10, width=16, layers=2, heads=2, dropout=0.3)
PROMPTS = np.array([[2, 3, 1], [3, 2, 0]])
REAL = np.array([[True, True, True], [True, True, False]])  # the second prompt has two tokens


@pytest.fixture(scope="module")
def decoder():
    """Random weights, also where the first ones are 0 or 1."""
    return drawn(lambda: Decoder(CONFIG, rngs=nnx.Rngs(0)))


@functools.partial(jax.jit, static_argnums=0)
def _log_probs(graphdef, params, tokens, where, target, key):
    rngs = None if key is None else nnx.Rngs(dropout=key)
    decoder = nnx.merge(graphdef, params)
    return decoder.log_probs(tokens, where=where, target=target, rngs=rngs)


def log_probs(decoder, tokens, *, where=None, target, key=None) -> np.ndarray:
    arguments = jnp.asarray(tokens), where, jnp.asarray(target)[None], key
    return np.asarray(_log_probs(*nnx.split(decoder), *arguments))


@functools.partial(jax.jit, static_argnums=0, static_argnames=("num_samples", "temperature"))
def _sample(graphdef, params, prompts, where, key, **options):
    decoder = nnx.merge(graphdef, params)
    return decoder.sample(prompts, where=where, key=key, num_tokens=N, end_id=END, **options)


def sample(decoder, prompts, *, where=None, seed=0, **options):
    drawn = _sample(*nnx.split(decoder), prompts, where, jax.random.key(seed), **options)
    return jax.tree.map(np.asarray, drawn)


@pytest.fixture(scope="module")
def samples(decoder):
    return sample(decoder, PROMPTS, where=REAL, num_samples=2000)


def all_texts() -> list[list[int]]:
    """Every text of up to N tokens that ends with END, and every one of N that has not ended."""
    others = [token for token in range(V) if token != END]
    ended = [[*text, END] for n in range(N) for text in itertools.product(others, repeat=n)]
    return ended + [list(text) for text in itertools.product(others, repeat=N)]


def one_by_one(decoder, prompt, text) -> float:
    """log P(text | prompt), of one unpadded row."""
    tokens = np.array([[*prompt, *text]])
    return log_probs(decoder, tokens, target=np.arange(tokens.shape[1]) >= len(prompt)).sum()


@pytest.fixture(scope="module")
def probabilities(decoder):
    """P of `all_texts` after each prompt, computed on padded rows in one call."""
    texts = all_texts()
    padded = np.array([text + [0] * (N - len(text)) for text in texts])
    real = np.arange(N) < np.array([[len(text)] for text in texts])
    found = []
    for prompt, where in zip(PROMPTS, REAL, strict=True):
        tokens = np.concatenate([np.tile(prompt, (len(texts), 1)), padded], axis=1)
        rows = np.concatenate([np.tile(where, (len(texts), 1)), real], axis=1)
        scores = log_probs(decoder, tokens, where=rows, target=np.arange(P + N) >= P)
        found.append(np.exp(scores.sum(axis=1)))
    return np.array(found)


def test_probabilities_of_all_texts_sum_to_one(probabilities):
    assert len(all_texts()) == 1 + 3 + 9 + 27
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert probabilities.std(axis=1).min() > 0.005  # they are not all alike


def test_padding_changes_nothing(decoder, probabilities):
    for prompt, where, row in zip(PROMPTS, REAL, probabilities, strict=True):
        for index in 0, 20:
            expected = one_by_one(decoder, prompt[where], all_texts()[index])
            np.testing.assert_allclose(np.log(row[index]), expected, atol=1e-5)


def test_left_padding_changes_nothing_either(decoder):
    tokens, target = np.array([[2, 0, 0, 3, 2, 1]]), np.arange(6) >= 4
    where = np.array([[False, False, False, True, True, True]])
    found = log_probs(decoder, tokens, where=where, target=target)
    expected = log_probs(decoder, tokens[:, 3:], target=target[3:])
    np.testing.assert_allclose(found[:, 3:], expected, atol=1e-5)
    assert not np.any(found[:, :4]) and np.all(found[:, 4:] < 0)


def test_no_token_sees_a_later_one(decoder):
    rows = np.array([[2, 3, 1, 0, 2, 3], [2, 3, 1, 0, 1, 3]])
    a, b = log_probs(decoder, rows, target=np.full(6, True))[:, None]
    np.testing.assert_array_equal(a[:, :4], b[:, :4])
    assert np.all(a[:, 4:] != b[:, 4:])


def test_samples_have_their_teacher_forced_log_probs(decoder, samples):
    first = jax.tree.map(lambda x: x[:, :200].reshape(-1, N), samples)
    tokens = np.concatenate([np.repeat(PROMPTS, 200, axis=0), first.tokens], axis=1)
    where = np.concatenate([np.repeat(REAL, 200, axis=0), first.where], axis=1)
    found = log_probs(decoder, tokens, where=where, target=np.arange(P + N) >= P)
    np.testing.assert_allclose(found[:, P:], first.log_probs, atol=1e-5)


def test_samples_end_with_the_end(samples):
    ends = (samples.tokens == END) & samples.where
    length = samples.where.sum(-1)
    np.testing.assert_array_equal(ends.any(-1) | (length == N), True)
    np.testing.assert_array_equal(ends.argmax(-1)[ends.any(-1)], length[ends.any(-1)] - 1)
    assert not samples.tokens[~samples.where].any() and not samples.log_probs[~samples.where].any()
    assert 0.05 < ends.any(-1).mean() < 0.95


def test_samples_have_the_frequencies_of_their_probabilities(samples, probabilities):
    number = {tuple(text): i for i, text in enumerate(all_texts())}
    for row, real, p in zip(samples.tokens, samples.where, probabilities, strict=True):
        drawn_texts = [number[tuple(text[kept])] for text, kept in zip(row, real, strict=True)]
        counts = np.bincount(drawn_texts, minlength=len(number))
        # Chi-squared with 39 degrees of freedom is below 72.1 with probability 0.999.
        expected = p * len(row)
        assert np.sum((counts - expected) ** 2 / expected) < 72.1


def test_temperature_0_takes_the_most_likely_token(decoder):
    prompts = np.array([[first, second, 1] for first in range(V) for second in range(V)])
    found = sample(decoder, prompts, num_samples=1, temperature=0.0)
    rows = np.arange(len(prompts))
    text = np.zeros((len(prompts), N), int)
    for n in range(N):
        real = np.concatenate([prompts, text], axis=1)
        tried = np.repeat(real[:, None], V, axis=1)
        tried[..., P + n] = range(V)
        target = np.arange(P + N) == P + n
        scores = log_probs(decoder, tried.reshape(-1, P + N), target=target)[:, P + n]
        ended = (text[:, :n] == END).any(axis=1)
        text[rows, n] = np.where(ended, 0, scores.reshape(-1, V).argmax(axis=1))
    assert len(np.unique(text, axis=0)) > 1
    np.testing.assert_array_equal(found.tokens[:, 0], text)


def test_a_low_temperature_sharpens(decoder, samples):
    sharp = sample(decoder, PROMPTS, where=REAL, num_samples=2000, temperature=0.3)
    assert sharp.log_probs.sum(-1).mean() > samples.log_probs.sum(-1).mean() + 0.1


def test_dropout_needs_keys(decoder):
    tokens, target = np.array([[2, 3, 1, 0]]), np.full(4, True)
    plain = log_probs(decoder, tokens, target=target)
    dropped = [
        log_probs(decoder, tokens, target=target, key=jax.random.key(seed)) for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(dropped[0], dropped[1])
    assert np.any(dropped[0] != plain) and np.any(dropped[0] != dropped[2])


def test_refuses_what_is_too_long_or_cannot_be(decoder):
    with pytest.raises(InputError, match="at most 10 tokens, found 11"):
        decoder.log_probs(jnp.ones((1, 11), int), target=jnp.array(True))
    options = {"num_samples": 1, "end_id": END, "key": jax.random.key(0)}
    with pytest.raises(InputError, match="at most 10 tokens, found 11"):
        decoder.sample(PROMPTS, num_tokens=8, **options)
    with pytest.raises(InputError, match="temperature"):
        decoder.sample(PROMPTS, num_tokens=1, temperature=-1.0, **options)
    with pytest.raises(InputError, match="multiple of 3 heads"):
        DecoderConfig(vocab_size=4, max_tokens=4, width=16, heads=3)
    with pytest.raises(InputError, match="dropout"):
        DecoderConfig(vocab_size=4, max_tokens=4, dropout=1.0)
