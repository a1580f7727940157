"""Programs as users write them, on four devices: each is the program on one device.

The devices hold unequal numbers of rows with a solution, one holds none.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from numpy.testing import assert_allclose, assert_array_equal

from hardem_jax import loss_variants, objectives, posteriors, sampled
from hardem_jax.losses import hard_em_loss, mean_over
from tests.loss_cases import evaluate, over_all_losses, random_rows
from tests.marks import slow

DEVICES, ON_DATA = 4, P("data")
ROWS, WIDTH, FEATURES = 12, 5, 3

# Before this function existed, most operations on split axes had no rule under Explicit axes.
needs_explicit_axes = pytest.mark.skipif(
    not hasattr(jax, "set_mesh"), reason="this jax has no complete support of Explicit axes"
)


def mesh_of(axis_type=AxisType.Auto):
    devices = jax.devices()[:DEVICES]
    return jax.make_mesh((DEVICES,), ("data",), axis_types=(axis_type,), devices=devices)


def on_explicit_mesh(call, arrays, spec=ON_DATA):
    mesh = mesh_of(AxisType.Explicit)
    with jax.set_mesh(mesh):
        return call(*(jax.device_put(x, NamedSharding(mesh, spec)) for x in arrays))


def unequal_batch(seed=20):
    """Features ``[B, Z, D]`` of solutions and a mask: rows 0-2 lie on the first device."""
    rng = np.random.default_rng(seed)
    where = rng.random((ROWS, WIDTH)) < 0.6
    where[:, 0] = True
    where[3:6] = False  # the second device has no row with a solution
    where[[7, 8, 10]] = False
    return rng.normal(size=(ROWS, WIDTH, FEATURES)).astype(np.float32), where


WEIGHTS = np.array([0.3, -1.2, 0.7], np.float32)


def model(weights, features):
    """``[..., Z, D]`` -> ``[..., Z]``, a log-probability for each solution."""
    return jax.nn.log_sigmoid(features @ weights)


def global_loss_and_gradient(loss, features, where):
    return jax.jit(jax.value_and_grad(lambda w: loss(model(w, features), where=where)))(WEIGHTS)


def averaged_over_devices(loss, *, ragged=False):
    """The step of a data-parallel program: its own rows, the mean over all, averaged gradients."""

    def step(weights, features, where):
        def local_loss(weights):
            log_probs, rows = model(weights, features), {"where": where}
            if ragged:
                ids = jnp.repeat(jnp.arange(len(where)), WIDTH)
                rows = {"where": where.ravel(), "segment_ids": ids, "num_segments": len(where)}
                log_probs = log_probs.ravel()
            return loss(log_probs, **rows, reduce_fn=mean_over("data"))

        value, gradient = jax.value_and_grad(local_loss)(weights)
        return value, jax.lax.pmean(gradient, "data")

    return step


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("ragged", [False, *slow(True)])
@over_all_losses
def test_shard_map_with_an_empty_device_is_one_device(loss, ragged, check_vma):
    features, where = unequal_batch()
    expected, expected_gradient = global_loss_and_gradient(loss, features, where)
    step = jax.shard_map(
        averaged_over_devices(loss, ragged=ragged),
        mesh=mesh_of(),
        in_specs=(P(), P("data"), P("data")),
        out_specs=(P(), P()),
        check_vma=check_vma,
    )
    value, gradient = jax.jit(step)(WEIGHTS, features, where)
    assert_allclose(value, expected, rtol=1e-5)
    assert_allclose(gradient, expected_gradient, rtol=1e-4, atol=1e-6)


def test_the_mean_over_devices_without_any_solution_is_zero_with_zero_gradient():
    features, where = unequal_batch()
    step = jax.vmap(averaged_over_devices(hard_em_loss), in_axes=(None, 0, 0), axis_name="data")
    parts = [x.reshape(DEVICES, -1, *x.shape[1:]) for x in (features, np.zeros_like(where))]
    value, gradient = jax.jit(step)(WEIGHTS, *parts)
    assert_array_equal(value, np.zeros(DEVICES))
    assert_array_equal(gradient, np.zeros((DEVICES, FEATURES)))


@pytest.mark.slow
@needs_explicit_axes
@over_all_losses
@pytest.mark.parametrize("layout", [P("data"), P(None, "data"), P(), "ragged"], ids=str)
def test_rows_on_an_explicit_mesh_are_those_on_one_device(loss, layout):
    log_probs, where = random_rows(21, (ROWS, 8))
    where[3:6] = False
    arrays, spec = [log_probs, where], layout
    if layout == "ragged":
        ids = np.random.default_rng(22).integers(0, ROWS, log_probs.size).astype(np.int32)
        arrays, spec = [log_probs.ravel(), where.ravel(), ids], P("data")

    def evaluated(log_probs, where, *ids):
        rows = {"segment_ids": ids[0], "num_segments": ROWS} if ids else {}
        return evaluate(loss, log_probs, where=where, **rows)

    one, many = evaluated(*arrays), on_explicit_mesh(evaluated, arrays, spec)
    assert_allclose(many.rows, one.rows, rtol=1e-6, atol=1e-6)
    assert_allclose(many.mean, one.mean, rtol=1e-6)
    assert_allclose(many.gradient, one.gradient, rtol=1e-6, atol=1e-7)


KEY = jax.random.key(4)
#: What is not a loss of one array: name -> function of log-probs, ids and mask.
OTHERS = {
    "distinct": lambda x, ids, where, **rows: sampled.distinct(ids, where=where, **rows),
    "distinct, no mask": lambda x, ids, where, **rows: sampled.distinct(ids, **rows),
    "distinct, host ids": lambda x, ids, where, **rows: sampled.distinct(
        np.arange(where.size).reshape(where.shape) // 2, where=where, **rows
    ),
    "kept": lambda x, ids, where, **rows: loss_variants.kept(x, threshold=0.5, where=where, **rows),
    "top-k": lambda x, ids, where, **rows: posteriors.TopK(2)(x, where=where, **rows),
    "drawn": lambda x, ids, where, **rows: posteriors.Sampled().at(0, KEY)(x, where=where, **rows),
    "weights": lambda x, ids, where, **rows: objectives.weights(
        objectives.MML(), x, log_weights=0.3 * x, where=where, **rows
    ),
}
PADDED_ONLY = {
    "reinforce": lambda x, ids, where: sampled.reinforce_loss(x, 0.3 * x, where=where),
    "trice": lambda x, ids, where: sampled.trice_loss(
        x, ids > 1, memory_log_probs=x.max(-1), has_memory=x.max(-1) < -0.1, where=where
    ),
}


@needs_explicit_axes
@pytest.mark.parametrize("jit", [True, False])
@pytest.mark.parametrize("spec", [P("data"), *slow(P(None, "data"))], ids=str)
@pytest.mark.parametrize("name", [*OTHERS, *PADDED_ONLY])
def test_what_takes_rows_is_on_an_explicit_mesh_what_it_is_on_one_device(name, spec, jit):
    call = (OTHERS | PADDED_ONLY)[name]
    log_probs, where = random_rows(24, (ROWS, 8))
    where[3:6] = False
    arrays = log_probs, np.random.default_rng(24).integers(0, 3, where.shape), where
    one = call(*map(jnp.asarray, arrays))
    assert_allclose(on_explicit_mesh(jax.jit(call) if jit else call, arrays, spec), one, rtol=1e-6)
