"""AdamW as used to fine-tune BERT, over the run's real number of steps."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import optax

from hardem_jax.errors import InputError
from hardem_jax.training.names import leaf_name, named_leaves


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with linear warmup, linear decay and global-norm clipping (Devlin et al., 2019, A.3).

    Example:
        >>> OptimizerConfig(learning_rate=3e-5).weight_decay
        0.01
        >>> OptimizerConfig(warmup_fraction=2.0)
        Traceback (most recent call last):
        ...
        hardem_jax.errors.InputError: warmup_fraction: expected 0 <= value < 1, got 2.0
    """

    learning_rate: float = 5e-5
    """Peak learning rate, reached at the end of the warmup."""
    warmup_fraction: float = 0.1
    """Share of the run's steps over which the rate rises linearly from 0."""
    weight_decay: float = 0.01
    """Decoupled decay, times the learning rate; not applied to biases and LayerNorm."""
    clip_norm: float | None = 1.0
    """Largest Euclidean norm of the whole gradient, all tensors together; None: no clipping."""
    b1: float = 0.9
    """Decay rate of the first moment."""
    b2: float = 0.999
    """Decay rate of the second moment."""
    eps: float = 1e-6
    """Added to the root of the second moment."""
    rate_multipliers: tuple[tuple[str, float], ...] = ()
    """(name prefix, factor) pairs, e.g. `(("encoder", 0.1),)`: factor on the update of every
    parameter whose dotted name starts with the prefix; 0 freezes it; the first match counts."""

    def __post_init__(self) -> None:
        positive_norm = self.clip_norm is None or self.clip_norm > 0
        checks = (
            ("learning_rate", self.learning_rate > 0, "a value > 0"),
            ("warmup_fraction", 0 <= self.warmup_fraction < 1, "0 <= value < 1"),
            ("weight_decay", self.weight_decay >= 0, "a value >= 0"),
            ("clip_norm", positive_norm, "a value > 0, or None for no clipping"),
            ("b1", 0 <= self.b1 < 1, "0 <= value < 1"),
            ("b2", 0 <= self.b2 < 1, "0 <= value < 1"),
            ("eps", self.eps > 0, "a value > 0"),
            ("rate_multipliers", all(f >= 0 for _, f in self.rate_multipliers), "factors >= 0"),
        )
        for name, valid, expected in checks:
            if not valid:
                raise InputError(f"{name}: expected {expected}, got {getattr(self, name)}")


def learning_rate_schedule(config: OptimizerConfig, num_steps: int) -> optax.Schedule:
    """Linear warmup from 0, then linear decay that reaches 0 after `num_steps` updates.

    The horizon is the number of updates the run will really make; deriving it
    from epochs of a different shard or batch size would end the decay early or never.

    Raises:
        InputError: if `num_steps` < 1.

    Example:
        >>> schedule = learning_rate_schedule(OptimizerConfig(1.0, warmup_fraction=0.2), 10)
        >>> [round(float(schedule(n)), 3) for n in (0, 1, 2, 6, 10)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if num_steps < 1:
        raise InputError(f"num_steps: expected at least 1, got {num_steps}")
    warmup_steps = int(config.warmup_fraction * num_steps)
    decay = optax.linear_schedule(config.learning_rate, 0.0, num_steps - warmup_steps)
    if warmup_steps == 0:
        return decay
    warmup = optax.linear_schedule(0.0, config.learning_rate, warmup_steps)
    return optax.join_schedules([warmup, decay], boundaries=[warmup_steps])


def is_decayed(name: str) -> bool:
    """Whether weight decay applies to the parameter of this dotted name.

    Not to biases and not to LayerNorm. The name decides and not the rank: in a
    scanned encoder the biases of all layers are stacked into one matrix.

    Example:
        >>> is_decayed("encoder.layers.0.attention.query.kernel")
        True
        >>> is_decayed("encoder.layers.0.attention.query.bias")
        False
        >>> is_decayed("embeddings.layer_norm.scale")
        False
    """
    parts = name.lower().split(".")
    return parts[-1] not in ("bias", "scale") and not any("norm" in part for part in parts)


def _has_prefix(name: str, prefix: str) -> bool:
    """Whole parts only: `encoder` is a prefix of `encoder.layers`, not of `encoder2.layers`."""
    return name == prefix or name.startswith(prefix + ".")


def _rate_multiplier(name: str, multipliers: tuple[tuple[str, float], ...]) -> float:
    return next((factor for prefix, factor in multipliers if _has_prefix(name, prefix)), 1.0)


def make_optimizer(
    config: OptimizerConfig, params: Any, num_steps: int
) -> optax.GradientTransformation:
    """The optax transformation for `params` over a run of `num_steps` updates.

    Args:
        config: see `OptimizerConfig`.
        params: pytree that will be trained; only its names are read.
        num_steps: updates the run will make in all.

    Raises:
        InputError: if a prefix of `rate_multipliers` matches no parameter, or `num_steps` < 1.

    Example:
        >>> params = {"kernel": jax.numpy.ones((2, 2)), "bias": jax.numpy.zeros(2)}
        >>> state = make_optimizer(OptimizerConfig(), params, num_steps=100).init(params)
    """
    names = list(named_leaves(params))
    for prefix, _ in config.rate_multipliers:
        if not any(_has_prefix(name, prefix) for name in names):
            raise InputError(f"rate_multipliers: no parameter name starts with {prefix!r}")

    def decay_mask(tree):
        return jax.tree_util.tree_map_with_path(lambda path, _: is_decayed(leaf_name(path)), tree)

    def scale_by_name(updates, params):
        del params  # the names are those of the updates
        return jax.tree_util.tree_map_with_path(
            lambda path, u: u * _rate_multiplier(leaf_name(path), config.rate_multipliers), updates
        )

    return optax.chain(
        optax.identity()
        if config.clip_norm is None
        else optax.clip_by_global_norm(config.clip_norm),
        optax.scale_by_adam(b1=config.b1, b2=config.b2, eps=config.eps),
        optax.add_decayed_weights(config.weight_decay, mask=decay_mask),
        optax.stateless(scale_by_name) if config.rate_multipliers else optax.identity(),
        optax.scale_by_learning_rate(learning_rate_schedule(config, num_steps)),
    )
