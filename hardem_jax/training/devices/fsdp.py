"""Parameters in parts on the axis `fsdp`: gathered for a step, whose gradient is in parts again."""

from __future__ import annotations

import functools
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from hardem_jax.training.devices.mesh import FSDP_AXIS, state_shardings
from hardem_jax.training.grad_accumulation import LossFn


def gathering(loss_fn: LossFn, mesh: Mesh) -> LossFn:
    """The same loss, for parameters that lie on the mesh as `state_shardings` says.

    It is given whole parameters, and of their gradient every device keeps its part of the sum.
    That is said here and not left to the compiler, because a product of activations and a part of
    a kernel can also be computed by sending activations around, and compilers for TPUs do that.

    Args:
        loss_fn: of whole parameters.
        mesh: see `data_mesh`; with `fsdp` 1 nothing changes.

    Example:
        >>> from hardem_jax.training.devices.mesh import data_mesh
        >>> def loss_fn(params, batch, *, step, key, dropout_key):
        ...     return (params["w"] * batch["x"]).sum(), {}
        >>> gathering(loss_fn, data_mesh(1)) is loss_fn
        True
    """
    if mesh.shape[FSDP_AXIS] == 1:
        return loss_fn

    def gathered_loss(params: Any, batch: Any, **of_step: jax.Array):
        whole = jax.tree.map(_whole, state_shardings(params, mesh), params)
        return loss_fn(whole, batch, **of_step)

    return gathered_loss


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _whole(sharding: NamedSharding, part: jax.Array) -> jax.Array:
    return jax.lax.with_sharding_constraint(part, NamedSharding(sharding.mesh, PartitionSpec()))


def _whole_fwd(sharding, part):
    return _whole(sharding, part), None


def _whole_bwd(sharding, _, gradient):
    # The gradient of a constraint is constrained alike: it would be whole on every device.
    return (jax.lax.with_sharding_constraint(gradient, sharding),)


_whole.defvjp(_whole_fwd, _whole_bwd)
