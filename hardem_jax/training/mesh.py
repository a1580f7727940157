"""One mesh with one axis, `data`: parameters on every device, batches split over the devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from hardem_jax.errors import InputError
from hardem_jax.training.names import leaf_name

DATA_AXIS = "data"
#: The one batch entry that stays on the host: the example ids, for error messages.
IDS_KEY = "ids"


def data_mesh(num_devices: int | None = None) -> Mesh:
    """A mesh with the single axis `data` over the first `num_devices` devices (default: all).

    Axis types are Auto, so the compiler inserts the gradient all-reduce and
    model code needs no sharding annotations. After `jax.distributed.initialize()`
    the same call spans every host.

    Raises:
        InputError: if `num_devices` is not between 1 and the number of devices there are.

    Example:
        >>> dict(data_mesh(1).shape)
        {'data': 1}
    """
    devices = jax.devices()
    count = len(devices) if num_devices is None else num_devices
    if not 1 <= count <= len(devices):
        raise InputError(f"num_devices: expected 1 to {len(devices)} (devices found), got {count}")
    return jax.make_mesh(
        (count,), (DATA_AXIS,), axis_types=(AxisType.Auto,), devices=devices[:count]
    )


def replicated(mesh: Mesh) -> NamedSharding:
    """The sharding of parameters, optimiser state, keys and metrics: a full copy per device."""
    return NamedSharding(mesh, PartitionSpec())


def split_ids(batch: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Separates the host-only example ids (key `"ids"`, may be absent) from what goes to devices.

    Example:
        >>> split_ids({"ids": ["q1", "q2"], "x": 1})
        (['q1', 'q2'], {'x': 1})
    """
    arrays = {name: value for name, value in batch.items() if name != IDS_KEY}
    return [str(name) for name in batch.get(IDS_KEY, ())], arrays


def place_batch(batch: Any, mesh: Mesh) -> Any:
    """Puts one host batch on the mesh: leading axis split over `data`, 0-d leaves copied to all.

    With several hosts each passes its own part, and the result is the global
    batch of `process_count` times as many rows.

    Args:
        batch: pytree of numpy arrays `[B, ...]` (B rows of this host) and scalars.
        mesh: from `data_mesh`.

    Raises:
        InputError: if B of some array does not divide by the devices this host contributes.

    Example:
        >>> placed = place_batch({"x": np.ones((4, 2)), "tau": np.float32(3)}, data_mesh(1))
        >>> placed["x"].shape, placed["tau"].shape
        ((4, 2), ())
    """
    local_devices = len(mesh.local_devices)
    split = NamedSharding(mesh, PartitionSpec(DATA_AXIS))
    everywhere = replicated(mesh)

    def place(path, leaf):
        leaf = np.asarray(leaf)
        if leaf.ndim and leaf.shape[0] % local_devices:
            raise InputError(
                f"batch entry {leaf_name(path)}: {leaf.shape[0]} rows do not divide by "
                f"{local_devices} devices; choose a batch size that is a multiple of "
                f"{local_devices}, or fewer devices"
            )
        return jax.make_array_from_process_local_data(split if leaf.ndim else everywhere, leaf)

    return jax.tree_util.tree_map_with_path(place, batch)
