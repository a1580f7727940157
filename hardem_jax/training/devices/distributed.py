"""Several processes as one program: found by what launched them, and joined before anything else.

On one machine there is one process and nothing to do. On a slice of TPUs, or on machines with
GPUs, every host runs the same command, once, or once for each GPU; the processes meet here, and
from then on `jax.devices()` are those of all. Whatever launches them has to start all of them
again when one dies: they then go on from the last checkpoint, which lies where all can read it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import jax
import numpy as np
from jax.experimental import multihost_utils

from hardem_jax.errors import InputError
from hardem_jax.training.config import Joining

_LONGEST_ERROR = 4096  # bytes


def join_processes(joining: Joining = "auto") -> None:
    """Meets the other processes of the job; has to come before JAX touches a device.

    They are found by ``JAX_COORDINATOR_ADDRESS`` (``host:port`` of process 0) with
    ``JAX_NUM_PROCESSES`` and ``JAX_PROCESS_ID``, or by what JAX reads of SLURM, Open MPI,
    Kubernetes and Cloud TPU. A process that has joined may call again.

    Args:
        joining: see `Joining`.

    Raises:
        InputError: if a variable is not a number, or not enough is known to join.

    Example:
        >>> join_processes("off")
        >>> jax.process_count()
        1
    """
    if joining == "off" or jax.distributed.is_initialized():
        return
    if joining == "auto" and not has_other_processes(os.environ):
        return
    count, own = _number("JAX_NUM_PROCESSES"), _number("JAX_PROCESS_ID")
    told = "JAX_COORDINATOR_ADDRESS" in os.environ and None not in (count, own)
    try:
        jax.distributed.initialize(
            num_processes=count,
            process_id=own,
            cluster_detection_method="deactivate" if told else None,
        )
    except ValueError as error:
        raise InputError(
            "distributed: expected JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID, "
            f"or a launcher that JAX knows; found {error}"
        ) from error


def has_other_processes(environment: Mapping[str, str]) -> bool:
    """Whether the variables of a launcher tell of other processes, or of a Cloud TPU.

    A host of a slice of TPUs knows of the others by asking for them, so that all TPUs
    count. Within a SLURM job only what `srun` starts is one of several.

    Example:
        >>> has_other_processes({"SLURM_STEP_NUM_TASKS": "8"}), has_other_processes({})
        (True, False)
    """
    if "JAX_COORDINATOR_ADDRESS" in environment:
        return True
    for variable in ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE"):
        if environment.get(variable, "1") != "1":
            return True
    # The first is set by importing jax where there are TPUs. The second says that there is no
    # one to ask, as in a container; the third names the hosts without asking.
    on_tpu = "TPU_ML_PLATFORM" in environment and "tpu" in environment.get("JAX_PLATFORMS", "tpu")
    askable = "TPU_SKIP_MDS_QUERY" not in environment
    return on_tpu and (askable or "," in environment.get("TPU_WORKER_HOSTNAMES", ""))


def is_primary() -> bool:
    """Whether this process is the one that prints and writes.

    Example:
        >>> is_primary()
        True
    """
    return jax.process_index() == 0


def primary_decides(decide: Callable[[], int]) -> int:
    """What the first process decides, in all processes; its `InputError` is raised in all.

    Args:
        decide: called in the first process only; returns an int32.

    Example:
        >>> primary_decides(lambda: 3)
        3
    """
    if jax.process_count() == 1:
        return decide()
    decided, said = 0, b""
    if is_primary():
        try:
            decided = decide()
        except InputError as error:
            said = str(error).encode()[:_LONGEST_ERROR]
    message = np.zeros(_LONGEST_ERROR, np.uint8)
    message[: len(said)] = np.frombuffer(said, np.uint8)
    decided, length, message = multihost_utils.broadcast_one_to_all(
        (np.int32(decided), np.int32(len(said)), message)
    )
    if length:
        raise InputError(bytes(message[:length]).decode(errors="replace"))
    return int(decided)


def _number(variable: str) -> int | None:
    text = os.environ.get(variable)
    if text is None:
        return None
    if not text.isdecimal():
        raise InputError(f"{variable}: expected a number, found {text!r}")
    return int(text)
