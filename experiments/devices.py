"""What a command computes on: the devices of this machine, or of all machines of a job."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hardem_jax.errors import require
from hardem_jax.training.config import Joining
from hardem_jax.training.fingerprint import may_change

if TYPE_CHECKING:
    from jax.sharding import Mesh

# Commands are parsed with this module: jax is imported by what asks for devices.


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnDevices:
    """A command that computes.

    Attributes:
        num_devices: devices to use; None for all.
        fsdp: devices over which parameters and optimiser state are split, a divisor of the number
            of devices; 1 for a copy on each.
        distributed: join the other processes of the job: "auto" where a launcher or a Cloud TPU
            tells of them, "on" always, "off" never.
    """

    num_devices: int | None = may_change("the same run up to rounding", default=None)
    fsdp: int = may_change("the same run up to rounding", default=1)
    distributed: Joining = may_change("the same run up to rounding", default="auto")

    def __post_init__(self) -> None:
        require(self, "num_devices", "fsdp", at_least=1)

    def mesh(self) -> Mesh:
        """The devices; the first thing that a command asks for.

        Raises:
            InputError: if there are not so many, or the other processes cannot be joined.
        """
        from hardem_jax.training.devices.compilation_cache import keep_compiled_programs
        from hardem_jax.training.devices.distributed import join_processes
        from hardem_jax.training.devices.mesh import data_mesh

        join_processes(self.distributed)
        keep_compiled_programs()
        return data_mesh(self.num_devices, fsdp=self.fsdp)


def whole_rows(rows: int, mesh: Mesh | None) -> int:
    """Rows of a batch to evaluate on, rounded up to a number that divides by the devices.

    Rows of padding fill them up. None is one device.
    """
    return rows if mesh is None else -(-rows // mesh.size) * mesh.size


def placing(mesh: Mesh | None) -> Callable[[Mapping[str, Any]], Any]:
    """Puts batches to evaluate on where they are computed with; None leaves that to JAX."""
    if mesh is None:
        return lambda batch: batch
    from hardem_jax.training.devices.mesh import place_whole_batch

    return functools.partial(place_whole_batch, mesh=mesh)


def on_mesh(shapes: Any, mesh: Mesh | None) -> Any:
    """Shapes of parameters with the place they are to be loaded to; None is the first device."""
    if mesh is None:
        return shapes
    import jax

    from hardem_jax.training.devices.mesh import state_shardings

    return jax.tree.map(
        lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
        shapes,
        state_shardings(shapes, mesh),
    )


def say(text: str) -> None:
    """Prints, once for all processes."""
    from hardem_jax.training.devices.distributed import is_primary

    if is_primary():
        print(text)
