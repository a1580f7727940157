"""The decoder of these experiments: scores and draws of rationales, and what it knows at the start.

Before any training on answers the decoder is taught to write valid rationales: for most questions a
random one of the 54, whatever the question says, and for a small share the true one. So it knows
arithmetic and the form of a rationale and has a faint idea of what is asked, as a pretrained
language model does, and a draw leads to the answer often enough to learn from.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from experiments.rationales.problems import (
    PROMPT_TOKENS,
    RATIONALE_TOKENS,
    VOCABULARY,
    Problems,
    execute,
    make_problems,
    program_ids,
    rationales,
)
from hardem_jax.models.decoder import Decoder, DecoderConfig

Array = jax.Array
Params = Any

LENGTH = PROMPT_TOKENS + RATIONALE_TOKENS


class Draws(NamedTuple):
    """K rationales of each of B problems."""

    tokens: Array
    """``[B, K, 9]``."""
    programs: Array
    """``[B, K]``: rows of `problems.PROGRAMS`, -1 for those that are not valid."""
    correct: Array
    """``[B, K]`` bool: valid, and ending in the answer."""


class Model:
    """The decoder as functions of its parameters.

    Args:
        width: of the decoder.
        layers: of the decoder.
    """

    def __init__(self, width: int, layers: int):
        self.config = DecoderConfig(
            vocab_size=len(VOCABULARY), max_tokens=LENGTH, width=width, layers=layers
        )
        abstract = nnx.eval_shape(lambda: Decoder(self.config, rngs=nnx.Rngs(0)))
        self.graphdef = nnx.split(abstract)[0]

    def start(self, seed: int) -> Params:
        """First parameters."""

        def start(key):
            return nnx.split(Decoder(self.config, rngs=nnx.Rngs(params=key)))[1]

        return jax.jit(start)(jax.random.key(seed))

    def log_probs(self, params: Params, prompts: Array, tokens: Array) -> Array:
        """``[B, K]``: log P of rationales ``[B, K, 9]`` after prompts ``[B, 6]``."""
        size = tokens.shape[:2]
        asked = jnp.broadcast_to(prompts[:, None], (*size, prompts.shape[1]))
        rows = jnp.concatenate([asked, tokens], axis=-1).reshape(-1, LENGTH)
        target = jnp.arange(LENGTH)[None] >= PROMPT_TOKENS
        decoder = nnx.merge(self.graphdef, params)
        return decoder.sequence_log_prob(rows, target=target).reshape(size)

    def draw(
        self,
        params: Params,
        problems: Problems,
        key: Array,
        *,
        count: int,
        temperature: float = 1.0,
    ) -> Draws:
        """``count`` rationales of each problem."""
        drawn = nnx.merge(self.graphdef, params).sample(
            jnp.asarray(problems.prompts),
            num_samples=count,
            num_tokens=RATIONALE_TOKENS,
            end_id=-1,  # all rationales are as long
            key=key,
            temperature=temperature,
        )
        numbers = jnp.asarray(problems.numbers)[:, None]
        programs = program_ids(drawn.tokens, numbers)
        correct = execute(drawn.tokens, numbers) == jnp.asarray(problems.answers)[:, None]
        return Draws(drawn.tokens, programs, correct)


def pretrained(
    model: Model,
    *,
    steps: int,
    true_share: float,
    batch_size: int = 64,
    learning_rate: float = 3e-3,
    seed: int,
) -> Params:
    """Parameters after steps on valid rationales, of which a share is true, of random questions."""
    params = model.start(seed)
    transform = optax.adamw(optax.cosine_decay_schedule(learning_rate, steps))
    chunk = 100

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def advance(params, state, prompts, tokens):
        def step(carry, batch):
            params, state = carry

            def loss(params):
                return -model.log_probs(params, batch[0], batch[1][:, None]).mean()

            updates, state = transform.update(jax.grad(loss)(params), state, params)
            return (optax.apply_updates(params, updates), state), None

        return jax.lax.scan(step, (params, state), (prompts, tokens))[0]

    rng, state = np.random.default_rng(seed), transform.init(params)
    for number in range(-(-steps // chunk)):
        # Drawn apart from training and development splits, whose seeds are small. There are 8,640
        # prompts, so that a long pretraining has seen most of those, too.
        count = chunk * batch_size
        problems = make_problems(count, seed=2**20 + 1000 * seed + number)
        table = rationales(problems.numbers)
        random = rng.integers(table.shape[1], size=count)
        programs = np.where(rng.random(count) < true_share, problems.programs, random)
        tokens = table[np.arange(count), programs]
        shape = chunk, batch_size
        prompts = problems.prompts.reshape(*shape, PROMPT_TOKENS)
        params, state = advance(params, state, prompts, tokens.reshape(*shape, RATIONALE_TOKENS))
    return params
