"""Where arrays are, known while a function is traced; and kernels on the rows of each device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def mesh_of(*arrays: Any) -> jax.sharding.AbstractMesh | None:
    """The mesh that the first of the arrays to have one lies on, known while tracing; or `None`."""
    meshes = [jax.typeof(x).sharding.mesh for x in arrays]
    return next((mesh for mesh in meshes if not mesh.empty), None)


def on_own_rows(
    function: Callable[..., Any], *arrays: Any, shared: Sequence[Any] = (), with_first: bool = False
) -> Any:
    """Calls `function(*arrays, *shared)` on every device of a mesh with its own rows of the arrays.
    This is for kernels, which the compiler cannot partition. Arrays and outputs are ``[N, ...]``.
    With `with_first`, the number of its first row, uint32, comes before the arrays."""

    def call(first, *inputs):
        return function(first, *inputs) if with_first else function(*inputs)

    mesh = mesh_of(*arrays)
    # Rows of a batch are split over all axes that are not already manual.
    axes = () if mesh is None else tuple(a for a in mesh.axis_names if a not in mesh.manual_axes)
    devices = int(np.prod([mesh.shape[name] for name in axes])) if mesh is not None else 1
    if mesh is None or devices == 1:
        return call(np.uint32(0), *arrays, *shared)
    split = len(arrays[0]) % devices == 0

    def own(*inputs):
        first = jnp.uint32(0)
        if split:
            first = jax.lax.axis_index(axes).astype(jnp.uint32) * np.uint32(len(inputs[0]))
        return call(first, *inputs)

    spec = jax.sharding.PartitionSpec(axes if split else None)
    mapped = jax.shard_map(
        own,
        mesh=mesh,
        in_specs=(*[spec] * len(arrays), *[jax.sharding.PartitionSpec()] * len(shared)),
        out_specs=spec,
        axis_names=set(axes),
        check_vma=False,  # the kernel does not say over which axes its outputs vary
    )
    return mapped(*arrays, *shared)


def platform_of(*arrays: jax.Array) -> str:
    """The platform of the devices that compute with these arrays, known while tracing."""
    mesh = mesh_of(*arrays)
    device = None if mesh is None else mesh.abstract_device
    return jax.default_backend() if device is None else device.platform
