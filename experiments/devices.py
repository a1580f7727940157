"""What a command computes on: the devices of this machine, or of all machines of a job."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax.sharding import Mesh

from hardem_jax.errors import require
from hardem_jax.training.compilation import keep_compiled_programs
from hardem_jax.training.fingerprint import may_change
from hardem_jax.training.mesh import data_mesh, place_whole_batch, state_shardings
from hardem_jax.training.processes import Joining, is_primary, join_processes


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
    return (
        (lambda batch: batch) if mesh is None else functools.partial(place_whole_batch, mesh=mesh)
    )


def on_mesh(shapes: Any, mesh: Mesh | None) -> Any:
    """Shapes of parameters with the place they are to be loaded to; None is the first device."""
    if mesh is None:
        return shapes
    return jax.tree.map(
        lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
        shapes,
        state_shardings(shapes, mesh),
    )


def say(text: str) -> None:
    """Prints, once for all processes."""
    if is_primary():
        print(text)
