"""A batch in parts costs what the whole batch does, under every objective that allows it."""

from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.objectives import EM, MML, AnyObjective, HardEM
from hardem_jax.posteriors import Sampled, Tempered, TopK
from hardem_jax.tables.search import reported
from hardem_jax.task.base import make_loss
from hardem_jax.training.step import ITEMS, accumulated_value_and_grad

ROWS, SPACE, SOLUTIONS = 8, 6, 4
# Rows without a solution; of four parts, one has none at all.
WHERE = np.arange(SOLUTIONS) < np.array([4, 2, 0, 1, 0, 0, 3, 4])[:, None]
OBJECTIVES = [
    *(kind() for kind in get_args(AnyObjective) if not hasattr(kind, "whole_batch")),
    *(EM(posterior) for posterior in (Tempered(2.0), TopK(2))),
    HardEM(tau=10),
]


class Scores:
    """A distribution over the rows' own solutions."""

    def __init__(self, log_probs):
        self.log_probs = log_probs

    def log_prob(self, solutions):
        return jnp.take_along_axis(self.log_probs, solutions, axis=-1)


class Model(nnx.Module):
    def __init__(self, logits):
        self.logits = nnx.Param(logits)

    def __call__(self, batch, *, rngs):
        del rngs
        return Scores(jax.nn.log_softmax(self.logits[...][batch["row"]]))


def loss_and_gradient(objective, parts, *, where=WHERE, logits=None):
    rng = np.random.default_rng(0)
    rows = len(where)
    if logits is None:
        logits = rng.normal(size=(rows, SPACE)).astype(np.float32)
    graphdef, params = nnx.split(Model(jnp.asarray(logits)), nnx.Param)
    batch = {
        "row": np.arange(rows, dtype=np.int32),
        "solutions": np.broadcast_to(np.arange(where.shape[1]), where.shape),
        "solutions_where": where,
    }
    if parts > 1:
        batch = {name: x.reshape(parts, -1, *x.shape[1:]) for name, x in batch.items()}
    loss_fn = make_loss(graphdef, objective)
    of_batch = jax.value_and_grad(loss_fn, has_aux=True)
    compute = of_batch if parts == 1 else accumulated_value_and_grad(loss_fn, parts)
    keys = jax.random.split(jax.random.key(3))
    (loss, metrics), gradient = compute(
        params,
        jax.tree.map(jnp.asarray, batch),
        step=jnp.int32(4),
        key=keys[0],
        dropout_key=keys[1],
    )
    return float(loss), metrics, np.asarray(jax.tree.leaves(gradient)[0])


@pytest.mark.parametrize("parts", [2, 4, 8])
@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_loss_and_gradient_are_those_of_the_whole_batch(objective, parts):
    loss, metrics, gradient = loss_and_gradient(objective, 1)
    in_parts = loss_and_gradient(objective, parts)
    assert in_parts[0] == pytest.approx(loss, rel=1e-5)
    np.testing.assert_allclose(in_parts[2], gradient, rtol=1e-4, atol=1e-7)
    assert np.abs(gradient).max() > 0.01
    assert in_parts[1].keys() == metrics.keys()
    for name, value in metrics.items():
        assert float(in_parts[1][name]) == pytest.approx(float(value), rel=1e-5), name
    assert metrics[ITEMS] == 5


def test_a_batch_without_a_solution_costs_nothing():
    loss, metrics, gradient = loss_and_gradient(MML(), 4, where=np.zeros_like(WHERE))
    assert loss == 0 and metrics[ITEMS] == 0 and not gradient.any()


def test_a_search_that_finds_nothing_has_no_items():
    assert reported({"averaged": (jnp.zeros((), jnp.int32), jnp.int32(2))}, {}, {})[ITEMS] == 0


@pytest.mark.parametrize("parts", [1, 16])
def test_rows_of_different_parts_draw_on_their_own(parts):
    """Sixteen alike rows with two equally likely solutions."""
    logits, where = np.zeros((16, 2), np.float32), np.ones((16, 2), bool)
    *_, gradient = loss_and_gradient(EM(Sampled()), parts, where=where, logits=logits)
    assert 0 < (gradient[:, 0] < 0).sum() < 16
    assert np.abs(gradient) == pytest.approx(1 / 32)


def test_parts_share_the_draw_of_annealing():
    """Or a batch would be hard in one part and not in another."""
    drawn = [loss_and_gradient(HardEM(tau=8), parts)[1]["hard"] for parts in (1, 2, 4, 8)]
    assert len(set(map(float, drawn))) == 1 and float(drawn[0]) in (0.0, 1.0)
