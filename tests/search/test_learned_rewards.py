"""Learned rewards, against the gradient through an unrolled step and on planted questions."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from hardem_jax import losses
from hardem_jax.search.learned_rewards import learned_reward_loss
from hardem_jax.training.mesh import data_mesh, place_batch
from hardem_jax.training.state import init_state
from hardem_jax.training.step import compile_train_step, make_train_step
from tests.tables.test_learned_rewards import close

# Questions, candidates of each, features of a candidate.
B, N, F = 8, 5, 4


def questions(seed=0):
    """What the model reads of each candidate, what the reward reads, and what leads to the answer.

    The last candidate of question 0 is impossible, and nothing was found for question 1.
    """
    rng = np.random.default_rng(seed)
    where = rng.random((B, N)) < 0.6
    where[:, 0] = True
    where[0] = [True, True, True, False, True]
    where[1] = False
    read, features = (rng.normal(size=(B, N, F)).astype(np.float32) for _ in range(2))
    return {"read": read, "features": features, "where": where}


def policy(params, batch):
    """A small network, so that second derivatives matter: log P of the candidates, ``[B, N]``."""
    scores = jnp.tanh(batch["read"] @ params["hidden"]) @ params["out"]
    possible = jnp.ones(scores.shape, bool).at[0, -1].set(False)
    return jax.nn.log_softmax(jnp.where(possible, scores, -jnp.inf))


def parameters():
    rng = np.random.default_rng(3)
    draw = {"hidden": (F, 6), "out": (6,)}
    params = {n: jnp.asarray(rng.normal(size=s), jnp.float32) for n, s in draw.items()}
    return params, jnp.asarray(rng.normal(size=F), jnp.float32)


def held_out(params):
    batch = questions(seed=1)
    return losses.mml_loss(policy(params, batch), where=batch["where"])


def loss(params, weights, batch=None, rate=0.7):
    batch = questions() if batch is None else batch
    return learned_reward_loss(
        params,
        weights,
        log_prob=lambda params: policy(params, batch),
        reward=lambda weights: batch["features"] @ weights,
        where=batch["where"],
        held_out=held_out,
        rate=rate,
    )


def unrolled(params, weights, rate=0.7):
    """L and V(theta - rate grad L), written out."""
    batch = questions()

    def inner(params):
        where = jnp.asarray(batch["where"]).at[0, -1].set(False)
        scores = jnp.where(where, batch["features"] @ weights, -jnp.inf)
        found = jnp.any(where, axis=-1)
        q = jnp.where(where, jax.nn.softmax(jnp.where(found[:, None], scores, 0.0)), 0.0)
        return -jnp.sum(q * jnp.where(where, policy(params, batch), 0.0)) / jnp.sum(found)

    step = jax.grad(inner)(params)
    return inner(params), held_out(jax.tree.map(lambda x, g: x - rate * g, params, step))


def test_the_gradient_is_that_through_the_unrolled_step():
    params, weights = parameters()
    run = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))
    (value, metrics), grads = run(params, weights)
    inner, after = jax.jit(unrolled)(params, weights)
    close((value, metrics["held_out"]), (inner, after), rtol=1e-5)
    expected = jax.jit(jax.grad(lambda *x: unrolled(*x)[0]))(params, weights)
    meta = jax.jit(jax.grad(lambda *x: unrolled(*x)[1], argnums=1))(params, weights)
    close(grads, (expected, meta), atol=1e-5)
    assert np.abs(meta).max() > 0.01 and -1 <= metrics["agreement"] <= 1
    assert metrics["agreement"] != 0


def test_nan_shows(monkeypatch):
    value = held_out(parameters()[0])
    monkeypatch.setitem(globals(), "held_out", lambda params: value)
    whole = policy
    monkeypatch.setitem(globals(), "policy", lambda *given: whole(*given).at[0, 0].set(jnp.nan))
    assert questions()["where"][0, 0] and np.isnan(loss(*parameters())[0])


def test_without_anything_found_there_is_no_gradient():
    params, weights = parameters()
    batch = questions() | {"where": np.zeros((B, N), bool)}
    (value, metrics), grads = jax.jit(
        jax.value_and_grad(lambda theta, phi: loss(theta, phi, batch), argnums=(0, 1), has_aux=True)
    )(params, weights)
    assert value == 0 and not any(np.any(g) for g in jax.tree.leaves(grads))
    still = jax.jit(jax.grad(lambda *x: loss(*x, rate=0.0)[0], argnums=1))(params, weights)
    assert not np.any(still)  # a step of size zero
    assert metrics["agreement"] == 0 and np.isfinite(metrics["held_out"])


def test_the_loss_has_32_bits_and_nothing_is_promoted_implicitly():
    for project in (jax.enable_x64(True), jax.numpy_dtype_promotion("strict")):
        with project:
            found = jax.eval_shape(jax.value_and_grad(loss, (0, 1), has_aux=True), *parameters())
        assert {x.dtype for x in jax.tree.leaves(found)} == {jnp.dtype("float32")}


def planted(rows, seed=0):
    """Two solutions found of each question: a true one by a rule that all share, a spurious one.

    A question shows one of four signs in its words, and its true solution is the candidate of that
    sign; the spurious one is another candidate at random. Feature 0 marks candidates that agree
    with the words, feature 1 is noise.
    """
    rng = np.random.default_rng(seed)
    sign = rng.integers(4, size=rows)
    spurious = (sign + rng.integers(1, 4, size=rows)) % 4
    true = np.eye(4, dtype=bool)[sign]
    features = np.stack([true, rng.normal(size=(rows, 4))], axis=-1).astype(np.float32)
    where = true | np.eye(4, dtype=bool)[spurious]
    words = np.eye(4, dtype=np.float32)[sign]
    return {"words": words, "features": features, "where": where, "true": true}


def planted_loss(params, batch, *, step, key, dropout_key):
    """As in training: the second half of a batch is held out."""
    del step, key, dropout_key
    half = len(batch["words"]) // 2
    own, other = ({n: x[part] for n, x in batch.items()} for part in (np.s_[:half], np.s_[half:]))

    def log_prob(theta, rows):
        return jax.nn.log_softmax(rows["words"] @ theta)

    return learned_reward_loss(
        params["policy"],
        params["reward"],
        log_prob=lambda theta: log_prob(theta, own),
        reward=lambda weights: own["features"] @ weights,
        where=own["where"],
        held_out=lambda theta: losses.mml_loss(log_prob(theta, other), where=other["where"]),
    )


def test_the_reward_learns_to_tell_true_from_spurious_solutions():
    optimizer, mesh = optax.adam(0.05), data_mesh(1)
    start = {"policy": jnp.zeros((4, 4)), "reward": jnp.zeros(2)}
    state = init_state(start, optimizer, seed=0, mesh=mesh)
    step = compile_train_step(make_train_step(planted_loss, optimizer), mesh)
    for seed in range(60):
        state, _ = step(state, place_batch(planted(32, seed), mesh))
    reward = jax.device_get(state.params["reward"])
    assert reward[0] > 1 and abs(reward[1]) < 0.2 * reward[0], reward
    rows = planted(200, seed=999)
    weights = jax.nn.softmax(np.where(rows["where"], rows["features"] @ reward, -np.inf), axis=-1)
    assert np.mean(weights[rows["true"]]) > 0.7  # 0.5 without a learned reward
