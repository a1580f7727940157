"""Hard EM, MML and TRICE on chains that a model draws: ``python docs/examples/rationales.py``.

A question comes with its answer, and nobody has written down the steps that lead to it. So the
model draws K chains of steps, those that end in the answer are kept, and it trains on these::

    question:  from 3: w2 w5          (w2 means "+ 2", w5 means "* 3", all modulo 7)
    answer:    1
    chains:    "+ 2", "* 3", end      right, and as meant
               "* 5", end             right by chance

Questions, decoder and calculator are toys; `hardem_jax` is called as with a language model.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from hardem_jax import hard_em_loss, mml_loss
from hardem_jax.sampled import distinct, trice_loss

Array = jax.Array

PAD, END = 0, 1  # the first tokens of chains; the others are the steps, times a and plus b
EFFECTS = np.array([(1, 0), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (3, 0), (5, 0)])
NUM_STEPS, MODULUS, LENGTH = len(EFFECTS) - 2, 7, 4
WIDTH, BATCH, DRAWS, EVALUATED, SEEDS = 32, 32, 4, (40, 120), range(5)
OPTIMIZER = optax.adam(0.01)


class Questions(NamedTuple):
    """All that training sees of N questions."""

    numbers: Array  # [N] int, where to start from
    words: Array  # [N, 4] int, 0 after the last
    answers: Array  # [N] int


class Draws(NamedTuple):
    """K chains for each of B questions."""

    tokens: Array  # [B, K, 4] int, PAD after END
    log_q: Array  # [B, K]: the log-probability with which each was drawn
    right: Array  # [B, K] bool: it ends in the answer
    known: Array  # [B] bool: an earlier right chain is remembered


# Toys, whose place yours take: questions, what checks an answer, a decoder.
def make_questions(count: int, seed: int) -> Questions:
    """Questions of one to three words, and the answers of the chains that they mean."""
    rng = np.random.default_rng(seed)
    words = rng.integers(1, NUM_STEPS + 1, (count, LENGTH))
    words[np.arange(LENGTH) >= rng.integers(1, LENGTH, count)[:, None]] = 0
    numbers, words = jnp.asarray(rng.integers(0, MODULUS, count)), jnp.asarray(words)
    return Questions(numbers, words, execute(meant_chains(words), numbers))


def meant_chains(words: Array) -> Array:
    """``[N, 4]``: the n-th word means the n-th step, which no model is told."""
    ends = jnp.cumsum(words == 0, axis=-1) == 1
    return jnp.where(words > 0, words + END, jnp.where(ends, END, PAD))


def execute(tokens: Array, numbers: Array) -> Array:
    """The answers of chains ``[..., 4]`` from numbers ``[...]``; -1 for a chain without an end."""
    times, plus = jnp.asarray(EFFECTS.T)
    values = numbers
    for token in jnp.moveaxis(tokens, -1, 0):
        values = (values * times[token] + plus[token]) % MODULUS
    return jnp.where((tokens == END).any(-1), values, -1)


def start(seed: int) -> dict[str, Array]:
    """The parameters of a decoder that knows nothing."""
    rows = {"words": NUM_STEPS + 1, "last": len(EFFECTS), "hidden": WIDTH, "output": len(EFFECTS)}
    keys = iter(jax.random.split(jax.random.key(seed), len(rows)))
    return {n: jax.random.normal(next(keys), (m, WIDTH)) / WIDTH**0.5 for n, m in rows.items()}


def next_log_probs(params: Any, words: Array, last: Array) -> Array:
    """``[..., V]``: log P of the next token, given the one before and the word at its place."""
    hidden = jnp.tanh(params["words"][words] + params["last"][last])
    scores = jnp.tanh(hidden @ params["hidden"]) @ params["output"].T
    return jax.nn.log_softmax(scores.at[..., PAD].set(-jnp.inf))


def pick(log_probs: Array, tokens: Array) -> Array:
    return jnp.take_along_axis(log_probs, tokens[..., None], axis=-1)[..., 0]


def sequence_log_probs(params: Any, words: Array, tokens: Array) -> Array:
    """``[B, K]``: log P(z | x) of chains ``[B, K, 4]``, the sum over their tokens."""
    last = jnp.concatenate([jnp.full_like(tokens[..., :1], END), tokens[..., :-1]], axis=-1)
    log_probs = next_log_probs(params, jnp.broadcast_to(words[:, None], tokens.shape), last)
    return jnp.where(tokens == PAD, 0.0, pick(log_probs, tokens)).sum(-1)


def sample(params: Any, words: Array, key: Array, count: int, temperature: float = 1.0):
    """K chains ``[B, K, 4]`` and the log-probabilities with which they were drawn, ``[B, K]``."""
    last = jnp.full((len(words), count), END)
    done, log_q, tokens = jnp.zeros(last.shape, bool), jnp.zeros(last.shape), []
    for place in range(LENGTH):
        scores = next_log_probs(params, words[:, place, None], last)
        scores = jax.nn.log_softmax(scores / temperature)
        last = jax.random.categorical(jax.random.fold_in(key, place), scores)
        log_q += jnp.where(done, 0.0, pick(scores, last))
        last = jnp.where(done, PAD, last)
        done |= last == END
        tokens.append(last)
    return jnp.stack(tokens, axis=-1), log_q


# What stays: equal chains, the objectives, a step.
def chain_ids(tokens: Array) -> Array:
    """``[...]`` uint32, equal for equal chains ``[..., T]``: the hash FNV-1a."""

    def add(ids: Array, token: Array) -> tuple[Array, None]:
        return (ids ^ token) * jnp.uint32(16777619), None

    first = jnp.full(tokens.shape[:-1], 2166136261, jnp.uint32)
    return jax.lax.scan(add, first, jnp.moveaxis(tokens, -1, 0).astype(jnp.uint32))[0]


def hard_em(log_probs: Array, memory_log_probs: Array, draws: Draws) -> Array:
    return hard_em_loss(log_probs, where=draws.right)


def mml(log_probs: Array, memory_log_probs: Array, draws: Draws) -> Array:
    # Z is a set: a chain that was drawn twice is not twice as probable.
    return mml_loss(log_probs, where=distinct(chain_ids(draws.tokens), where=draws.right))


def weighted_mml(log_probs: Array, memory_log_probs: Array, draws: Draws) -> Array:
    # Repeated draws count, each by 1 / (K q): the sum estimates P(answer | question) without bias.
    log_weights = -draws.log_q - jnp.log(draws.right.shape[-1])
    return mml_loss(log_probs, log_weights=log_weights, where=draws.right)


def trice(log_probs: Array, memory_log_probs: Array, draws: Draws) -> Array:
    return trice_loss(
        log_probs, draws.right, memory_log_probs=memory_log_probs, has_memory=draws.known
    )


#: Objective -> its loss, and the temperature of its draws.
OBJECTIVES: dict[str, tuple[Callable[..., Array], float]] = {
    "hard EM": (hard_em, 1.0),
    "MML": (mml, 1.0),
    "MML, weighted": (weighted_mml, 1.5),
    "TRICE": (trice, 1.0),
}


class State(NamedTuple):
    """What a step changes."""

    params: Any
    optimizer: Any
    memory: Array  # [N, 4] int: the last right chain drawn for each question, for TRICE
    known: Array  # [N] bool: there is one


@functools.partial(jax.jit, static_argnames="name")
def train_step(name: str, state: State, questions: Questions, rows: Array, key: Array):
    """Draws, checks, learns and remembers; returns the state, the loss and what was drawn."""
    objective, temperature = OBJECTIVES[name]
    batch = Questions(*(x[rows] for x in questions))
    tokens, log_q = sample(state.params, batch.words, key, DRAWS, temperature)
    right = execute(tokens, batch.numbers[:, None]) == batch.answers[:, None]
    memory, known = state.memory[rows], state.known[rows]
    draws = Draws(tokens, log_q, right, known)

    def loss_fn(params: Any) -> Array:
        seen = jnp.concatenate([tokens, memory[:, None]], axis=1)
        log_probs = sequence_log_probs(params, batch.words, seen)
        return objective(log_probs[:, :-1], log_probs[:, -1], draws)

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    updates, optimizer = OPTIMIZER.update(grads, state.optimizer)
    last = jnp.max(jnp.where(right, jnp.arange(DRAWS), -1), axis=1)
    latest = jnp.where(last[:, None] < 0, memory, tokens[jnp.arange(len(rows)), last])
    after = state.memory.at[rows].set(latest), state.known.at[rows].set(known | (last >= 0))
    return State(optax.apply_updates(state.params, updates), optimizer, *after), loss, draws


def train(name: str, seed: int, questions: Questions, dev: Questions) -> list[Array]:
    """What `evaluate` finds after each number of updates in `EVALUATED`."""
    params, count, rng = start(seed), len(questions.answers), np.random.default_rng(seed)
    memory = jnp.zeros((count, LENGTH), jnp.int32), jnp.zeros(count, bool)
    state, found = State(params, OPTIMIZER.init(params), *memory), []
    for step in range(1, EVALUATED[-1] + 1):
        rows = rng.choice(count, BATCH, replace=False)
        key = jax.random.fold_in(jax.random.key(seed), step)
        state, _, _ = train_step(name, state, questions, rows, key)
        if step in EVALUATED:
            found.append(evaluate(state.params, dev))
    return found


@jax.jit
def evaluate(params: Any, questions: Questions) -> Array:
    """``[2]``: how many answers are right, and how many chains as meant, in percent."""
    cold = 1e-4  # so that the most likely token is drawn
    tokens = sample(params, questions.words, jax.random.key(0), 1, cold)[0][:, 0]
    right = execute(tokens, questions.numbers) == questions.answers
    meant = (tokens == meant_chains(questions.words)).all(-1)
    return 100 * jnp.stack([right.mean(), meant.mean()])


def main() -> dict[str, np.ndarray]:
    """Prints a table, means over the seeds, and returns its scores ``[seed, evaluated, 2]``."""
    questions, dev, scores = make_questions(500, seed=0), make_questions(500, seed=1), {}
    columns = (f"{name} after {steps}" for steps in EVALUATED for name in ("right", "as meant"))
    print("objective    ", *(f"{column:>18}" for column in columns))
    for name in OBJECTIVES:
        scores[name] = np.array([train(name, seed, questions, dev) for seed in SEEDS])
        print(f"{name:13}", *(f"{mean:16.1f} %" for mean in scores[name].mean(axis=0).ravel()))
    return scores


if __name__ == "__main__":
    main()
