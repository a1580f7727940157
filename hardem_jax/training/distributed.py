"""Multi-process JAX: initialisation and decisions made by the primary process.

On a single machine there is one process and nothing to do. On a TPU slice or several GPU
machines, every host runs the same command, once or once per GPU; after initialisation
`jax.devices()` lists the devices of all processes. If a process dies, the others end once
its heartbeat is missed (`HEARTBEAT_SECONDS`), and the launcher must restart all of them; they
resume from the last checkpoint, which must be on a file system that all share.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

import jax
import numpy as np
from jax.experimental import multihost_utils

from hardem_jax.errors import InputError
from hardem_jax.training.config import HEARTBEAT_SECONDS, DistributedMode

_MAX_ERROR_LENGTH = 4096  # bytes


def initialize_distributed(
    mode: DistributedMode = "auto", *, heartbeat_seconds: int = HEARTBEAT_SECONDS
) -> None:
    """Initialises multi-process JAX. Must be called before the first JAX computation.

    The other processes are found through ``JAX_COORDINATOR_ADDRESS`` (``host:port`` of process
    0) with ``JAX_NUM_PROCESSES`` and ``JAX_PROCESS_ID``, or through JAX's detection of SLURM,
    Open MPI, Kubernetes and Cloud TPU. Further calls have no effect.

    Args:
        mode: see `DistributedMode`.
        heartbeat_seconds: a process without a heartbeat for so long counts as dead, and the others
            end. Heartbeats come from a thread of their own, even while the compiler is busy.

    Raises:
        InputError: if a variable is not a number, or the processes cannot be found.

    Example:
        >>> initialize_distributed("off")
        >>> jax.process_count()
        1
    """
    if mode == "off" or jax.distributed.is_initialized():
        return
    if mode == "auto" and not is_multi_process(os.environ):
        return
    count, index = _number("JAX_NUM_PROCESSES"), _number("JAX_PROCESS_ID")
    address = os.environ.get("JAX_COORDINATOR_ADDRESS")
    explicit = None not in (address, count, index)
    if explicit:
        whom = "the others" if index == 0 else "process 0"
        print(f"process {index} of {count}: waiting for {whom} at {address}", file=sys.stderr)
    try:
        jax.distributed.initialize(
            num_processes=count,
            process_id=index,
            heartbeat_timeout_seconds=heartbeat_seconds,
            cluster_detection_method="deactivate" if explicit else None,
        )
    except ValueError as error:
        raise InputError(
            "distributed: expected JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID, "
            f"or a launcher that JAX supports; found {error}"
        ) from error


def is_multi_process(environment: Mapping[str, str]) -> bool:
    """Whether the environment indicates a multi-process launcher or a Cloud TPU. A TPU host can
    only find out about other hosts by querying the metadata server, so every Cloud TPU counts. In a
    SLURM job, only processes started by `srun` count."""
    if "JAX_COORDINATOR_ADDRESS" in environment:
        return True
    for variable in ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE"):
        if environment.get(variable, "1") != "1":
            return True
    # Importing jax sets TPU_ML_PLATFORM on TPU hosts. TPU_SKIP_MDS_QUERY means that there is no
    # metadata server, as in a container; TPU_WORKER_HOSTNAMES then lists the hosts.
    on_tpu = "TPU_ML_PLATFORM" in environment and "tpu" in environment.get("JAX_PLATFORMS", "tpu")
    has_server = "TPU_SKIP_MDS_QUERY" not in environment
    return on_tpu and (has_server or "," in environment.get("TPU_WORKER_HOSTNAMES", ""))


def is_primary() -> bool:
    """Whether this is process 0, the one that prints and writes files."""
    return jax.process_index() == 0


def primary_decides(decide: Callable[[], int]) -> int:
    """Broadcasts what process 0 decides, an int32; its `InputError` is raised in all processes."""
    if jax.process_count() == 1:
        return decide()
    decision, error_text = 0, b""
    if is_primary():
        try:
            decision = decide()
        except InputError as error:
            error_text = str(error).encode()[:_MAX_ERROR_LENGTH]
    message = np.zeros(_MAX_ERROR_LENGTH, np.uint8)
    message[: len(error_text)] = np.frombuffer(error_text, np.uint8)
    decision, length, message = multihost_utils.broadcast_one_to_all(
        (np.int32(decision), np.int32(len(error_text)), message)
    )
    if length:
        raise InputError(bytes(message[:length]).decode(errors="replace"))
    return int(decision)


def _number(variable: str) -> int | None:
    text = os.environ.get(variable)
    if text is None:
        return None
    if not text.isdecimal():
        raise InputError(f"{variable}: expected a number, found {text!r}")
    return int(text)
