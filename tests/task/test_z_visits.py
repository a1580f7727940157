"""Diagnostics of z: changes against a replay, ranks against NumPy, and no effect on training."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax import MML
from hardem_jax.spans.config import LatentConfig
from hardem_jax.spans.task import make_span_loss
from hardem_jax.task.base import first_memory, visit_metrics
from hardem_jax.training.run_progress import Mean
from hardem_jax.training.state import recall, remember
from tests.task.toy import NUM_SOLUTIONS, TASKS, make_bert

Z = 5


def visits(groups, seed=0):
    """Log-probabilities, Z and inputs of 12 steps; ``groups``: for each step, the windows read."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, Z + 1, 1 + max(max(group) for group in groups))
    for _ in range(12):
        chosen = [groups[i] for i in rng.choice(len(groups), 3, replace=False)]
        items = np.full((4, max(map(len, groups))), -1, np.int32)  # the last row is padding
        for row, group in enumerate(chosen):
            own = [w for w in group if rng.random() < 0.8] or group[:1]
            items[row, : len(own)] = own
        where = np.arange(Z) < np.where(items >= 0, sizes[items], 0)[..., None]
        yield items, np.log(rng.random((*items.shape, Z)).astype(np.float32)), where


def replay(steps):
    """Total and count of every step, by a dictionary of what was best when a window was read."""
    last = {}
    for items, log_probs, where in steps:
        changed = count = 0
        for own, scores, real in zip(items, log_probs, where, strict=True):
            if not real.any():
                continue
            window, number = np.unravel_index(np.where(real, scores, -np.inf).argmax(), real.shape)
            best = own[window], number
            if real.sum() > 1 and own[window] in last:
                changed += last[own[window]] != best
                count += 1
            last.update({w: best for w in own if w >= 0})
        yield changed, count


ALONE = [[i] for i in range(8)]
GROUPS = [[0, 1, 2], [3, 4], [5], [6, 7, 8], [9, 10, 11]]


@pytest.mark.parametrize("groups", [ALONE, GROUPS])
def test_changes_are_those_of_a_replay(groups):
    @jax.jit
    def visit(memory, items, log_probs, where):
        batch = {"item": items.reshape(-1)}
        found = visit_metrics(
            log_probs.reshape(len(items), -1),
            where.reshape(len(items), -1),
            memory=recall(memory, batch)["memory"],
        )
        return remember(memory, found.pop("memory"), batch, jnp.array(True)), found["z_changed"]

    memory, found = first_memory(20), []
    for step in visits(groups):
        memory, changed = visit(memory, *step)
        found.append((int(changed.total), int(changed.count)))
    assert found == [*replay(visits(groups))]
    totals, counts = np.sum(found, axis=0)
    assert 0 < totals < counts and found[0] == (0, 0)
    assert (np.asarray(memory["best_z"])[12:] == -1).all()  # never read


@pytest.mark.parametrize("windows", [1, 3])
def test_rank_is_the_place_of_the_true_z_in_order(windows):
    rng = np.random.default_rng(1)
    rows, log_probs = 40, np.log(rng.random((40, windows * Z)).astype(np.float32))
    sizes = rng.integers(0, Z + 1, (rows, windows))
    where = (np.arange(Z) < sizes[..., None]).reshape(rows, -1)
    true = rng.integers(-1, Z, (rows, windows)).astype(np.int32)
    ranks = []
    for row in range(rows):
        places = [w * Z + t for w, t in enumerate(true[row]) if 0 <= t < sizes[row, w]]
        order = [z for z in np.argsort(-log_probs[row]) if where[row, z]]
        if places:
            ranks.append(1 + min(order.index(z) for z in places))
    z = jnp.asarray(log_probs), jnp.asarray(where)
    found = visit_metrics(*z, true_solution=jnp.asarray(true.reshape(-1)))["z_true_rank"]
    assert 0 < len(ranks) < rows and set(ranks) > {1, 2}
    assert (int(found.total), int(found.count)) == (sum(ranks), len(ranks))
    none = visit_metrics(*z, true_solution=jnp.full(rows * windows, -1))
    assert none["z_true_rank"] == Mean(0, 0)


def batch_of(task, rows=16):
    return TASKS[task].batch(rows, 24) | {"item": np.arange(rows, dtype=np.int32)[::-1].copy()}


@functools.cache
def start(task):
    bert = make_bert(hidden_dropout=0.0, attention_dropout=0.0)
    return nnx.split(TASKS[task].model(bert), nnx.Param)


def with_true(batch, true):
    return batch | {"true_solution": np.full(len(batch["item"]), true, np.int32)}


LATENT = {
    "window": LatentConfig(),
    "position": LatentConfig(likelihood="position"),
    "question": LatentConfig(scope="question", group_size=3),
}


def loss_of(task, latent=None):
    graphdef, _ = start(task)
    if latent is None:
        return TASKS[task].make_loss(graphdef, MML())
    negatives = 1 if LATENT[latent].scope == "question" else 0
    return make_span_loss(graphdef, MML(), LATENT[latent], negatives=negatives)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "latent"),
    [("spans", "question"), ("spans", "window"), ("spans", "position"), ("equations", None)],
)
def test_no_gradient_depends_on_the_true_z_or_the_memory(task, latent):
    _, params = start(task)
    key = jax.random.key(0)
    keys = {"step": jnp.int32(0), "key": key, "dropout_key": key}
    compute = jax.jit(jax.value_and_grad(loss_of(task, latent), has_aux=True))
    found = {}
    for true, best in ((-1, -1), (0, 0), (NUM_SOLUTIONS - 1, 1)):
        memory = {"best_z": np.full(16, best, np.int32)}
        found[true] = compute(params, with_true(batch_of(task), true) | {"memory": memory}, **keys)
    (_, unknown), expected = found[-1]
    assert unknown["z_true_rank"].count == unknown["z_changed"].count == 0
    for true in (0, NUM_SOLUTIONS - 1):
        (_, metrics), gradient = found[true]
        assert metrics["z_true_rank"].count > 0 and metrics["z_changed"].count > 0
        jax.tree.map(np.testing.assert_array_equal, gradient, expected)
    assert (
        found[0][0][1]["z_true_rank"].total != found[NUM_SOLUTIONS - 1][0][1]["z_true_rank"].total
    )
