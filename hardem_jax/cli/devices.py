"""Flags that choose devices, on this machine or across a job, and the record of what made a run."""

from __future__ import annotations

import dataclasses
import os
import platform
import shlex
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardem_jax.errors import require
from hardem_jax.training.config import HEARTBEAT_SECONDS, DistributedMode
from hardem_jax.training.fingerprint import may_change

if TYPE_CHECKING:
    from jax.sharding import Mesh

#: JAX's variable for the folder of compiled programs.
VARIABLE = "JAX_COMPILATION_CACHE_DIR"
#: Packages whose version may change what a run computes.
_PACKAGES = (
    *("hardem-jax", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "numpy"),
    *("tensorflow-datasets", "tokenizers", "transformers"),
)

# Parsing a command imports this module, so jax is imported only by code that needs devices.


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnDevices:
    """A command that computes.

    Attributes:
        num_devices: devices to use; None for all.
        fsdp: devices over which parameters and optimiser state are split, a divisor of the number
            of devices; 1 for a copy on each.
        distributed: join the other processes of the job: "auto" if a launcher or a Cloud TPU
            announces them, "on" always, "off" never.
        heartbeat_seconds: end the job if another process is silent for so long, for it is dead.
    """

    num_devices: int | None = may_change(
        "the same run up to rounding, and dropout in packed rows", default=None
    )
    fsdp: int = may_change("the same run up to rounding", default=1)
    distributed: DistributedMode = may_change("the same run up to rounding", default="auto")
    heartbeat_seconds: int = may_change("when a job has failed", default=HEARTBEAT_SECONDS)

    def __post_init__(self) -> None:
        require(self, "num_devices", "fsdp", "heartbeat_seconds", at_least=1)

    def mesh(self) -> Mesh:
        """The mesh of devices; must be made before anything else uses jax."""
        from hardem_jax.training.devices.distributed import initialize_distributed
        from hardem_jax.training.devices.mesh import data_mesh

        initialize_distributed(self.distributed, heartbeat_seconds=self.heartbeat_seconds)
        mesh = data_mesh(self.num_devices, fsdp=self.fsdp)
        enable_compilation_cache()
        return mesh


def enable_compilation_cache() -> Path | None:
    """Enables JAX's persistent compilation cache; call it before anything is compiled.

    The folder is ``JAX_COMPILATION_CACHE_DIR`` if set (empty disables the cache); otherwise, on
    GPUs and TPUs, ``hardem_jax/compiled`` in the user's cache folder (``XDG_CACHE_HOME`` or
    ``~/.cache``). On CPUs there is no default: programs are compiled for one machine's
    processor, and home folders are often shared between machines. Of several processes only the
    primary writes to the cache.
    """
    import jax

    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE]) if os.environ[VARIABLE] else None
    if jax.default_backend() == "cpu":
        return None
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "hardem_jax" / "compiled"
    jax.config.update("jax_compilation_cache_dir", str(folder))
    return folder


def say(text: str) -> None:
    """Prints in one process only, on behalf of all."""
    from hardem_jax.training.devices.distributed import is_primary

    if is_primary():
        print(text)


def made_by(num_devices: int) -> dict[str, Any]:
    """What a run is made by: command line, commit, versions and devices, for ``config.json``."""
    import jax

    return {
        "command": shlex.join(sys.orig_argv),
        "commit": _commit(Path(__file__).parents[1]),
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "devices": f"{num_devices} x {jax.devices()[0].device_kind}",
        "processes": jax.process_count(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit(folder: Path) -> str | None:
    """The commit of the repository that holds the package, if it is tracked there."""

    def git(*words: str) -> str | None:
        try:
            command = ["git", "-C", str(folder), *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        except (OSError, subprocess.SubprocessError):  # no git, or no repository
            return None
        return done.stdout.strip()

    # An installed package may lie in an environment inside somebody else's repository.
    if git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    commit = git("rev-parse", "HEAD")
    return f"{commit}+" if commit and git("status", "--porcelain", "-uno", ".") else commit
