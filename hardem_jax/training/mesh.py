"""The device mesh with axes `data` and `fsdp`, and how arrays are sharded over it.

The rows of a batch are split over all devices. Parameters and optimiser state are replicated over
`data` and sharded over `fsdp` (fully sharded data parallelism; Rajbhandari et al., 2020, stage 3):
parameters are all-gathered before use and gradients reduce-scattered. With `fsdp` 1 this is plain
data parallelism.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from hardem_jax.errors import InputError

DATA_AXIS = "data"
FSDP_AXIS = "fsdp"
#: The axes over which the rows of a batch are split.
BATCH_AXES = (DATA_AXIS, FSDP_AXIS)
#: Arrays with fewer elements are copied: all-gathering them would cost more than it saves.
MIN_SPLIT_SIZE = 2**14


def data_mesh(num_devices: int | None = None, *, fsdp: int = 1) -> Mesh:
    """Creates a `data` x `fsdp` mesh of the first `num_devices` devices (default: all).

    Axis types are Auto, so the compiler inserts all communication and model code needs no
    sharding annotations. After `jax.distributed.initialize()` the mesh spans all hosts, with
    neighbours along `fsdp` on the same host where possible.

    Raises:
        InputError: if JAX has no device, or `num_devices` is not between 1 and the number of
            available devices, or not a multiple of `fsdp` and of the number of processes.

    Example:
        >>> dict(data_mesh(1).shape)
        {'data': 1, 'fsdp': 1}
    """
    devices = available_devices()
    count = len(devices) if num_devices is None else num_devices
    if not 1 <= count <= len(devices):
        raise InputError(
            f"--num-devices: expected 1 to {len(devices)} (available devices), found {count}"
        )
    # Equally many of each process, which has consecutive rows of the batch.
    taken, processes = [], jax.process_count()
    for process in range(processes):
        own = [device for device in devices if device.process_index == process]
        taken += sorted(own, key=lambda device: device.id)[: count // processes]
    if len(taken) < count:
        raise InputError(
            f"--num-devices: expected equally many of each of {processes} processes, found {count}"
        )
    return mesh_over(taken, fsdp=fsdp)


def available_devices() -> list[Any]:
    """`jax.devices()`; `InputError` if JAX cannot use the platform that ``JAX_PLATFORMS`` names."""
    try:
        return jax.devices()
    except (AssertionError, RuntimeError) as error:  # JAX asserts where a plugin is missing
        if not (asked := getattr(jax.config, "jax_platforms", None)):
            raise
        found = str(error) or "no plugin of JAX for it"
        raise InputError(
            f"JAX_PLATFORMS={asked}: expected a platform that JAX can use here, found {found}"
        ) from error


def mesh_over(devices: Sequence[Any], *, fsdp: int) -> Mesh:
    """Creates a `data` x `fsdp` mesh of these devices, which need not be attached."""
    if fsdp < 1 or len(devices) % fsdp:
        raise InputError(f"fsdp: expected a divisor of the {len(devices)} devices, found {fsdp}")
    return Mesh(np.array(devices).reshape(-1, fsdp), BATCH_AXES, (AxisType.Auto, AxisType.Auto))


def is_gpu(mesh: Mesh) -> bool:
    """Whether the devices of a mesh are GPUs."""
    return mesh.devices.flat[0].platform in ("gpu", "cuda", "rocm")


def replicated(mesh: Mesh) -> NamedSharding:
    """Sharding of keys, metrics and small arrays: a full copy per device."""
    return NamedSharding(mesh, PartitionSpec())


def row_sharding(mesh: Mesh, axis: int = 0) -> NamedSharding:
    """Sharding of a batch: this axis is split over all devices."""
    return NamedSharding(mesh, PartitionSpec(*[None] * axis, BATCH_AXES))


def state_shardings(tree: Any, mesh: Mesh) -> Any:
    """The tree of `NamedSharding`s of a tree of parameters or a training state (or their shapes).

    Arrays with at least `MIN_SPLIT_SIZE` elements are sharded along their largest axis that is a
    multiple of `fsdp` (the last such axis on ties); others are replicated. Only shapes matter,
    so AdamW moments and averages are sharded like their parameters.
    """
    size = mesh.shape[FSDP_AXIS]

    def sharding(leaf: Any) -> NamedSharding:
        divisible = [axis for axis, length in enumerate(leaf.shape) if length % size == 0]
        if size == 1 or leaf.size < MIN_SPLIT_SIZE or not divisible:
            return replicated(mesh)
        split = max(divisible, key=lambda axis: (leaf.shape[axis], axis))
        return NamedSharding(mesh, PartitionSpec(*[None] * split, FSDP_AXIS))

    return jax.tree.map(sharding, tree)


def place_batch(batch: Any, mesh: Mesh, *, accumulate: int = 1) -> Any:
    """Puts numpy arrays `[R, ...]` (R rows of this host) on the mesh, rows split over devices.

    Scalars are replicated. With several hosts, each passes its own rows and the result is the
    global batch. With `accumulate` k above 1, arrays are `[k, R, ...]`. `InputError` if R is not a
    multiple of the number of devices of this host.
    """
    return _place(batch, mesh, devices=len(mesh.local_devices), accumulate=accumulate, whole=False)


def place_global_batch(batch: Any, mesh: Mesh) -> Any:
    """`place_batch` of arrays `[B, ...]` that every host holds in full, as in evaluation."""
    return _place(batch, mesh, devices=mesh.size, accumulate=1, whole=True)


def _place(batch: Any, mesh: Mesh, *, devices: int, accumulate: int, whole: bool) -> Any:
    """Splits rows over `devices`; `whole`: every host holds all of them, not only its own."""
    axis = int(accumulate > 1)
    split, everywhere = row_sharding(mesh, axis), replicated(mesh)

    def place(path, leaf):
        leaf = np.asarray(leaf)
        # Passing the global shape marks `leaf` as the full array, not this host's part.
        shape = leaf.shape if whole else None
        if not leaf.ndim:
            return jax.make_array_from_process_local_data(everywhere, leaf, shape)
        name = f"batch entry {jax.tree_util.keystr(path, simple=True, separator='.')}"
        if axis and (leaf.ndim == 1 or len(leaf) != accumulate):
            raise InputError(
                f"{name}: expected shape [{accumulate}, rows, ...] for {accumulate} "
                f"micro-batches, found {list(leaf.shape)}"
            )
        if leaf.shape[axis] % devices:
            raise InputError(
                f"{name}: expected a multiple of {devices} rows for {devices} devices, found "
                f"{leaf.shape[axis]}; change the batch size or use fewer devices"
            )
        return jax.make_array_from_process_local_data(split, leaf, shape)

    return jax.tree_util.tree_map_with_path(place, batch)


def round_up_to_devices(rows: int, mesh: Mesh | None) -> int:
    """Rounds a number of rows up to a multiple of the number of devices; None is one device."""
    return rows if mesh is None else -(-rows // mesh.size) * mesh.size


def make_place_fn(mesh: Mesh | None) -> Callable[[Mapping[str, Any]], Any]:
    """Returns `place_global_batch` for this mesh; None leaves the placement to JAX."""
    if mesh is None:
        return lambda batch: batch
    return functools.partial(place_global_batch, mesh=mesh)


def with_shardings(shapes: Any, mesh: Mesh | None) -> Any:
    """Adds to shapes of parameters the shardings to load them with; None is the first device."""
    if mesh is None:
        return shapes
    return jax.tree.map(
        lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
        shapes,
        state_shardings(shapes, mesh),
    )
