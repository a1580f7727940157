"""Numbered checkpoints in a folder, written while training goes on: arrays, and full disks."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from orbax.checkpoint import v1 as ocp

from hardem_jax.buckets.names import publish
from hardem_jax.checksums import write_checksums
from hardem_jax.errors import InputError
from hardem_jax.training.distributed import is_primary, primary_decides
from hardem_jax.training.state import named_leaves

#: The file that Orbax writes last.
COMPLETE = "_CHECKPOINT_METADATA"
#: Error numbers that `out_of_space` recognises.
OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def numbers(folder: Path) -> list[int]:
    """The numbers of the checkpoints in a folder, newest first."""
    return sorted((int(p.name) for p in folder.glob("*") if p.name.isdigit()), reverse=True)


def remove(paths: Iterable[Path]) -> None:
    """Removes checkpoints; one process removes, the others wait."""

    def remove_all() -> int:
        for path in paths:
            shutil.rmtree(path)
        return 0

    primary_decides(remove_all)


def _remnants(folder: Path) -> list[Path]:
    """What is left of old checkpoints if a process was killed while it deleted them."""
    complete = {n for n in numbers(folder) if (folder / str(n) / COMPLETE).is_file()}
    newest = max(complete, default=0)
    return [folder / str(n) for n in numbers(folder) if n < newest and n not in complete]


class Series:
    """A folder of numbered checkpoints of which the newest `keep` are kept."""

    def __init__(self, folder: Path, keep: int) -> None:
        self._folder = folder
        remove(_remnants(folder))  # Orbax would warn of each
        # Any: Orbax annotates its own policies more narrowly than its constructor accepts.
        newest: Any = ocp.training.preservation_policies.LatestN(keep)
        self._checkpointer = ocp.training.Checkpointer(
            str(folder.absolute()), preservation_policy=newest, cleanup_tmp_directories=True
        )
        self._recorder = ThreadPoolExecutor(1)
        self._recorded: Future[None] | None = None

    def free_number(self, step: int) -> int:
        """The step, or the next number if there is a checkpoint of that or a later one."""
        latest = self._checkpointer.latest
        return step if latest is None else max(step, latest.step + 1)

    def save(self, number: int, content: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Returns once the content is copied off the devices; checksums are written after it. No
        save may be pending, in any series."""
        with one_error(self._folder):
            check_space(self._folder, content["state"].values())
            response = self._checkpointer.save_checkpointables_async(
                number, content, force=True, custom_metadata=metadata
            )
        self._recorded = self._recorder.submit(self._record, number, response)

    def _record(self, number: int, response: Any) -> None:
        response.result()  # complete: all processes have written their parts
        if is_primary():
            write_checksums(self._folder / str(number))
            publish(self._folder)

    def wait(self) -> None:
        """Waits for the pending save."""
        if self._recorded is not None:
            recorded, self._recorded = self._recorded, None
            with one_error(self._folder):
                recorded.result()

    def close(self) -> None:
        try:
            self.wait()
        finally:
            self._recorder.shutdown()
            with one_error(self._folder):
                self._checkpointer.close()


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def to_arrays(tree: Any) -> dict[str, jax.Array]:
    """Returns leaves by name, with typed PRNG keys as uint32 words, which Orbax can store."""
    return {
        name: jax.random.key_data(leaf) if _is_key(leaf) else leaf
        for name, leaf in named_leaves(tree).items()
    }


def from_arrays(arrays: Mapping[str, jax.Array], like: Any) -> Any:
    """Undoes `to_arrays`; ``like`` gives structure and kinds of keys."""
    leaves = [
        jax.random.wrap_key_data(arrays[name], impl=jax.random.key_impl(leaf))
        if _is_key(leaf)
        else arrays[name]
        for name, leaf in named_leaves(like).items()
    ]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _describe(array: Any) -> str:
    return f"{array.dtype}{list(array.shape)}"


def check_arrays(stored: Mapping[str, Any], wanted: Mapping[str, Any], where: Path) -> None:
    """Raises one InputError that lists the arrays whose presence, shape or dtype differ."""
    problems = []
    for name in [*wanted, *(name for name in stored if name not in wanted)]:
        found = _describe(stored[name]) if name in stored else "absent"
        expected = _describe(wanted[name]) if name in wanted else "absent"
        if found != expected:
            problems.append(f"{name} (stored: {found}, expected: {expected})")
    if problems:
        raise InputError(
            f"{where}: checkpoint of a different model or optimiser: {'; '.join(problems)}"
        )


def restore_targets(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a ShapeDtypeStruct for each wanted array, PLACEHOLDER for the rest."""
    default = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    return {
        name: jax.ShapeDtypeStruct(
            wanted[name].shape,
            wanted[name].dtype,
            sharding=getattr(wanted[name], "sharding", None) or default,
        )
        if name in wanted
        else ocp.PLACEHOLDER
        for name in stored
    }


@contextlib.contextmanager
def one_error(folder: Path) -> Iterator[None]:
    """Turns the per-array errors that Orbax and TensorStore raise on a full disk into one."""
    try:
        yield
    except Exception as error:
        reason = out_of_space(error)
        if reason is None:
            raise
        raise OSError(reason, f"{os.strerror(reason)}; checkpoint not saved", str(folder)) from None


def check_space(folder: Path, arrays: Iterable[jax.Array]) -> None:
    """Raises ENOSPC before writing if the disk does not have enough free space."""
    needed = sum(array.nbytes for array in arrays)
    if jax.process_count() == 1 and shutil.disk_usage(folder).free < needed:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextlib.contextmanager
def quiet_failures() -> Iterator[None]:
    """Suppresses reports of a full disk from background threads; the error itself is raised. Orbax
    logs a stack trace per thread, and TensorStore reports to an event loop that the first failure
    has closed. Such reports may arrive late, so filters stay in place after a failure."""

    def is_other_error(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return out_of_space(error) is None and out_of_space(OSError(record.getMessage())) is None

    before = sys.unraisablehook

    def report(unraisable: Any) -> None:
        if str(unraisable.exc_value) != "Event loop is closed":
            before(unraisable)

    logger = logging.getLogger("absl")
    logger.addFilter(is_other_error)
    sys.unraisablehook = report
    failed = False
    try:
        yield
    except OSError:
        failed = True
        raise
    finally:
        if not failed:
            logger.removeFilter(is_other_error)
            sys.unraisablehook = before


def out_of_space(error: BaseException | None) -> int | None:
    """The `errno` if a full disk, quota or file-size limit caused the error, else None.

    >>> out_of_space(ValueError("write failed [OS error 28: ENOSPC No space left on device]"))
    28
    """
    seen: set[int] = set()
    pending = [error]
    while pending:
        error = pending.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in OUT_OF_SPACE:
            return error.errno
        for number in OUT_OF_SPACE:
            if errno.errorcode[number] in str(error) or os.strerror(number) in str(error):
                return number
        pending += [error.__cause__, error.__context__, *getattr(error, "exceptions", ())]
    return None
