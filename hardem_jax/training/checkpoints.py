"""The checkpoints of a run, and the parameters that it leaves.

A run folder holds `last/` (the two newest checkpoints, with everything needed to resume) and
`best/` (parameters only). Checkpoints are numbered by their steps; if the folder already has one of
a step, the new one gets the next number, because replacing it would briefly leave none. An older
one is deleted once a newer one is complete and has its final name, so a process killed at any
moment leaves a folder that loads. Checksums come last. If the newest checkpoint in `last/` is
damaged, a run resumes from the one before.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import jax
from orbax.checkpoint import v1 as ocp

from hardem_jax.checksums import has_checksums, verify_checksums
from hardem_jax.errors import InputError
from hardem_jax.training.checkpoint_series import (
    COMPLETE,
    Series,
    check_arrays,
    from_arrays,
    numbers,
    quiet_failures,
    remove,
    restore_targets,
    to_arrays,
)
from hardem_jax.training.distributed import primary_decides
from hardem_jax.training.fingerprint import check_same
from hardem_jax.training.state import TrainState

#: Version of the checkpoint layout; increased when older runs can no longer be resumed.
FORMAT = 2
# The `AverageState` in the state of an optax chain; a saved state has at most one.
_AVERAGE = re.compile(r"(opt_state\.\d+\.average)(?:\.|$)")


class _DataPosition:
    """Saves and restores the position of a Grain iterator, a file for each process. If the number
    of processes has changed, all files must hold the same position, as they do when processes read
    parts of the same batches."""

    def __init__(self, batches: Any) -> None:
        self._batches = batches
        self._positions: list[Any] = []

    async def save(self, directory: Any) -> Any:
        return await self._batches.save(directory)

    async def load(self, directory: Any) -> Any:
        return asyncio.to_thread(self._read, Path(directory))

    def _read(self, folder: Path) -> None:
        own = folder / f"process_{jax.process_index()}-of-{jax.process_count()}.json"
        files = [own] if own.exists() else sorted(folder.glob("process_*.json"))
        self._positions = [json.loads(file.read_text("utf-8")) for file in files]

    def apply(self, where: Path) -> None:
        """Moves the iterator. Separate from `load`, because Orbax wraps errors raised there."""
        if not self._positions or any(state != self._positions[0] for state in self._positions):
            raise InputError(
                f"{where}: expected a data position from which {jax.process_count()} processes "
                f"can resume, found different positions for {len(self._positions)} processes"
            )
        self._batches.set_state(self._positions[0])


@dataclasses.dataclass(frozen=True)
class _Usable:
    """The newest usable checkpoint, and the problems of newer ones."""

    path: Path | None
    damaged: dict[Path, str]
    unchecked: bool = False


def _newest_usable(folder: Path) -> _Usable:
    """Finds the newest usable checkpoint; verifies checksums, so it reads every byte."""
    damaged: dict[Path, str] = {}
    for age, number in enumerate(numbers(folder)):
        path = folder / str(number)
        if has_checksums(path):
            try:
                verify_checksums(path)
            except InputError as error:
                damaged[path] = str(error)
                continue
            return _Usable(path, damaged)
        # Without checksums: its process was killed before writing them. An older one could also be
        # a partially deleted checkpoint.
        if age == 0 and (path / COMPLETE).is_file():
            return _Usable(path, damaged, unchecked=True)
    return _Usable(None, damaged)


class RunCheckpoints:
    """The checkpoints of one run; leaving the context waits for pending saves. `fingerprint`, the
    settings as text by name, is stored with each: no other run resumes from it."""

    def __init__(self, directory: str | Path, fingerprint: Mapping[str, str]) -> None:
        self.fingerprint = dict(fingerprint)
        self._directory = Path(directory)
        self._opened: dict[str, Series] = {}
        self._entered = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._entered.enter_context(quiet_failures())
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: Any) -> None:
        with contextlib.ExitStack() as closing:
            if kind is None:
                closing.push(self._entered)
            else:  # report the error that ended the run, not a failed save
                closing.callback(self._entered.__exit__, kind, *details)
                closing.enter_context(contextlib.suppress(OSError))
            for series in self._opened.values():
                closing.callback(series.close)

    def _wait(self) -> None:
        """Waits for the pending saves of all series. Orbax gives the barriers of all its
        checkpointers the same names. If processes finish one save while they begin another, they
        meet at the wrong barrier, and the run hangs."""
        for series in self._opened.values():
            series.wait()

    def _series(self, name: Literal["last", "best"]) -> Series:
        # Opened on the first save, so that a run that cannot resume leaves its folder unchanged.
        if name not in self._opened:
            self._opened[name] = Series(self._directory / name, keep=2 if name == "last" else 1)
        return self._opened[name]

    def _metadata(self, step: int, progress: Mapping[str, Any]) -> dict[str, Any]:
        content = {"format": FORMAT, "step": step, "fingerprint": self.fingerprint}
        return content | {"progress": dict(progress)}

    def save_last(self, state: TrainState, batches: Any, progress: Mapping[str, Any]) -> None:
        """Saves all that resuming needs, `batches` at its place; returns once off the devices.
        `OSError`: the disk is full, in this save or the previous one; so also in `save_best`."""
        self._wait()
        series, step = self._series("last"), int(state.step)
        content = {"state": to_arrays(state), "data": _DataPosition(batches)}
        series.save(series.free_number(step), content, self._metadata(step, progress))

    def save_best(self, params: Any, step: int, progress: Mapping[str, Any]) -> None:
        """Replaces the best parameters, those of `step` updates; returns once they are on disk."""
        self._wait()
        series = self._series("best")
        content = {"state": to_arrays({"params": params})}
        series.save(series.free_number(step), content, self._metadata(step, progress))
        series.wait()

    def restore(self, like: TrainState, batches: Any) -> tuple[TrainState, dict[str, Any]] | None:
        """Returns the state and progress in `last` and moves `batches` there; None if empty. `like`
        gives structure, shapes, dtypes and sharding. If the newest checkpoint is damaged, prints a
        warning, uses the one before and deletes the damaged one."""
        folder = self._directory / "last"
        usable = _Usable(None, {})

        def number() -> int:
            nonlocal usable
            usable = _newest_usable(folder)
            if usable.path is None and usable.damaged:
                raise InputError(
                    f"{'; '.join(usable.damaged.values())}; there is no other checkpoint to "
                    f"resume from: remove {folder} to restart the run"
                )
            return -1 if usable.path is None else int(usable.path.name)

        newest = primary_decides(number)
        if newest < 0:
            return None
        where = folder / str(newest)
        metadata = ocp.metadata(str(where.absolute()))
        stored: Any = metadata.custom_metadata
        if stored.get("format") != FORMAT:
            raise InputError(
                f"{where}: cannot resume a run of format {stored.get('format', 1)}, this version "
                f"uses format {FORMAT}; use the version that started it, or another folder "
                "(evaluate and predict can still read this one)"
            )
        check_same(stored["fingerprint"], self.fingerprint, where)
        wanted = to_arrays(like)
        check_arrays(metadata.metadata, wanted, where)
        for problem in usable.damaged.values():
            step = stored.get("step", newest)
            print(f"warning: {problem}; resuming from step {step}", file=sys.stderr)
        if usable.unchecked:
            print(f"warning: {usable.path}: has no checksums, not verified", file=sys.stderr)
        position = _DataPosition(batches)
        loaded = ocp.load_checkpointables(
            str(where.absolute()),
            {"state": restore_targets(metadata.metadata, wanted), "data": position},
        )
        position.apply(where)
        remove(usable.damaged)
        return from_arrays(loaded["state"], like), stored["progress"]


def newest_step(folder: Path) -> int | None:
    """The step of the newest checkpoint in a folder, damaged or not; None if there is none."""
    number = max(numbers(folder), default=None)
    if number is None:
        return None
    try:
        stored: Any = ocp.metadata(str((folder / str(number)).absolute())).custom_metadata or {}
    except (OSError, ValueError):
        return number
    return stored.get("step", number)


def load_params(folder: str | Path, like: Any, *, leave_out: Sequence[str] = ()) -> Any:
    """Loads the parameters in `<run>/best` or `<run>/last`, for evaluation and prediction.

    If the run keeps an average of its parameters, loads the average, from either folder.

    Args:
        folder: one of the two folders that `train` writes.
        like: pytree of arrays or `jax.ShapeDtypeStruct`; gives structure, shapes, dtypes and
            shardings (leaves without one go to the first device).
        leave_out: first parts of the names of parameters that may be stored and are not loaded.

    Raises:
        InputError: if there is no checkpoint, or it is damaged (names the file) or belongs to
            another model (names the parameters).

    Example:
        >>> load_params("no-such-run/best", like={})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        hardem_jax.errors.InputError: no-such-run/best: expected a folder with a checkpoint...
    """
    folder = Path(folder)
    where = folder / str(primary_decides(lambda: _newest_undamaged(folder)))
    stored: Any = ocp.metadata(str(where.absolute())).metadata
    root = next((match[1] for name in stored if (match := _AVERAGE.match(name))), "params")
    wanted = {
        root + name.removeprefix("params"): leaf
        for name, leaf in to_arrays({"params": like}).items()
    }
    stored_params = {n: a for n, a in stored.items() if n == root or n.startswith(root + ".")}
    for part in leave_out:
        unread = f"{root}.{part}."
        stored_params = {n: a for n, a in stored_params.items() if not n.startswith(unread)}
    check_arrays(stored_params, wanted, where)
    loaded = ocp.load(str(where.absolute()), restore_targets(stored, wanted))
    arrays = {"params" + name.removeprefix(root): loaded[name] for name in wanted}
    return from_arrays(arrays, {"params": like})["params"]


def _newest_undamaged(folder: Path) -> int:
    if not folder.is_dir():
        raise InputError(f"{folder}: expected a folder with a checkpoint, found none")
    usable = _newest_usable(folder)
    if usable.damaged:
        raise InputError("; ".join(usable.damaged.values()))
    if usable.path is None:
        raise InputError(f"{folder}: expected a folder with a checkpoint, found no checkpoint")
    return int(usable.path.name)
