"""AdamW as used to fine-tune BERT, learning-rate schedules and parameter averaging."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from hardem_jax.errors import InputError
from hardem_jax.placement import mesh_of, platform_of
from hardem_jax.training.config import OptimizerConfig
from hardem_jax.training.state import leaf_name, named_leaves


def learning_rate_schedule(config: OptimizerConfig, num_steps: int) -> optax.Schedule:
    """Linear warmup from 0, then linear decay to 0 after `num_steps` updates, or a constant rate.

    `num_steps` must be the number of updates that the run will actually make; deriving it from
    epochs of a different shard or batch size would end the decay early or never.

    Example:
        >>> schedule = learning_rate_schedule(OptimizerConfig(1.0, warmup_fraction=0.2), 10)
        >>> [round(float(schedule(n)), 3) for n in (0, 1, 2, 6, 10)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
        >>> schedule = learning_rate_schedule(OptimizerConfig(0.5, schedule="constant"), 10)
        >>> float(schedule(0)), float(schedule(1)), float(schedule(10))
        (0.0, 0.5, 0.5)
    """
    warmup_steps = int(config.warmup_fraction * num_steps)
    if config.schedule == "constant":
        after = optax.constant_schedule(config.learning_rate)
    else:
        after = optax.linear_schedule(config.learning_rate, 0.0, num_steps - warmup_steps)
    if warmup_steps == 0:
        return after
    warmup = optax.linear_schedule(0.0, config.learning_rate, warmup_steps)
    return optax.join_schedules([warmup, after], boundaries=[warmup_steps])


def global_norm(grads: Any) -> jax.Array:
    """The norm of all gradients together, float32 `[]`.

    `optax.tree.norm` adds up one array after the other: a kernel for every bias on a GPU, two for
    every matrix, hundreds in all that each take longer to start than to run. There, rows are added
    up first and then everything at once.
    """
    leaves = jax.tree.leaves(grads)
    mesh = mesh_of(*leaves)
    if (mesh is not None and mesh.shape.get("fsdp", 1) > 1) or platform_of(*leaves) != "gpu":
        return optax.tree.norm(optax.tree.cast(grads, jnp.float32))
    squares = [jnp.square(leaf.astype(jnp.float32)) for leaf in leaves]
    rows = [x.ravel() if x.size < 2**14 else x.sum(axis=-1).ravel() for x in squares]
    # XLA would turn the sum of a concatenation into sums of its parts again.
    return jnp.sqrt(jax.lax.optimization_barrier(jnp.concatenate(rows)).sum())


def clip_by_global_norm(max_norm: float) -> optax.GradientTransformation:
    """Scales all gradients by one factor, so that their joint norm is at most `max_norm`.

    `optax.clip_by_global_norm` divides every gradient by the norm. XLA does not repeat a division
    in both updates of AdamW's moments and keeps the clipped gradients in memory instead: one more
    array per parameter to write and read.

    >>> clip = clip_by_global_norm(1.0)
    >>> clip.update({"a": jnp.array([3.0]), "b": jnp.array([4.0])}, clip.init({}))[0]
    {'a': Array([0.6], dtype=float32), 'b': Array([0.8], dtype=float32)}
    """

    def scale(updates, params):
        del params
        norm = global_norm(updates)
        factor = jnp.where(norm < max_norm, 1.0, max_norm / norm)
        return jax.tree.map(lambda update: update * factor.astype(update.dtype), updates)

    return optax.stateless(scale)


class AdamState(NamedTuple):
    """Updates made, int32 `[]`, and means of the gradients and of their squares, like `params`."""

    count: jax.Array
    mu: Any
    nu: Any


def scale_by_adam(*, b1: float, b2: float, eps: float) -> optax.GradientTransformationExtraArgs:
    """Adam (Kingma and Ba, 2015) whose state is unchanged where `finite`, bool `[]`, is False.

    If the training step chose between old and new moments instead, it would store arrays other than
    those the update is computed from, and XLA would copy both moments of every parameter.
    """

    def init(params):
        mu, nu = optax.tree.zeros_like(params), optax.tree.zeros_like(params)
        return AdamState(jnp.zeros((), jnp.int32), mu, nu)

    def update(updates, state, params=None, *, finite: jax.Array | bool = True, **extra):
        del params, extra

        def moment(decay, order):
            def choose(old, g):
                return jnp.where(finite, decay * old + (1 - decay) * g**order, old)

            return choose

        count = optax.safe_increment(state.count)
        mu = jax.tree.map(moment(b1, 1), state.mu, updates)
        nu = jax.tree.map(moment(b2, 2), state.nu, updates)
        first, second = (1 - jax.lax.pow(jnp.float32(decay), count) for decay in (b1, b2))
        updates = jax.tree.map(lambda m, v: (m / first) / (jnp.sqrt(v / second) + eps), mu, nu)
        return updates, AdamState(jnp.where(finite, count, state.count), mu, nu)

    return optax.GradientTransformationExtraArgs(init, update)


class AverageState(NamedTuple):
    """Updates made, int32 `[]`, and the average, like `params`."""

    count: jax.Array
    average: Any


def average_params(decay: float) -> optax.GradientTransformation:
    r"""Keeps an exponential moving average of the parameters; passes updates through unchanged.

    .. math:: \bar\theta_n = d_n \bar\theta_{n-1} + (1 - d_n) \theta_n, \quad
        d_n = \min(d, (1 + n) / (10 + n))

    after update n = 1, 2, ..., where :math:`\bar\theta_0` are the initial values; the smaller
    :math:`d_n` of the first updates forgets them quickly. It must come last in a chain, where
    the updates are those that will be added to the parameters.
    """

    def init(params):
        # Copies, because the training step donates both and no buffer may be donated twice.
        return AverageState(jnp.zeros((), jnp.int32), jax.tree.map(jnp.copy, params))

    def update(updates, state, params=None):
        assert params is not None  # optax passes them to the last of a chain
        count = state.count + 1
        updates_made = count.astype(jnp.float32)
        rate = 1.0 - jnp.minimum(decay, (1.0 + updates_made) / (10.0 + updates_made))
        # Written as a step towards the new value, so that the average of a constant is exact.
        average = jax.tree.map(
            lambda old, new: old + rate.astype(old.dtype) * (new - old),
            state.average,
            optax.apply_updates(params, updates),
        )
        return updates, AverageState(count, average)

    return optax.GradientTransformation(init, update)


def averaged_params(params: Any, opt_state: optax.OptState) -> Any:
    """The average of the parameters if the optimiser keeps one, else `params`."""

    def is_average(node):
        return isinstance(node, AverageState)

    states = jax.tree.leaves(opt_state, is_leaf=is_average)
    return next((state.average for state in states if is_average(state)), params)


def is_decayed(name: str) -> bool:
    """Whether weight decay applies to the parameter with this dotted name.

    Biases, LayerNorm and word vectors are excluded: pretrained vectors without a gradient must
    not move at all, and those of rare words would shrink between updates. The decision is by
    name, not rank, because a scanned encoder stacks the biases of all layers into one matrix.
    """
    parts = name.lower().split(".")
    while parts[1:] and parts[-1].isdigit():  # a list of parameters, one for each layer
        parts.pop()
    if parts[-1] in ("bias", "scale", "word_vectors"):
        return False
    return not any("norm" in part for part in parts)


def _has_prefix(name: str, prefix: str) -> bool:
    """Compares whole parts: `encoder` is a prefix of `encoder.layers`, not of `encoder2.layers`."""
    return name == prefix or name.startswith(prefix + ".")


def make_optimizer(
    config: OptimizerConfig, params: Any, num_steps: int
) -> optax.GradientTransformation:
    """Builds the optax transformation for a run of `num_steps` updates.

    Args:
        config: see `OptimizerConfig`.
        params: the pytree to train; only its names are used.
        num_steps: total number of updates.

    Raises:
        InputError: if a prefix of `rate_multipliers` matches no parameter.

    Example:
        >>> params = {"kernel": jax.numpy.ones((2, 2)), "bias": jax.numpy.zeros(2)}
        >>> state = make_optimizer(OptimizerConfig(), params, num_steps=100).init(params)
    """
    names = list(named_leaves(params))
    for prefix, _ in config.rate_multipliers:
        if not any(_has_prefix(name, prefix) for name in names):
            raise InputError(
                f"rate_multipliers: expected a prefix of a parameter name, found {prefix!r}"
            )

    def decay_mask(tree):
        return jax.tree_util.tree_map_with_path(lambda path, _: is_decayed(leaf_name(path)), tree)

    def scale_by_name(updates, params):
        del params  # the updates have the same names

        def scale(path, update):
            name = leaf_name(path)
            matches = (x for prefix, x in config.rate_multipliers if _has_prefix(name, prefix))
            return update * next(matches, 1.0)

        return jax.tree_util.tree_map_with_path(scale, updates)

    return optax.chain(
        optax.identity() if config.clip_norm is None else clip_by_global_norm(config.clip_norm),
        scale_by_adam(b1=config.b1, b2=config.b2, eps=config.eps),
        optax.add_decayed_weights(config.weight_decay, mask=decay_mask),
        optax.stateless(scale_by_name) if config.rate_multipliers else optax.identity(),
        optax.scale_by_learning_rate(learning_rate_schedule(config, num_steps)),
        *([] if config.ema_decay is None else [average_params(config.ema_decay)]),
    )
