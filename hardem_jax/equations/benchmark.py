"""The benchmark of the tagger, with and without a softmax over Z_tot, and of NAQANet."""

from __future__ import annotations

import functools

import numpy as np

from hardem_jax.equations.config import NAQANetConfig
from hardem_jax.equations.solutions.rules import MINUS, PASSAGE, PLUS, SPECIAL, EquationRules
from hardem_jax.task.benchmark import Batch, BatchSizes, Step, random_texts

#: Numbers of a text: passage and question of DROP have 24 in the mean.
NUM_NUMBERS = 24
NUM_SPECIAL = 10
#: Vocabularies about as large as those of DROP's training split.
NUM_WORDS, NUM_CHARACTERS = 50_000, 100
MAX_CHARACTERS = 16
#: Z_tot with all equations that `random_batch` draws.
EVERY_PAIR = EquationRules(special_pairs=True, negative=True)


def random_batch(sizes: BatchSizes, num_special: int = NUM_SPECIAL) -> Batch:
    """Texts full of numbers, with random equations of two numbers in every row."""
    rng = np.random.default_rng(0)
    texts = random_texts(sizes, rng)
    rows, slots = sizes.rows, num_special + NUM_NUMBERS
    lengths = texts["where"].sum(axis=1, keepdims=True)
    tokens = np.sort(rng.integers(0, lengths, (rows, NUM_NUMBERS)))
    shape = rows, sizes.solutions
    first = rng.integers(0, slots - 1, shape)
    second = rng.integers(first + 1, slots)
    signs = rng.choice([PLUS, MINUS], (2, *shape))
    kinds = np.array([SPECIAL] * num_special + [PASSAGE] * NUM_NUMBERS, np.int32)
    return {
        **texts,
        "number_tokens": tokens.astype(np.int32),
        "numbers_where": np.ones(tokens.shape, bool),
        "kinds": np.tile(kinds, (rows, 1)),
        "solutions": np.stack([first, signs[0], second, signs[1]], axis=-1).astype(np.int32),
        "solutions_where": np.ones(shape, bool),
        "row_where": np.ones(rows, bool),
    }


def word_batch(sizes: BatchSizes) -> Batch:
    """`random_batch` in words and characters: passages of T words, questions of an eighth."""
    rng = np.random.default_rng(0)
    read = ("number_tokens", "numbers_where", "solutions", "solutions_where", "row_where")
    equations = random_batch(sizes, num_special=0)
    batch = {name: equations[name] for name in read}
    for text, length in {"passage": sizes.tokens, "question": sizes.tokens // 8}.items():
        shape = sizes.rows, length
        chars = rng.integers(2, NUM_CHARACTERS, (*shape, MAX_CHARACTERS))
        batch[f"{text}_words"] = rng.integers(2, NUM_WORDS, shape).astype(np.int32)
        batch[f"{text}_chars"] = chars.astype(np.int32)
        batch[f"{text}_where"] = np.ones(shape, bool)
    return batch


def _tagger(encoder, *, rules: EquationRules | None = None):
    from flax import nnx

    from hardem_jax.equations.model import EquationTagger

    return EquationTagger(encoder, num_special=NUM_SPECIAL, rules=rules, rngs=nnx.Rngs(0))


def _naqanet(encoder):
    from flax import nnx

    from hardem_jax.equations.naqanet import NAQANet

    sizes = NAQANetConfig(num_words=NUM_WORDS, num_characters=NUM_CHARACTERS)
    return NAQANet(sizes, dtype=encoder.dtype, rngs=nnx.Rngs(0))


STEPS = {
    "equations": Step(random_batch, _tagger),
    "normalized-equations": Step(
        random_batch, functools.partial(_tagger, rules=EVERY_PAIR), variant=True
    ),
    "naqanet": Step(word_batch, _naqanet, own_encoder=True),
}
