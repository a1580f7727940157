"""FSDP: all-gather parameters before the loss, reduce-scatter gradients after it."""

from __future__ import annotations

import functools
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from hardem_jax.training.mesh import FSDP_AXIS, state_shardings
from hardem_jax.training.step import LossFn


def all_gather_params(loss_fn: LossFn, mesh: Mesh) -> LossFn:
    """Wraps a loss of full parameters for parameters that are sharded by `state_shardings`. Each
    device keeps its shard of the summed gradient. The constraint is explicit because XLA on TPU
    otherwise moves activations instead. With `fsdp` 1, `loss_fn` is returned as it is."""
    if mesh.shape[FSDP_AXIS] == 1:
        return loss_fn

    def gathered_loss(params: Any, batch: Any, **step_args: jax.Array):
        full = jax.tree.map(_all_gather, state_shardings(params, mesh), params)
        return loss_fn(full, batch, **step_args)

    return gathered_loss


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _all_gather(sharding: NamedSharding, shard: jax.Array) -> jax.Array:
    return jax.lax.with_sharding_constraint(shard, NamedSharding(sharding.mesh, PartitionSpec()))


def _all_gather_fwd(sharding, shard):
    return _all_gather(sharding, shard), None


def _all_gather_bwd(sharding, _, gradient):
    # The default gradient of the constraint would be replicated as well.
    return (jax.lax.with_sharding_constraint(gradient, sharding),)


_all_gather.defvjp(_all_gather_fwd, _all_gather_bwd)
