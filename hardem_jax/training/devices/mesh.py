"""One mesh with the axes `data` and `fsdp`: what is split over the devices, and what is copied.

The rows of a batch are split over all devices. Parameters and optimiser state have a full copy on
every device of the axis `data` and are split over `fsdp` (fully sharded data parallelism;
Rajbhandari et al., 2020, stage 3): the compiler gathers a parameter where it is used and scatters
the sum of its gradients. With `fsdp` 1 that is plain data parallelism.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from hardem_jax.errors import InputError
from hardem_jax.training.tree_paths import leaf_name

DATA_AXIS = "data"
FSDP_AXIS = "fsdp"
#: What the rows of a batch are split over.
BATCH_AXES = (DATA_AXIS, FSDP_AXIS)
#: Arrays with fewer elements are copied: gathering them would cost more than it saves.
MIN_SPLIT_SIZE = 2**14
#: The one batch entry that stays on the host: the example ids, for error messages.
IDS_KEY = "ids"


def data_mesh(num_devices: int | None = None, *, fsdp: int = 1) -> Mesh:
    """A mesh of the first `num_devices` devices (default: all), `data` times `fsdp`.

    Axis types are Auto, so the compiler inserts all communication and model code
    needs no sharding annotations. After `jax.distributed.initialize()` the same
    call spans every host; neighbours on the axis `fsdp` are on one host first.

    Raises:
        InputError: if `num_devices` is not between 1 and the number of devices there are, does
            not divide by `fsdp`, or leaves a process without devices.

    Example:
        >>> dict(data_mesh(1).shape)
        {'data': 1, 'fsdp': 1}
    """
    devices = jax.devices()
    count = len(devices) if num_devices is None else num_devices
    if not 1 <= count <= len(devices):
        raise InputError(f"num_devices: expected 1 to {len(devices)} (devices found), got {count}")
    # Process after process, so that the rows of a process are consecutive rows of the batch.
    devices = sorted(devices, key=lambda device: (device.process_index, device.id))[:count]
    busy = len({device.process_index for device in devices})
    if busy < jax.process_count():
        raise InputError(
            f"num_devices: expected devices of all {jax.process_count()} processes, got {count}, "
            f"which are those of {busy}"
        )
    return mesh_over(devices, fsdp=fsdp)


def mesh_over(devices: Sequence[Any], *, fsdp: int) -> Mesh:
    """The given devices as `data` times `fsdp`, for programs that run elsewhere too.

    Raises:
        InputError: if `fsdp` does not divide their number.

    Example:
        >>> dict(mesh_over(jax.devices()[:1], fsdp=1).shape)
        {'data': 1, 'fsdp': 1}
    """
    if fsdp < 1 or len(devices) % fsdp:
        raise InputError(f"fsdp: expected a divisor of the {len(devices)} devices, got {fsdp}")
    array = np.array(devices).reshape(-1, fsdp)
    return Mesh(array, BATCH_AXES, (AxisType.Auto, AxisType.Auto))


def replicated(mesh: Mesh) -> NamedSharding:
    """The sharding of keys, metrics and small arrays: a full copy per device."""
    return NamedSharding(mesh, PartitionSpec())


def row_sharding(mesh: Mesh, axis: int = 0) -> NamedSharding:
    """The sharding of a batch: this axis is split over all devices."""
    return NamedSharding(mesh, PartitionSpec(*[None] * axis, BATCH_AXES))


def state_shardings(tree: Any, mesh: Mesh) -> Any:
    """How parameters or a whole training state lie on a mesh: the one rule of the axis `fsdp`.

    Of an array with at least `MIN_SPLIT_SIZE` elements the largest axis that divides by
    `fsdp` is split (the last of equal ones); other arrays are copied. The rule sees shapes alone,
    so that the moments of AdamW and averages lie like their parameters.

    Args:
        tree: pytree of arrays or `jax.ShapeDtypeStruct`.
        mesh: from `data_mesh`, or another with the axis `fsdp`.

    Returns:
        The same tree of `NamedSharding`.

    Example:
        >>> mesh = jax.sharding.AbstractMesh((2, 4), ("data", "fsdp"))
        >>> shapes = {"kernel": np.zeros((768, 3072)), "bias": np.zeros(3072)}
        >>> {name: tuple(place.spec) for name, place in state_shardings(shapes, mesh).items()}
        {'bias': (), 'kernel': (None, 'fsdp')}
    """
    size = mesh.shape[FSDP_AXIS]

    def place(leaf: Any) -> NamedSharding:
        possible = [axis for axis, length in enumerate(leaf.shape) if length % size == 0]
        if size == 1 or leaf.size < MIN_SPLIT_SIZE or not possible:
            return replicated(mesh)
        split = max(possible, key=lambda axis: (leaf.shape[axis], axis))
        return NamedSharding(mesh, PartitionSpec(*[None] * split, FSDP_AXIS))

    return jax.tree.map(place, tree)


def split_ids(batch: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Separates the host-only example ids (key `"ids"`, may be absent) from what goes to devices.

    Example:
        >>> split_ids({"ids": ["q1", "q2"], "x": 1})
        (['q1', 'q2'], {'x': 1})
    """
    arrays = {name: value for name, value in batch.items() if name != IDS_KEY}
    return [str(name) for name in batch.get(IDS_KEY, ())], arrays


def place_batch(batch: Any, mesh: Mesh, *, accumulate: int = 1) -> Any:
    """Puts one host's part of a batch on the mesh: rows split over all devices, 0-d leaves copied.

    With several hosts each passes its own part, and the result is the global
    batch of `process_count` times as many rows.

    Args:
        batch: pytree of numpy arrays `[R, ...]` (R rows of this host) and scalars.
        mesh: from `data_mesh`.
        accumulate: k, parts of a step that are computed one after another; above 1, arrays are
            `[k, R, ...]`.

    Raises:
        InputError: if R of some array does not divide by the devices this host contributes, or
            an array has not k parts.

    Example:
        >>> placed = place_batch({"x": np.ones((4, 2)), "tau": np.float32(3)}, data_mesh(1))
        >>> placed["x"].shape, placed["tau"].shape
        ((4, 2), ())
    """
    local_devices, rows = len(mesh.local_devices), int(accumulate > 1)
    split, everywhere = row_sharding(mesh, rows), replicated(mesh)

    def place(path, leaf):
        leaf = np.asarray(leaf)
        if not leaf.ndim:
            return jax.make_array_from_process_local_data(everywhere, leaf)
        if rows and (leaf.ndim == 1 or len(leaf) != accumulate):
            raise InputError(
                f"batch entry {leaf_name(path)}: expected [{accumulate}, rows, ...] for a step of "
                f"{accumulate} parts, found the shape {list(leaf.shape)}"
            )
        _check_rows(leaf_name(path), leaf.shape[rows], local_devices)
        return jax.make_array_from_process_local_data(split, leaf)

    return jax.tree_util.tree_map_with_path(place, batch)


def place_whole_batch(batch: Any, mesh: Mesh) -> Any:
    """Puts a batch that every host holds on the mesh: rows split over all devices.

    What evaluation reads with: all hosts go through the same batches, and each has its
    devices compute a part of the rows.

    Args:
        batch: pytree of numpy arrays `[B, ...]`, the same on every host, and scalars.
        mesh: from `data_mesh`.

    Raises:
        InputError: if B does not divide by the devices of the mesh.

    Example:
        >>> place_whole_batch({"x": np.ones((4, 2))}, data_mesh(1))["x"].shape
        (4, 2)
    """
    split, everywhere = row_sharding(mesh), replicated(mesh)

    def place(path, leaf):
        leaf = np.asarray(leaf)
        if leaf.ndim:
            _check_rows(leaf_name(path), len(leaf), mesh.size)
        sharding = split if leaf.ndim else everywhere
        # With the global shape said, what is given is the whole array and not a host's part.
        return jax.make_array_from_process_local_data(sharding, leaf, leaf.shape)

    return jax.tree_util.tree_map_with_path(place, batch)


def whole_rows(rows: int, mesh: Mesh | None) -> int:
    """Rows of a batch to evaluate on, rounded up to a multiple of the devices; None is one device.

    Example:
        >>> whole_rows(3, data_mesh(1))
        3
    """
    return rows if mesh is None else -(-rows // mesh.size) * mesh.size


def placing(mesh: Mesh | None) -> Callable[[Mapping[str, Any]], Any]:
    """`place_whole_batch` on this mesh; None leaves the place to JAX."""
    if mesh is None:
        return lambda batch: batch
    return functools.partial(place_whole_batch, mesh=mesh)


def on_mesh(shapes: Any, mesh: Mesh | None) -> Any:
    """Shapes of parameters with the place to load them to; None is the first device.

    Args:
        shapes: pytree of `jax.ShapeDtypeStruct` or arrays.
        mesh: from `data_mesh`.
    """
    if mesh is None:
        return shapes
    return jax.tree.map(
        lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
        shapes,
        state_shardings(shapes, mesh),
    )


def _check_rows(name: str, rows: int, devices: int) -> None:
    if rows % devices:
        raise InputError(
            f"batch entry {name}: {rows} rows do not divide by {devices} devices; choose a batch "
            f"size that is a multiple of {devices}, or fewer devices"
        )
