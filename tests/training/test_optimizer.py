"""AdamW against the formula; which parameters decay; the schedule's end points."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from hardem_jax.errors import InputError
from hardem_jax.training.mesh import data_mesh
from hardem_jax.training.optimizer import (
    OptimizerConfig,
    average_params,
    averaged_params,
    global_norm,
    is_decayed,
    learning_rate_schedule,
    make_optimizer,
    scale_by_adam,
)
from hardem_jax.training.state import init_state, named_leaves
from hardem_jax.training.step import make_train_step

NAMES = {
    # name: decayed
    "words.word_vectors": False,
    # Neither part of a normalisation gives away what it is by the other's name.
    "blocks.0.scale": False,
    "blocks.0.norm.weight": False,
    # A list of parameters, as those of LSTMs.
    "question.bias.0": False,
    "question.recurrent.0": True,
    "0": True,
}


def test_norms_of_halves_are_computed_in_float32():
    halves = {"w": jnp.full(4, 300.0, jnp.float16), "b": jnp.full(9, 10.0, jnp.bfloat16)}
    found = global_norm(halves)
    assert found.dtype == jnp.float32 and float(found) == pytest.approx(np.sqrt(4 * 300**2 + 900))


@pytest.mark.parametrize(("name", "decayed"), NAMES.items())
def test_decay_is_decided_by_name(name, decayed):
    assert is_decayed(name) is decayed


@pytest.mark.parametrize("scan_layers", [False, True])
def test_decay_set_of_a_whole_bert(scan_layers):
    bert = pytest.importorskip("hardem_jax.encoders.bert", reason="the encoder is not there")
    config = bert.BertConfig(11, 8, 2, 2, 16)
    model = nnx.eval_shape(lambda: bert.Bert(config, rngs=nnx.Rngs(0), scan_layers=scan_layers))
    names = list(named_leaves(nnx.state(model, nnx.Param)))
    decayed = {name for name in names if is_decayed(name)}
    # The rule from the other side: what multiplies vectors is a kernel or an embedding table.
    assert decayed == {n for n in names if re.search(r"kernel$|^embeddings\.[a-z_]+$", n)}
    layers = 1 if scan_layers else 2
    # 3 tables; per layer 4 projections of attention and 2 of the feed-forward block.
    assert len(decayed) == 3 + 6 * layers
    # 1 norm of the embeddings; per layer 2 norms and 6 biases; a norm has a scale and a bias.
    assert len(names) - len(decayed) == 2 + (2 * 2 + 6) * layers


def as_state(tree):
    """The same parameters inside an `nnx.State`, as `nnx.split` gives them."""

    class Holder(nnx.Module):
        def __init__(self):
            for name, value in tree.items():
                setattr(self, name, nnx.Param(value))

    return nnx.split(Holder(), nnx.Param)[1]


@pytest.mark.parametrize("container", [dict, as_state])
def test_one_update_is_adamw_by_the_formula(container):
    lr, wd, eps = 0.1, 0.5, 1e-6
    config = OptimizerConfig(
        lr, warmup_fraction=0.0, weight_decay=wd, clip_norm=None, b1=0.9, b2=0.99, eps=eps
    )
    # Stacked biases of a scanned encoder: rank 2, and still not decayed.
    params = {"kernel": jnp.array([[1.0, 3.0]]), "bias": jnp.array([[3.0], [4.0]])}
    params |= {"scale": jnp.array([1.0, 2.0]), "norm_weight": jnp.array([1.0, 2.0])}
    grads = {"kernel": jnp.array([[0.5, 0.25]]), "bias": jnp.array([[2.0], [-1.0]])}
    grads |= {"scale": jnp.array([0.5, -0.5]), "norm_weight": jnp.array([0.5, -0.5])}
    optimizer = make_optimizer(config, container(params), num_steps=10)
    state = optimizer.init(container(params))
    updates, state = optimizer.update(container(grads), state, container(params))
    updates = named_leaves(updates)
    # First step: the bias-corrected moments are g and g^2.
    assert updates.keys() == params.keys()
    for name, decay in (("kernel", wd), ("bias", 0.0), ("scale", 0.0), ("norm_weight", 0.0)):
        g, p = grads[name], params[name]
        expected = -lr * (g / (jnp.sqrt(g**2) + eps) + decay * p)
        np.testing.assert_allclose(updates[name], expected, rtol=1e-5)


def test_adam_is_that_of_optax():
    params = {"a": jnp.ones((3, 2)), "b": jnp.ones(4)}
    options = {"b1": 0.8, "b2": 0.95, "eps": 1e-3}
    ours, theirs = scale_by_adam(**options), optax.scale_by_adam(**options)
    states = ours.init(params), theirs.init(params)
    for step in range(4):
        keys = jax.random.split(jax.random.key(step))
        grads = {n: jax.random.normal(k, params[n].shape) for n, k in zip("ab", keys, strict=True)}
        found, one = ours.update(grads, states[0])
        expected, other = theirs.update(grads, states[1])
        states = one, other
        for name in params:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)
            np.testing.assert_allclose(one.mu[name], other.mu[name], rtol=1e-6)
            np.testing.assert_allclose(one.nu[name], other.nu[name], rtol=1e-6)
        assert one.count == other.count == step + 1


def test_gradients_are_clipped_as_optax_clips_them():
    """AdamW hides a constant factor, so the norms differ between steps: two above 3, two below."""
    config = OptimizerConfig(0.1, warmup_fraction=0.0, weight_decay=0.0, clip_norm=3.0)
    params = {"a": jnp.zeros((3, 2)), "b": jnp.zeros(4)}
    schedule = learning_rate_schedule(config, 10)
    plain = optax.adam(schedule, b1=config.b1, b2=config.b2, eps=config.eps)
    ours = make_optimizer(config, params, num_steps=10)
    theirs = optax.chain(optax.clip_by_global_norm(3.0), plain)
    states = ours.init(params), theirs.init(params)
    for size in (0.1, 20.0, 0.5, 4.0):
        grads = jax.tree.map(lambda x, size=size: x + size, params)
        found, one = ours.update(grads, states[0], params)
        expected, other = theirs.update(grads, states[1], params)
        states = one, other
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5), found, expected)


def test_adam_keeps_its_state_where_a_step_is_not_finite():
    adam = scale_by_adam(b1=0.9, b2=0.99, eps=1e-8)
    _, before = adam.update({"a": jnp.ones(2)}, adam.init({"a": jnp.zeros(2)}))
    bad = {"a": jnp.array([jnp.nan, 1.0])}
    _, after = jax.jit(adam.update)(bad, before, finite=jnp.array(False))
    jax.tree.map(np.testing.assert_array_equal, after, before)


def test_a_step_stores_gradients_once_and_copies_no_moments():
    """Room for one gradient of each parameter beside the state, which is updated in place."""
    params = {name: jnp.ones((64, 64)) for name in "abcd"}
    size = sum(leaf.nbytes for leaf in params.values())

    def loss(params, batch, **_):
        x = batch["x"]
        return jnp.sum(functools.reduce(lambda h, w: jnp.tanh(h @ w), params.values(), x)), {}

    def program(optimizer):
        state = init_state(params, optimizer, seed=0, mesh=data_mesh(1))
        step = jax.jit(make_train_step(loss, optimizer), donate_argnums=0)
        return step.lower(state, {"x": jnp.ones((2, 64))}).compile()

    ours = program(make_optimizer(OptimizerConfig(), params, num_steps=10))
    theirs = program(optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3)))
    copies = [len(re.findall(r"= f32\[64,64\]\S* copy\(", x.as_text())) for x in (ours, theirs)]
    assert copies[0] == 0 and copies[1] >= 2 * len(params)
    assert ours.memory_analysis().temp_size_in_bytes < 1.2 * size
    assert theirs.memory_analysis().temp_size_in_bytes > 1.8 * size


@pytest.mark.parametrize("num_steps", [1, 7, 10, 1000])
@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5])
def test_schedule_is_piecewise_linear_over_the_real_steps(num_steps, fraction):
    schedule = learning_rate_schedule(OptimizerConfig(2.0, warmup_fraction=fraction), num_steps)
    steps = np.arange(num_steps + 1)
    warmup = int(fraction * num_steps)
    rising, falling = steps / max(warmup, 1), (num_steps - steps) / (num_steps - warmup)
    expected = 2.0 * np.where(steps < warmup, rising, falling)
    np.testing.assert_allclose([schedule(s) for s in steps], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9999])
@pytest.mark.parametrize("container", [dict, as_state])
def test_the_average_is_the_formula(container, decay):
    config = OptimizerConfig(0.1, warmup_fraction=0.0, ema_decay=decay)
    params = container({"kernel": jnp.array([[1.0, 3.0]]), "bias": jnp.array([2.0])})
    optimizer = make_optimizer(config, params, num_steps=10)
    plain = make_optimizer(OptimizerConfig(0.1, warmup_fraction=0.0), params, num_steps=10)
    state, plain_state = optimizer.init(params), plain.init(params)
    expected = named_leaves(params)
    for n in range(1, 6):
        grads = jax.tree.map(lambda x: 1.0 - x, params)
        updates, state = optimizer.update(grads, state, params)
        others, plain_state = plain.update(grads, plain_state, params)
        jax.tree.map(np.testing.assert_array_equal, updates, others)
        params = optax.apply_updates(params, updates)
        d = min(decay, (1 + n) / (10 + n))
        expected = {k: d * expected[k] + (1 - d) * p for k, p in named_leaves(params).items()}
    average = averaged_params(params, state)
    assert jax.tree.structure(average) == jax.tree.structure(params)
    for name, value in named_leaves(average).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-6)
    assert averaged_params(params, plain_state) is params


def test_what_does_not_move_is_its_own_average():
    params = {"w": jnp.asarray(np.random.default_rng(0).normal(size=100), jnp.float32)}
    transform = average_params(0.9999)
    state = transform.init(params)
    for _ in range(20):
        _, state = transform.update(jax.tree.map(jnp.zeros_like, params), state, params)
    np.testing.assert_array_equal(state.average["w"], params["w"])


def test_rate_multipliers_scale_the_whole_update():
    params = {"encoder": {"kernel": jnp.ones(2)}, "encoder2": {"kernel": jnp.ones(2)}}
    grads = jax.tree.map(jnp.ones_like, params)

    def update(multipliers):
        config = OptimizerConfig(0.1, warmup_fraction=0.0, rate_multipliers=multipliers)
        optimizer = make_optimizer(config, params, num_steps=10)
        return optimizer.update(grads, optimizer.init(params), params)[0]

    plain, scaled, frozen = update(()), update((("encoder", 0.25),)), update((("encoder", 0.0),))
    expected = 0.25 * plain["encoder"]["kernel"]
    np.testing.assert_allclose(scaled["encoder"]["kernel"], expected, rtol=1e-6)
    np.testing.assert_array_equal(scaled["encoder2"]["kernel"], plain["encoder2"]["kernel"])
    np.testing.assert_array_equal(frozen["encoder"]["kernel"], 0.0)


def test_a_prefix_that_matches_nothing_is_an_error():
    config = OptimizerConfig(rate_multipliers=(("hed", 2.0),))
    with pytest.raises(InputError, match="'hed'"):
        make_optimizer(config, {"head": {"bias": jnp.zeros(1)}}, num_steps=10)
