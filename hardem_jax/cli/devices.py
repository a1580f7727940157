"""Flags that choose devices: those of this machine, or of all machines of a job."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from hardem_jax.errors import require
from hardem_jax.training.config import DistributedMode
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
        distributed: join the other processes of the job: "auto" if a launcher or a Cloud TPU
            announces them, "on" always, "off" never.
    """

    num_devices: int | None = may_change("the same run up to rounding", default=None)
    fsdp: int = may_change("the same run up to rounding", default=1)
    distributed: DistributedMode = may_change("the same run up to rounding", default="auto")

    def __post_init__(self) -> None:
        require(self, "num_devices", "fsdp", at_least=1)

    def mesh(self) -> Mesh:
        """The mesh of devices; must be made before anything else uses jax.

        Raises:
            InputError: there are fewer devices, or the other processes cannot be joined.
        """
        from hardem_jax.training.devices.compilation_cache import enable_compilation_cache
        from hardem_jax.training.devices.distributed import initialize_distributed
        from hardem_jax.training.devices.mesh import data_mesh

        initialize_distributed(self.distributed)
        enable_compilation_cache()
        return data_mesh(self.num_devices, fsdp=self.fsdp)


def say(text: str) -> None:
    """Prints, once for all processes."""
    from hardem_jax.training.devices.distributed import is_primary

    if is_primary():
        print(text)
