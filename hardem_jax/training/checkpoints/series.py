"""Numbered checkpoints in a folder, written while training goes on."""

import shutil
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from orbax.checkpoint import v1 as ocp

from hardem_jax.buckets.mirror import publish
from hardem_jax.checksums import write_checksums
from hardem_jax.training.checkpoints.full_disk import check_space, one_error
from hardem_jax.training.devices.distributed import is_primary, primary_decides

#: The file that Orbax writes last.
COMPLETE = "_CHECKPOINT_METADATA"


def _open(folder: Path, keep: int) -> ocp.training.Checkpointer:
    # Any: Orbax annotates its own policies more narrowly than its constructor accepts.
    newest: Any = ocp.training.preservation_policies.LatestN(keep)
    return ocp.training.Checkpointer(
        str(folder.absolute()), preservation_policy=newest, cleanup_tmp_directories=True
    )


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
        self._checkpointer = _open(folder, keep)
        self._recorder = ThreadPoolExecutor(1)
        self._recorded: Future[None] | None = None

    def free_number(self, step: int) -> int:
        """The step, or the next number if there is a checkpoint of that or a later one."""
        latest = self._checkpointer.latest
        return step if latest is None else max(step, latest.step + 1)

    def save(self, number: int, content: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Returns once the content is copied off the devices; checksums are written after it.

        No save may be pending, in any series.

        Args:
            number: from `free_number`.
            content: by name, the arrays as "state".
            metadata: stored with it.
        """
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
        """Waits for the pending save.

        Raises:
            OSError: the save failed, e.g. because the disk is full.
        """
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
