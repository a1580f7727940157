"""One run: a pretrained decoder, trained on answers alone, and what it then answers."""

from __future__ import annotations

import dataclasses
import functools
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments.rationales.estimators import ESTIMATORS, Drawn, exact_hard_em, exact_mml
from experiments.rationales.model import Draws, Model, Params, pretrained
from experiments.rationales.problems import (
    RATIONALE_TOKENS,
    Problems,
    is_true,
    make_problems,
    rationales,
    run_programs,
    true_rationales,
)
from experiments.regimes.grid import pack

Array = jax.Array

#: Objectives that see all of Z, or the true rationale: what sampling is compared with.
EXACT = {"MML, exact": exact_mml, "Hard EM, exact": exact_hard_em}
SUPERVISED = "Supervised"
#: All objectives, those of one run after another.
OBJECTIVES = (*ESTIMATORS, *EXACT, SUPERVISED)
#: Seeds of the two splits.
TRAIN, DEV = 0, 1


@dataclasses.dataclass(frozen=True)
class Run:
    """A run to make; the fields are those of a line in ``runs.jsonl``.

    Attributes:
        objective: a name of `OBJECTIVES`.
        seed: of batches and draws; all runs start at the same pretrained decoder.
        steps, batch_size, draws, learning_rate: of training; draws of each problem in each step.
        num_train, num_dev: problems.
        width, layers: of the decoder.
        pretraining: steps of it.
        true_share: share of true rationales in pretraining.
        pretraining_seed: of first parameters and pretraining.
    """

    objective: str
    seed: int
    steps: int
    batch_size: int
    draws: int
    learning_rate: float
    num_train: int
    num_dev: int
    width: int
    layers: int
    pretraining: int
    true_share: float
    pretraining_seed: int


def identity(run: Mapping[str, Any]) -> str:
    """What tells a run from all others, whether it has ended or not."""
    names = [field.name for field in dataclasses.fields(Run)]
    return json.dumps({name: run[name] for name in names}, sort_keys=True)


class State(NamedTuple):
    """What a step changes."""

    params: Params
    optimizer: Any
    memory: Array
    """``[N, 9]`` int32: a correct rationale of each training problem, for TRICE."""
    has_memory: Array
    """``[N]`` bool."""


class Z(NamedTuple):
    """The correct rationales of each, padded to the largest number of them."""

    tokens: np.ndarray
    """``[N, Z, 9]`` int32."""
    where: np.ndarray
    """``[N, Z]`` bool."""
    programs: np.ndarray | None
    """``[N, Z]`` rows of `PROGRAMS`, -1 at padding."""


def solutions(problems: Problems) -> Z:
    """Z of each problem, by execution of all programs.

    Example:
        >>> z = solutions(make_problems(3, seed=0))
        >>> z.tokens.shape == (*z.where.shape, 9), z.where.sum(1)
        (True, array([12,  7,  9]))
    """
    ends = run_programs(problems.numbers) == problems.answers[:, None]
    size = ends.sum(axis=1).max()
    order = np.argsort(~ends, axis=1, kind="stable")[:, :size]
    where = np.take_along_axis(ends, order, axis=1)
    tokens = np.take_along_axis(rationales(problems.numbers), order[..., None], axis=1)
    return Z(tokens, where, np.where(where, order, -1))


def make(run: Run) -> dict[str, Any]:
    """Trains, answers the development questions, and returns the line for ``runs.jsonl``.

    Raises:
        FloatingPointError: a gradient is not finite.
    """
    began = time.monotonic()
    params = start(run.width, run.layers, run.pretraining, run.true_share, run.pretraining_seed)
    rng = np.random.default_rng(run.seed)
    step, begin = compiled(dataclasses.replace(run, seed=0))
    state, key, correct, finite = begin(params), jax.random.key(run.seed), [], []
    for number, rows in enumerate(batches(rng, run.num_train, run.batch_size, run.steps)):
        state, metrics = step(state, rows, jax.random.fold_in(key, number))
        finite.append(metrics["finite"])
        correct.append(metrics["correct"])
    if not np.all(jax.device_get(finite)):
        raise FloatingPointError(f"{run}: expected finite gradients, found others")
    outcomes = answer(model_of(run.width, run.layers), state.params, run.num_dev)
    curve = np.array(jax.device_get(correct)).reshape(-1)
    return dataclasses.asdict(run) | {
        "scores": {name: 100 * float(found.mean()) for name, found in outcomes.items()},
        "outcomes": {name: pack(found) for name, found in outcomes.items()},
        "correct draws": [
            round(float(part.mean()), 4) for part in np.array_split(curve, min(20, run.steps))
        ],
        "seconds": round(time.monotonic() - began, 2),
    }


def batches(
    rng: np.random.Generator, count: int, batch_size: int, steps: int
) -> Iterator[np.ndarray]:
    """Rows of each step's problems: each epoch has all of them in another order."""
    left = np.zeros(0, np.int64)
    for _ in range(steps):
        while len(left) < batch_size:
            left = np.concatenate([left, rng.permutation(count)])
        rows, left = left[:batch_size], left[batch_size:]
        yield rows


@functools.lru_cache(maxsize=1)
def model_of(width: int, layers: int) -> Model:
    """The decoder of these sizes."""
    return Model(width, layers)


@functools.lru_cache(maxsize=1)
def start(width: int, layers: int, pretraining: int, true_share: float, seed: int) -> Params:
    """Pretrained parameters: the same for all objectives and seeds of a run.

    Otherwise the spread between pretrained decoders would be in every comparison.
    """
    model = model_of(width, layers)
    return pretrained(model, steps=pretraining, true_share=true_share, seed=seed)


@functools.lru_cache(maxsize=len(OBJECTIVES))
def compiled(run: Run) -> tuple[Any, Any]:
    """The training step, and what makes its first state; the seed does not matter."""
    schedule = optax.warmup_cosine_decay_schedule(
        0.0, run.learning_rate, min(max(1, run.steps // 10), run.steps - 1), run.steps
    )
    transform = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, b2=0.98))
    gradient = _sampled_gradient(run) if run.objective in ESTIMATORS else _exact_gradient(run)

    @jax.jit
    def begin(params: Params) -> State:
        # A copy, because the step donates its state and all runs start here.
        own = jax.tree.map(jnp.copy, params)
        memory = jnp.zeros((run.num_train, RATIONALE_TOKENS), jnp.int32)
        return State(own, transform.init(own), memory, jnp.zeros(run.num_train, bool))

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state: State, rows: Array, key: Array) -> tuple[State, dict[str, Array]]:
        grads, state, correct = gradient(state, rows, key)
        updates, optimizer = transform.update(grads, state.optimizer, state.params)
        params = optax.apply_updates(state.params, updates)
        metrics = {"finite": jnp.isfinite(optax.tree.norm(grads)), "correct": correct}
        return state._replace(params=params, optimizer=optimizer), metrics

    return step, begin


def _sampled_gradient(run: Run):
    """Gradient of an estimator, the state with new memories, and the share of correct draws."""
    model, estimator = model_of(run.width, run.layers), ESTIMATORS[run.objective]
    problems = jax.tree.map(jnp.asarray, make_problems(run.num_train, seed=TRAIN))

    def gradient(state: State, rows: Array, key: Array) -> tuple[Params, State, Array]:
        batch, known = problems.take(rows), state.has_memory[rows]
        draws = model.draw(state.params, batch, key, count=run.draws)
        seen = jnp.concatenate([draws.tokens, state.memory[rows][:, None]], axis=1)

        def loss(params):
            scores = model.log_probs(params, batch.prompts, seen)
            everywhere = jnp.ones(draws.correct.shape, bool)
            memory = scores[:, -1]
            drawn = Drawn(scores[:, :-1], draws.programs, draws.correct, everywhere, memory, known)
            return estimator(drawn).mean()

        memory, known_now = remember(state.memory[rows], known, draws)
        state = state._replace(
            memory=state.memory.at[rows].set(memory),
            has_memory=state.has_memory.at[rows].set(known_now),
        )
        return jax.grad(loss)(state.params), state, draws.correct.mean()

    return gradient


def _exact_gradient(run: Run):
    """Gradient of an objective over all of Z, or over the true rationale; no draws."""
    model = model_of(run.width, run.layers)
    problems = make_problems(run.num_train, seed=TRAIN)
    z = solutions(problems)
    if run.objective == SUPERVISED:  # a Z of one
        z = Z(true_rationales(problems)[:, None], np.ones((run.num_train, 1), bool), None)
    objective = EXACT.get(run.objective, exact_mml)
    prompts, tokens, where = map(jnp.asarray, (problems.prompts, z.tokens, z.where))

    def gradient(state: State, rows: Array, key: Array) -> tuple[Params, State, Array]:
        del key

        def loss(params):
            return objective(
                model.log_probs(params, prompts[rows], tokens[rows]), where[rows]
            ).mean()

        return jax.grad(loss)(state.params), state, jnp.zeros(())

    return gradient


def remember(memory: Array, known: Array, draws: Draws) -> tuple[Array, Array]:
    """The last correct draw of each problem or, without one, what it remembered before."""
    place = jnp.arange(draws.correct.shape[1])[None]
    last = jnp.max(jnp.where(draws.correct, place, -1), axis=1)
    new = jnp.take_along_axis(draws.tokens, jnp.maximum(last, 0)[:, None, None], axis=1)[:, 0]
    return jnp.where((last >= 0)[:, None], new, memory), known | (last >= 0)


def answer(model: Model, params: Params, num_dev: int) -> dict[str, np.ndarray]:
    """Score -> ``[N]`` bool: which development questions the most likely tokens answer."""
    dev = make_problems(num_dev, seed=DEV)
    draws = _decode(model, num_dev)(params)
    programs = np.asarray(draws.programs)
    return {
        "answer": np.asarray(draws.correct)[:, 0],
        "true rationale": is_true(dev, programs)[:, 0],
    }


@functools.lru_cache(maxsize=2)
def _decode(model: Model, num_dev: int):
    dev = make_problems(num_dev, seed=DEV)
    options = {"count": 1, "temperature": 0.0, "key": jax.random.key(0)}
    return jax.jit(lambda params: model.draw(params, dev, **options))
