"""NAQANet as a whole: padding, gradients, structure, sizes, precision."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.equations.naqanet import NAQANet, NAQANetConfig
from hardem_jax.equations.solutions.rules import COUNT, MINUS, NONE, PERCENT, PLUS
from hardem_jax.errors import InputError
from tests.encoders.modules import drawn

CONFIG = NAQANetConfig(
    num_words=30,
    num_characters=20,
    word_size=6,
    character_size=4,
    num_filters=5,
    filter_width=3,
    num_highway_layers=1,
    hidden_size=8,
    num_heads=2,
    num_phrase_convs=1,
    num_modelling_convs=1,
    num_modelling_blocks=2,
    num_passes=3,
)
PASSAGE, QUESTION, CHARS, NUMBERS = (9, 6, 1), (4, 2, 3), 6, (3, 2, 0)
FAR = 7_000_000  # a number's place in padding: none of the passage


def text(rng, lengths, width):
    where = np.arange(width)[None] < np.array(lengths)[:, None]
    words = np.where(where, rng.integers(1, 30, where.shape), 0)
    chars = rng.integers(1, 20, (*where.shape, CHARS))
    inside = np.arange(CHARS)[None, None] < rng.integers(1, CHARS + 1, where.shape)[..., None]
    return words, np.where(inside & where[..., None], chars, 0), where


def make_batch():
    rng = np.random.default_rng(0)
    passage, question = text(rng, PASSAGE, 9), text(rng, QUESTION, 4)
    names = "words", "chars", "where"
    numbers_where = np.arange(3)[None] < np.array(NUMBERS)[:, None]
    return {
        **{f"passage_{name}": array for name, array in zip(names, passage, strict=True)},
        **{f"question_{name}": array for name, array in zip(names, question, strict=True)},
        "number_tokens": np.where(numbers_where, [[0, 5, 8], [2, 5, 0], [0, 0, 0]], FAR),
        "numbers_where": numbers_where,
    }


def pad(batch, words, chars, numbers):
    """More padding everywhere, with rubbish in it."""
    padded = {}
    for name, array in batch.items():
        extra = {"number": numbers}.get(name[:6], words)
        widths = [(0, 0), (0, extra)] + [(0, chars)] * (array.ndim - 2)
        value = False if array.dtype == bool else 0
        if name.endswith(("_words", "_tokens")):
            value = FAR if name == "number_tokens" else 29
        padded[name] = np.pad(array, widths, constant_values=value)
    return padded


def make(config=CONFIG, **options):
    return drawn(lambda: NAQANet(config, rngs=nnx.Rngs(0), **options))


@functools.partial(jax.jit, static_argnums=0)
def apply(graphdef, params, batch, key):
    return nnx.merge(graphdef, params)(batch, rngs=None if key is None else nnx.Rngs(dropout=key))


def run(model, batch, key=None):
    return apply(*nnx.split(model, nnx.Param), batch, key)


@functools.cache
def plain():
    return run(make(), make_batch())


def logits(equations):
    """Finite log-probabilities: those of numbers that exist, without PERCENT."""
    signs = jnp.where(equations.signs.where[..., None], equations.signs.tags[..., :PERCENT], 0)
    return equations.ability, signs, equations.counts


@pytest.mark.slow
def test_padding_changes_nothing():
    out = run(make(), pad(make_batch(), words=5, chars=4, numbers=2))
    extra, signs = np.asarray(out.signs.tags[:, 3:]), out.signs
    assert np.all(extra[..., NONE] == 0) and np.all(extra[..., PLUS:] == -np.inf)
    signs = dataclasses.replace(signs, tags=signs.tags[:, :3], where=signs.where[:, :3])
    out = dataclasses.replace(out, signs=signs)
    for padded, alone in zip(logits(out), logits(plain()), strict=True):
        np.testing.assert_allclose(padded, alone, rtol=1e-4, atol=1e-5)


def answer(equations):
    pair, count = [0, PLUS, 1, MINUS], [3, COUNT, -1, NONE]
    candidates = jnp.array([[pair, count], [pair, count], [count, count]])
    return -jax.nn.logsumexp(equations.log_prob(candidates), axis=-1).mean()


@functools.cache
def gradients():
    """Gradients of a loss, of counts and of signs; padding is word 29 and character 19, alone."""
    batch = make_batch()
    for name in "passage", "question":
        where = batch[f"{name}_where"]
        batch[f"{name}_words"] = np.where(where, np.minimum(batch[f"{name}_words"], 28), 29)
        chars = np.minimum(batch[f"{name}_chars"], 18)
        batch[f"{name}_chars"] = np.where(where[..., None], chars, 19)
    graphdef, params = nnx.split(make(), nnx.Param)

    def probes(params):
        equations = nnx.merge(graphdef, params)(batch)
        counts, signs = equations.counts[:, 0].sum(), equations.signs.tags[..., PLUS]
        signs = jnp.where(equations.signs.where, signs, 0).sum()
        return jnp.stack([answer(equations), counts, signs])

    jacobian = nnx.to_pure_dict(jax.jit(jax.jacrev(probes))(params))
    return [jax.tree.map(lambda leaf, i=i: np.asarray(leaf[i]), jacobian) for i in range(3)]


@pytest.mark.slow
def test_every_parameter_learns_and_padding_does_not():
    grads = gradients()[0]
    words, chars = grads["words"]["word_vectors"], grads["words"]["characters"]["table"]
    assert np.all(words[29] == 0) and np.all(chars[19] == 0) and np.all(chars[0] == 0)
    assert np.any(words[:29] != 0) and np.any(chars[1:19] != 0)
    for path, leaf in jax.tree_util.tree_leaves_with_path(grads):
        name = jax.tree_util.keystr(path)
        assert np.all(np.isfinite(leaf)), name
        # A shift of all keys changes no softmax: its gradient is zero up to rounding.
        if "['key']['bias']" not in name:
            assert np.abs(leaf).max() > 1e-9, name
            if "blocks" in name:
                assert np.all(np.abs(leaf).max(axis=tuple(range(1, leaf.ndim))) > 1e-9), name


@pytest.mark.slow
def test_heads_read_what_they_should():
    """Counts come from the passage alone, signs from the passage and its numbers."""
    _, counts, signs = gradients()
    for unused in "ability", "signs", "question_pooling":
        assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(counts[unused])), unused
    for unused in "ability", "counts", "question_pooling":
        assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(signs[unused])), unused


def test_a_number_is_read_at_its_word():
    batch = make_batch()
    batch["number_tokens"] = batch["number_tokens"][:, [1, 0, 2]]
    swapped = run(make(), batch).signs.tags[0]
    np.testing.assert_allclose(swapped[[1, 0, 2], :3], plain().signs.tags[0, :, :3], atol=1e-5)
    assert not np.allclose(swapped[0, :3], swapped[1, :3], atol=1e-4)


@pytest.mark.slow
def test_bfloat16_keeps_heads_and_probabilities_in_float32():
    model = make(dtype=jnp.bfloat16)
    for head in model.ability, model.signs, model.counts:
        assert head.hidden.dtype == head.output.dtype == jnp.float32
    assert model.passage_pooling.score.dtype == model.question_pooling.score.dtype == jnp.float32
    for low, high in zip(logits(run(model, make_batch())), logits(plain()), strict=True):
        assert low.dtype == jnp.float32 and not np.allclose(low, high, atol=1e-6)
        np.testing.assert_allclose(low, high, atol=0.1)


def test_full_size():
    """Shapes and parameters of the published model, without computing anything."""
    config = NAQANetConfig(num_words=20_000, num_characters=100)
    model = nnx.eval_shape(lambda: NAQANet(config, rngs=nnx.Rngs(0)))
    batch = {"number_tokens": ((14, 60), jnp.int32), "numbers_where": ((14, 60), bool)}
    for name, length in (("passage", 400), ("question", 50)):
        batch |= {f"{name}_words": ((14, length), jnp.int32), f"{name}_where": ((14, length), bool)}
        batch[f"{name}_chars"] = (14, length, 16), jnp.int32
    batch = {name: jax.ShapeDtypeStruct(*spec) for name, spec in batch.items()}
    graphdef, params = nnx.split(model, nnx.Param)
    out = jax.eval_shape(lambda params, batch: nnx.merge(graphdef, params)(batch), params, batch)
    assert out.ability.shape == (14, 2)
    assert out.signs.tags.shape == (14, 60, 4) and out.counts.shape == (14, 10)

    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == 7_360_599


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_words": 0}, "num_words: expected at least 1, found 0"),
        ({"layer_dropout": 1.0}, "layer_dropout: expected at least 0 and less than 1, found 1.0"),
        ({"hidden_size": 10, "num_heads": 4}, "hidden_size: .*multiple of 4 heads, found 10"),
        ({"hidden_size": 9, "num_heads": 3}, "hidden_size: expected an even number.* found 9"),
    ],
)
def test_bad_config_is_told_in_one_line(change, message):
    with pytest.raises(InputError, match=message) as error:
        dataclasses.replace(CONFIG, **change)
    assert "\n" not in str(error.value)
