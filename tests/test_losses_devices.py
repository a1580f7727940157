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
from hardem_jax.losses import hard_em_loss, mean_over, mml_loss
from tests.loss_cases import evaluate, over_all_losses, random_rows
from tests.marks import slow

DEVICES = 4
ROWS, WIDTH, FEATURES = 12, 5, 3

# Before this function existed, most operations on split axes had no rule under Explicit axes.
needs_explicit_axes = pytest.mark.skipif(
    not hasattr(jax, "set_mesh"), reason="this jax has no complete support of Explicit axes"
)


def mesh_of(axis_type=AxisType.Auto):
    return jax.make_mesh(
        (DEVICES,), ("data",), axis_types=(axis_type,), devices=jax.devices()[:DEVICES]
    )


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


def averaged_over_devices(loss):
    """The step of a data-parallel program: its own rows, the mean over all, averaged gradients."""

    def step(weights, features, where):
        def local_loss(weights):
            return loss(model(weights, features), where=where, reduce_fn=mean_over("data"))

        value, gradient = jax.value_and_grad(local_loss)(weights)
        return value, jax.lax.pmean(gradient, "data")

    return step


@over_all_losses
def test_pmap_with_an_empty_device_is_one_device(loss):
    features, where = unequal_batch()
    expected, expected_gradient = global_loss_and_gradient(loss, features, where)
    step = jax.pmap(
        averaged_over_devices(loss),
        axis_name="data",
        in_axes=(None, 0, 0),
        devices=jax.devices()[:DEVICES],
    )
    parts = [x.reshape(DEVICES, -1, *x.shape[1:]) for x in (features, where)]
    value, gradient = step(WEIGHTS, *parts)
    assert_allclose(value, [expected] * DEVICES, rtol=1e-5)
    assert_allclose(gradient, [expected_gradient] * DEVICES, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("check_vma", [True, False])
@over_all_losses
def test_shard_map_with_an_empty_device_is_one_device(loss, check_vma):
    features, where = unequal_batch()
    expected, expected_gradient = global_loss_and_gradient(loss, features, where)
    step = jax.shard_map(
        averaged_over_devices(loss),
        mesh=mesh_of(),
        in_specs=(P(), P("data"), P("data")),
        out_specs=(P(), P()),
        check_vma=check_vma,
    )
    value, gradient = jax.jit(step)(WEIGHTS, features, where)
    assert_allclose(value, expected, rtol=1e-5)
    assert_allclose(gradient, expected_gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@over_all_losses
def test_a_sum_over_devices_is_the_sum_of_their_rows(loss):
    # What a user writes without `mean_over`: sums of values and of rows, then their quotient.
    features, where = unequal_batch()
    expected, _ = global_loss_and_gradient(loss, features, where)

    def quotient(values, where):
        total = jax.lax.psum(jnp.sum(values, where=where), "data")
        return total / jax.lax.psum(jnp.sum(where), "data")

    def local(features, where):
        return loss(model(WEIGHTS, features), where=where, reduce_fn=quotient)

    step = jax.shard_map(local, mesh=mesh_of(), in_specs=(P("data"), P("data")), out_specs=P())
    assert_allclose(jax.jit(step)(features, where), expected, rtol=1e-5)


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
@pytest.mark.parametrize("spec", [P("data"), P(None, "data"), P()], ids=str)
def test_padded_rows_on_an_explicit_mesh_are_those_on_one_device(loss, spec):
    log_probs, where = random_rows(21, (ROWS, 8))
    where[3:6] = False
    one = evaluate(loss, log_probs, where=where)
    mesh = mesh_of(AxisType.Explicit)
    with jax.set_mesh(mesh):
        placed = [jax.device_put(x, NamedSharding(mesh, spec)) for x in (log_probs, where)]
        many = evaluate(loss, placed[0], where=placed[1])
    assert_allclose(many.rows, one.rows, rtol=1e-6, atol=1e-6)
    assert_allclose(many.mean, one.mean, rtol=1e-6)
    assert_allclose(many.gradient, one.gradient, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
@needs_explicit_axes
@over_all_losses
def test_ragged_rows_on_an_explicit_mesh_are_those_on_one_device(loss):
    log_probs, where = random_rows(22, (ROWS, 4))
    ids = np.random.default_rng(22).integers(0, ROWS, log_probs.size).astype(np.int32)
    arrays = log_probs.ravel(), where.ravel(), ids
    one = evaluate(loss, arrays[0], where=arrays[1], segment_ids=arrays[2], num_segments=ROWS)
    mesh = mesh_of(AxisType.Explicit)
    with jax.set_mesh(mesh):
        placed = [jax.device_put(x, NamedSharding(mesh, P("data"))) for x in arrays]
        many = evaluate(loss, placed[0], where=placed[1], segment_ids=placed[2], num_segments=ROWS)
    assert_allclose(many.rows, one.rows, rtol=1e-6, atol=1e-6)
    assert_allclose(many.mean, one.mean, rtol=1e-6)
    assert_allclose(many.gradient, one.gradient, rtol=1e-6, atol=1e-7)


@needs_explicit_axes
def test_weights_of_ragged_rows_may_be_sharded_on_an_explicit_mesh():
    log_probs, _ = random_rows(23, (ROWS, 4))
    ids = np.repeat(np.arange(ROWS, dtype=np.int32), 4)
    weights = np.random.default_rng(23).normal(size=log_probs.size)

    @jax.jit
    def value(log_probs, weights, ids):
        return mml_loss(log_probs, log_weights=weights, segment_ids=ids, num_segments=ROWS)

    expected = value(log_probs.ravel(), weights, ids)
    mesh = mesh_of(AxisType.Explicit)
    sharded = NamedSharding(mesh, P("data"))
    with jax.set_mesh(mesh):
        placed = [jax.device_put(x, sharded) for x in (log_probs.ravel(), weights, ids)]
        assert_allclose(value(*placed), expected, rtol=1e-6)


KEY = jax.random.key(4)


#: What is not a loss of one array: name -> function of log-probs, ids and mask.
OTHERS = {
    "distinct": lambda x, ids, where, **rows: sampled.distinct(ids, where=where, **rows),
    "distinct, no mask": lambda x, ids, where, **rows: sampled.distinct(ids, **rows),
    "kept": lambda x, ids, where, **rows: loss_variants.kept(x, threshold=0.5, where=where, **rows),
    "top-k": lambda x, ids, where, **rows: posteriors.TopK(2)(x, where=where, **rows),
    "sampled": lambda x, ids, where, **rows: posteriors.Sampled().at(0, KEY)(
        x, where=where, **rows
    ),
    "weights": lambda x, ids, where, **rows: objectives.weights(
        objectives.MML(), x, log_weights=0.3 * x, where=where, **rows
    ),
}
PADDED_ONLY = {
    "reinforce": lambda x, ids, where: sampled.reinforce_loss(x, 0.3 * x, where=where),
    "jensen": lambda x, ids, where: sampled.jensen_loss(x, 0.3 * x, where=where),
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
    mesh = mesh_of(AxisType.Explicit)
    with jax.set_mesh(mesh):
        placed = [jax.device_put(x, NamedSharding(mesh, spec)) for x in arrays]
        many = (jax.jit(call) if jit else call)(*placed)
    assert_allclose(many, one, rtol=1e-6)


@pytest.mark.slow
@needs_explicit_axes
@pytest.mark.parametrize("name", OTHERS)
def test_what_takes_ragged_rows_is_on_an_explicit_mesh_what_it_is_on_one_device(name):
    log_probs, where = random_rows(25, (ROWS, 4))
    rng = np.random.default_rng(25)
    ids = rng.integers(0, 3, log_probs.size)
    arrays = log_probs.ravel(), ids, where.ravel(), rng.integers(0, ROWS, ids.size)

    def call(log_probs, ids, where, rows):
        ragged = {"segment_ids": rows, "num_segments": ROWS}
        return OTHERS[name](log_probs, ids, where, **ragged)

    one = call(*map(jnp.asarray, arrays))
    mesh = mesh_of(AxisType.Explicit)
    with jax.set_mesh(mesh):
        placed = [jax.device_put(x, NamedSharding(mesh, P("data"))) for x in arrays]
        many = jax.jit(call)(*placed)
    assert_allclose(many, one, rtol=1e-6)


def test_an_nnx_model_under_jit_with_a_sharded_batch_is_the_one_on_one_device():
    nnx = pytest.importorskip("flax.nnx")
    features, where = unequal_batch()
    scorer = nnx.Linear(FEATURES, 1, rngs=nnx.Rngs(0))

    @nnx.jit
    def value_and_gradient(scorer, features, where):
        def loss(scorer):
            return hard_em_loss(jax.nn.log_sigmoid(scorer(features))[..., 0], where=where)

        return nnx.value_and_grad(loss)(scorer)

    expected, expected_gradient = value_and_gradient(scorer, features, where)
    sharding = NamedSharding(mesh_of(), P("data"))
    placed = [jax.device_put(x, sharding) for x in (features, where)]
    value, gradient = value_and_gradient(scorer, *placed)
    assert_allclose(value, expected, rtol=1e-5)
    pairs = zip(jax.tree.leaves(gradient), jax.tree.leaves(expected_gradient), strict=True)
    for ours, theirs in pairs:
        assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def sampled_solutions(scores, key, samples, num_rows):
    """Ragged samples from each row's own softmax, those that execute to a wrong answer masked."""
    drawn = jax.random.categorical(key, scores, axis=-1, shape=(samples, num_rows)).T.ravel()
    rows = jnp.repeat(jnp.arange(num_rows), samples)
    log_probs = jax.nn.log_softmax(scores)[rows, drawn]
    return log_probs, drawn % 3 == 0, rows


@pytest.mark.slow
@over_all_losses
def test_sampled_ragged_solutions_in_shard_map_are_those_of_one_device(loss):
    scores = jnp.asarray(np.random.default_rng(23).normal(size=(8, 9)), jnp.float32)
    keys = jax.random.split(jax.random.key(2), DEVICES)
    samples, local = 4, 8 // DEVICES

    def per_device(scores, keys):
        def value(scores):
            log_probs, right, rows = sampled_solutions(scores, keys[0], samples, local)
            ragged = {"segment_ids": rows, "num_segments": local}
            return loss(log_probs, where=right, **ragged, reduce_fn=mean_over("data"))

        return jax.value_and_grad(value)(scores)

    value, gradient = jax.jit(
        jax.shard_map(
            per_device,
            mesh=mesh_of(),
            in_specs=(P("data"), P("data")),
            out_specs=(P(), P("data")),
        )
    )(scores, keys)

    def on_one_device(scores):
        parts = [
            sampled_solutions(scores[i * local : (i + 1) * local], keys[i], samples, local)
            for i in range(DEVICES)
        ]
        rows = [ids + i * local for i, (_, _, ids) in enumerate(parts)]
        log_probs, right = (jnp.concatenate(x) for x in list(zip(*parts, strict=True))[:2])
        ids = jnp.concatenate(rows)
        return loss(log_probs, where=right, segment_ids=ids, num_segments=8)

    expected, expected_gradient = jax.jit(jax.value_and_grad(on_one_device))(scores)
    assert expected > 0
    assert_allclose(value, expected, rtol=1e-5)
    assert_allclose(gradient, expected_gradient, rtol=1e-4, atol=1e-6)


def _mesh_of(count):
    return jax.make_mesh((count,), ("data",), axis_types=(AxisType.Auto,))


def test_the_share_kept_is_that_of_all_devices():
    count = jax.device_count()
    log_probs = jnp.log(jnp.full((2 * count, 2), 0.2).at[0, 0].set(0.75))
    objective = objectives.ThresholdedHardEM()

    def share(log_probs):
        step = {"step": 1, "key": jax.random.key(0)}
        return objective(log_probs, **step, reduce_fn=mean_over("data"))[1]["kept"]

    spread = jax.shard_map(share, mesh=_mesh_of(count), in_specs=P("data"), out_specs=P())
    whole = objective(log_probs, step=1, key=jax.random.key(0))[1]["kept"]
    assert_allclose(spread(log_probs), whole)
    assert_allclose(whole, 1 / (2 * count))
