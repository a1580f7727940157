r"""Bias and variance of gradients from K draws, against the exact ones.

A gradient here is that of the mean loss of a few problems, as one vector g of all parameters. Draws
come in samples of the largest K; cut into pieces they are samples of every smaller K as well. The
loss of an estimator depends on the parameters only through the log-probs of its draws, so its
gradient is the gradient of each log-prob times what the loss gives it, and all estimators share the
former.

With :math:`g^*` the exact gradient and :math:`\bar g` the mean over D estimates:

.. math:: \text{variance} = \frac{1}{D-1} \sum_d |g_d - \bar g|^2, \quad
    \text{bias}^2 = |\bar g - g^*|^2 - \text{variance} / D, \quad
    \text{MSE} = \frac1D \sum_d |g_d - g^*|^2,

where the second term makes bias² unbiased (it may be below 0). All are divided by
:math:`|g^*|^2`. Hard EM is compared with exact hard EM, all others with exact MML.

**What theory says.** With p the probability of the answer, and per problem:

==========================  ==========================================================
IWAE, K draws               :math:`E[g] = (1 - (1 - p)^K) \nabla \log p`
TRICE (exact memory)        :math:`E[g] = \nabla \log p`
REINFORCE                   :math:`E[g] = p \nabla \log p = \nabla p`
JEPO, K draws               :math:`E[g] = K p\, E[L(1 + n) - L(n)] \nabla \log p`, n binomial
                            of K - 1 and p, :math:`L(n) = \log((n + (K - n) \epsilon) / K)`
==========================  ==========================================================

``z`` of an estimator is how many standard errors its mean is from that, along :math:`g^*`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from scipy.stats import binom

from experiments.rationales.estimators import (
    ESTIMATORS,
    MISPRINT,
    Drawn,
    exact_hard_em,
    exact_mml,
    log_likelihoods,
)
from experiments.rationales.model import Model, Params
from experiments.rationales.problems import Problems, make_problems
from experiments.rationales.training import DEV, TRAIN, Z, batches, solutions, start
from hardem_jax import losses, masked

if TYPE_CHECKING:
    from experiments.rationales.command import GradientVariance

Array = jax.Array


class Exact(NamedTuple):
    """What enumeration gives for B problems."""

    log_probs: Array
    """``[B, Z]`` of all correct rationales, -inf at padding."""
    scores: Array
    """``[B, Z, P]``: the gradient of each log-prob."""
    p: np.ndarray
    """``[B]`` probability of the answer."""
    mml: np.ndarray
    """``[B, P]`` gradient of log p."""
    hard_em: np.ndarray
    """``[B, P]`` gradient of the most likely log-prob."""


def measure(options: GradientVariance) -> dict[str, Any]:
    """Everything ``variance.json`` holds."""
    sizes = options.sizes
    model = Model(sizes.width, sizes.layers)
    params = start(
        sizes.width,
        sizes.layers,
        sizes.pretraining,
        sizes.true_share,
        sizes.pretraining_seed,
    )
    problems = make_problems(options.problems, seed=DEV)
    stages = []
    for steps, reached in train_exactly(model, params, options):
        found = measure_stage(model, reached, problems, options)
        print(f"after {steps} steps: p = {found['p']:.3f}", flush=True)
        stages.append({"steps": steps, **found})
    return {"draws": _sizes(options.largest), "stages": stages}


def train_exactly(
    model: Model, params: Params, options: GradientVariance
) -> Iterator[tuple[int, Params]]:
    """Steps of exact MML at a constant rate, and the parameters after them, at every stage."""
    problems = make_problems(options.sizes.num_train, seed=TRAIN)
    z, transform = solutions(problems), optax.adamw(options.learning_rate, b2=0.98)

    @jax.jit
    def step(params, state, prompts, tokens, where):
        def loss(params):
            return exact_mml(model.log_probs(params, prompts, tokens), where).mean()

        updates, state = transform.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, updates), state

    stages, rng = sorted(set(options.stages)), np.random.default_rng(options.seed)
    order = batches(rng, options.sizes.num_train, options.batch_size, stages[-1])
    state, taken = transform.init(params), 0
    for stage in stages:
        for rows in itertools.islice(order, stage - taken):
            places = problems.prompts[rows], z.tokens[rows], z.where[rows]
            params, state = step(params, state, *places)
        taken = stage
        yield stage, params


def measure_stage(
    model: Model, params: Params, problems: Problems, options: GradientVariance
) -> dict[str, Any]:
    """Bias, variance and error of every estimator at one model, in units of the exact gradient."""
    z = solutions(problems)
    exact = enumerate_exactly(model, params, problems, z)
    totals: dict[tuple[str, int], _Total] = {}
    bounds: dict[int, list] = {}
    draw = _drawer(model, problems, options.largest)
    targets = {name: _target(exact, name) for name in ESTIMATORS}
    for repeat in range(options.repeats):
        key = jax.random.fold_in(jax.random.key(options.seed), repeat)
        found, reached = jax.device_get(draw(params, exact.log_probs, exact.scores, targets, key))
        for name, sums in found.items():
            totals.setdefault(name, _Total(targets[name[0]])).add(sums)
        for count, bound in reached.items():
            bounds.setdefault(count, []).extend(bound)
    log_p = np.log(exact.p * (1 - MISPRINT) + MISPRINT)
    return {
        "p": float(exact.p.mean()),
        "p of each problem": exact.p.tolist(),
        "solutions": z.where.sum(axis=1).tolist(),
        "norm of the exact gradient": {
            "MML": float(np.linalg.norm(exact.mml.mean(axis=0))),
            "Hard EM": float(np.linalg.norm(exact.hard_em.mean(axis=0))),
        },
        "log p": float(log_p.mean()),
        "bound": {count: _bound(values, exact.p, count) for count, values in bounds.items()},
        "estimators": {
            name: {
                count: totals[name, count].summary(expected(name, count, exact))
                for count in _sizes(options.largest)
            }
            for name in ESTIMATORS
        },
    }


def _sizes(largest: int) -> list[int]:
    return [2**n for n in range(largest.bit_length())]


def _target(exact: Exact, name: str) -> np.ndarray:
    return (exact.hard_em if name.startswith("Hard EM") else exact.mml).mean(axis=0)


def expected(name: str, count: int, exact: Exact) -> np.ndarray | None:
    """``[P]``: the mean of an estimator that theory gives, None where it gives none."""
    p = exact.p
    factors = {
        "IWAE": 1 - (1 - p) ** count,
        "TRICE": np.ones_like(p),
        "TRICE, no control variate": np.ones_like(p),
        "REINFORCE": p,
        "JEPO": count * p * np.array([_gain(count, q) for q in p]),
    }
    return (factors[name] @ exact.mml) / len(p) if name in factors else None


def _level(correct: np.ndarray, count: int) -> np.ndarray:
    """The bound of ``count`` draws of which some are correct."""
    return np.log((correct + (count - correct) * MISPRINT) / count)


def _gain(count: int, p: float) -> float:
    """By how much one more correct draw raises the bound, on average over the others."""
    others = np.arange(count)
    gains = _level(others + 1, count) - _level(others, count)
    return float(binom.pmf(others, count - 1, p) @ gains)


def _bound(values: list, p: np.ndarray, count: int) -> dict[str, float]:
    """The IWAE bound on the mean log p of K draws, measured and in theory."""
    correct = np.arange(count + 1)
    theory = [binom.pmf(correct, count, q) @ _level(correct, count) for q in p]
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return {"mean": float(np.mean(values)), "standard error": float(error),
            "theory": float(np.mean(theory))}  # fmt: skip


def enumerate_exactly(model: Model, params: Params, problems: Problems, z: Z) -> Exact:
    """Log-probs of all of Z, their gradients, and the exact gradients of both objectives."""
    scores, log_probs = _scores(model)(params, problems.prompts, z.tokens)
    log_probs = jnp.where(z.where, log_probs, -jnp.inf)

    def combine(loss):
        weights = -jax.grad(lambda x: loss(x, z.where).sum())(log_probs)
        return np.asarray(jnp.einsum("bz,bzp->bp", weights, scores), float)

    p = np.exp(np.asarray(masked.logsumexp(log_probs), float))
    return Exact(log_probs, scores, p, combine(exact_mml), combine(exact_hard_em))


@functools.lru_cache(maxsize=1)
def _scores(model: Model):
    """Gradients ``[B, K, P]`` and log-probs ``[B, K]`` of rationales, all parameters in a row."""

    def one(params, prompt, tokens):
        def log_prob(params):
            return model.log_probs(params, prompt[None], tokens[None, None])[0, 0]

        value, gradient = jax.value_and_grad(log_prob)(params)
        return ravel_pytree(gradient)[0], value

    return jax.jit(jax.vmap(jax.vmap(one, (None, None, 0)), (None, 0, 0)))


def _drawer(model: Model, problems: Problems, largest: int):
    """A function of a key: the `_Sums` of every estimator and K, and the bounds."""

    @jax.jit
    def sample(params, key):
        draws = model.draw(params, problems, key, count=largest)
        scores, log_probs = _scores(model)(params, jnp.asarray(problems.prompts), draws.tokens)
        return scores, (log_probs, draws.programs, draws.correct)

    def draw(params, z_log_probs, z_scores, targets, key):
        sample_key, memory_key = jax.random.split(key)
        scores, drawn = sample(params, sample_key)
        found, reached = {}, {}
        for count in _sizes(largest):
            pieces = largest // count
            shape = pieces, len(z_log_probs)
            chosen = jax.random.fold_in(memory_key, count), z_log_probs[None]
            memory = np.asarray(jax.random.categorical(*chosen, shape=shape))
            weights, at_memory, bound = _weigh(drawn, np.asarray(z_log_probs), memory)
            sums = _combine(scores, z_scores, weights, at_memory, memory, targets)
            found |= {(name, count): kept for name, kept in sums.items()}
            reached[count] = bound
        return found, reached

    return draw


def _weigh(drawn, z_log_probs: np.ndarray, memory: np.ndarray):
    """What the mean loss of B problems gives each log-prob, for samples of K draws.

    Args:
        drawn: log-probs, programs and which are correct, ``[B, largest]``.
        z_log_probs: ``[B, Z]``.
        memory: ``[n, B]`` int: what each of n samples remembers.

    Returns:
        Of every estimator ``[n, B, K]`` for the draws and ``[n, B]`` for the memory; and ``[n]``,
        the IWAE bounds.
    """
    pieces, problems = memory.shape
    largest = drawn[0].shape[1]
    count = largest // pieces
    # Padded to one shape for every K, so that all estimators are compiled once.
    room = ((0, problems * (largest - pieces)), (0, largest - count))

    def rows(x):
        cut = np.swapaxes(np.asarray(x).reshape(problems, pieces, count), 0, 1)
        return np.pad(cut.reshape(-1, count), room)

    kept = np.take_along_axis(z_log_probs[None], memory[..., None], axis=2)
    columns = (*map(rows, drawn), rows(np.ones(drawn[0].shape, bool)))
    weights, at_memory, bound = _row_weights(*columns, np.pad(kept.reshape(-1), room[0]))
    real = pieces * problems
    shape = pieces, problems, count
    return (
        {k: (x[:real, :count] / problems).reshape(shape) for k, x in weights.items()},
        {k: (x[:real] / problems).reshape(shape[:2]) for k, x in at_memory.items()},
        bound[:real].reshape(shape[:2]).mean(axis=1),
    )


@jax.jit
def _row_weights(log_probs, programs, correct, where, memory):
    """Of every estimator what each row's loss gives its log-probs and its memory; the bounds."""
    known = jnp.ones(memory.shape, bool)

    def loss(estimator, log_probs, memory):
        return -estimator(Drawn(log_probs, programs, correct, where, memory, known)).sum()

    found = {
        name: jax.grad(functools.partial(loss, estimator), argnums=(0, 1))(log_probs, memory)
        for name, estimator in ESTIMATORS.items()
    }
    likelihoods = log_likelihoods(correct)
    draws = jnp.broadcast_to(where.sum(axis=1, keepdims=True), where.shape)
    options = {"log_weights": -jnp.log(jnp.maximum(draws, 1)), "where": where, "reduce_fn": None}
    bound = -losses.mml_loss(likelihoods, **options)
    return {k: x[0] for k, x in found.items()}, {k: x[1] for k, x in found.items()}, bound


@jax.jit
def _combine(scores, z_scores, weights, at_memory, memory, targets) -> dict[str, _Sums]:
    """The gradients that the weights of each estimator make of ``[B, K, P]`` and ``[B, Z, P]``."""
    found = {}
    for name, given in weights.items():
        pieces = given.shape[0]
        split = scores.reshape(len(scores), pieces, -1, scores.shape[-1])
        gradients = jnp.einsum("nbk,bnkp->np", given, split)
        if name.startswith("TRICE"):  # no other looks at the memory
            own = jax.nn.one_hot(memory, z_scores.shape[1]) * at_memory[name][..., None]
            gradients += jnp.einsum("nbz,bzp->np", own, z_scores)
        found[name] = _Sums.of(gradients, targets[name])
    return found


class _Sums(NamedTuple):
    """What is kept of n estimates of a gradient."""

    total: Array
    """``[P]``: their sum."""
    squares: Array
    """``[n]``: their squared norms."""
    errors: Array
    """``[n]``: their squared distances from the exact gradient."""
    along: Array
    """``[n]``: their products with it."""

    @classmethod
    def of(cls, gradients: Array, target: Array) -> _Sums:
        distances = gradients - target[None]
        squares, errors = (jnp.sum(x * x, axis=1) for x in (gradients, distances))
        return cls(gradients.sum(axis=0), squares, errors, gradients @ target)


class _Total:
    """Sums over all estimates of a gradient, in float64."""

    def __init__(self, target: np.ndarray):
        self.target = target
        self.sum = np.zeros_like(target)
        self.squares: list[float] = []
        self.errors: list[float] = []
        self.along: list[float] = []

    def add(self, sums: _Sums) -> None:
        self.sum += sums.total
        self.squares += sums.squares.tolist()
        self.errors += sums.errors.tolist()
        self.along += sums.along.tolist()

    def summary(self, theory: np.ndarray | None) -> dict[str, float | None]:
        """Bias, variance and error in units of the exact gradient, and z of the mean."""
        count, unit = len(self.squares), float(self.target @ self.target)
        mean = self.sum / count
        variance = (np.mean(self.squares) - mean @ mean) * count / (count - 1)
        bias = np.sum(np.square(mean - self.target)) - variance / count
        along = np.array(self.along) / unit
        error = np.std(along, ddof=1) / np.sqrt(count)
        known: dict[str, float | None] = {"bias in theory": None, "z": None}
        if theory is not None:
            gap = along.mean() - theory @ self.target / unit
            known["bias in theory"] = float(np.sum(np.square(theory - self.target)) / unit)
            # Without any spread there is nothing that a mean could be standard errors away from.
            known["z"] = float(gap / error) if error > 0 else None
        return {
            "estimates": count,
            "squared bias": float(bias / unit),
            "variance": float(variance / unit),
            "mean squared error": float(np.mean(self.errors) / unit),
            "along the exact gradient": float(along.mean()),
            "standard error": float(error),
            **known,
        }
