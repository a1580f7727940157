"""Checkpoints on disk: a thin layer over Orbax, so that the rest of the project never sees its API.

A run folder holds `last/` (all that resuming needs, the two newest) and `best/`
(parameters only). A checkpoint appears under its final name only when it is
complete, then it gets checksums, and an older one is deleted; a process killed at
any moment, in the middle of a save too, leaves a folder that loads. If the newest
of `last/` is damaged, a run resumes from the one before.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, Self

import jax
import jax.numpy as jnp
from orbax.checkpoint import v1 as ocp

from hardem_jax.checksums import has_checksums, verify_checksums, write_checksums
from hardem_jax.errors import InputError
from hardem_jax.training.devices.distributed import is_primary, primary_decides
from hardem_jax.training.fingerprint import check_same
from hardem_jax.training.state import TrainState
from hardem_jax.training.tree_paths import named_leaves

#: Of what is stored beside the arrays; raised when an older run can no longer be resumed.
FORMAT = 2
#: What `out_of_space` recognises.
OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: The file that Orbax writes last.
_COMPLETE = "_CHECKPOINT_METADATA"
_MOST_LISTED = 20
# An `AverageState` among the links of the optimiser's chain; in a saved state it is the only one.
_AVERAGE = re.compile(r"(opt_state\.\d+\.average)(?:\.|$)")


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _to_arrays(tree: Any) -> dict[str, jax.Array]:
    """Leaves by name; typed PRNG keys, which no file format knows, as their uint32 words."""
    return {
        name: jax.random.key_data(leaf) if _is_key(leaf) else leaf
        for name, leaf in named_leaves(tree).items()
    }


def _from_arrays(arrays: Mapping[str, jax.Array], like: Any) -> Any:
    leaves = [
        jax.random.wrap_key_data(arrays[name], impl=jax.random.key_impl(leaf))
        if _is_key(leaf)
        else arrays[name]
        for name, leaf in named_leaves(like).items()
    ]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _describe(array: Any) -> str:
    return f"{array.dtype}{list(array.shape)}"


def _check_arrays(stored: Mapping[str, Any], wanted: Mapping[str, Any], where: Path) -> None:
    """Raises one InputError that lists the arrays whose presence, shape or dtype differ."""
    problems = []
    for name in [*wanted, *(name for name in stored if name not in wanted)]:
        there = _describe(stored[name]) if name in stored else "absent"
        here = _describe(wanted[name]) if name in wanted else "absent"
        if there != here:
            problems.append(f"{name} ({there} there, {here} here)")
    if problems:
        more = len(problems) - _MOST_LISTED
        listed = "; ".join(problems[:_MOST_LISTED]) + (f"; and {more} more" if more > 0 else "")
        raise InputError(f"{where}: checkpoint of another model or optimiser: {listed}")


def _abstract(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """What Orbax is to read: the wanted arrays, placed as they are; it skips all others."""
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


class _Position:
    """Where a Grain iterator stands, also as another number of processes has left it.

    Each process writes its own file. Without one of its own, all that there are have to say the
    same, as they do where processes read parts of the same batches.

    Args:
        batches: the iterator.
    """

    def __init__(self, batches: Any) -> None:
        self._batches = batches
        self._found: list[Any] = []

    async def save(self, directory: Any) -> Any:
        return await self._batches.save(directory)

    async def load(self, directory: Any) -> Any:
        return asyncio.to_thread(self._read, Path(directory))

    def _read(self, folder: Path) -> None:
        own = folder / f"process_{jax.process_index()}-of-{jax.process_count()}.json"
        files = [own] if own.exists() else sorted(folder.glob("process_*.json"))
        self._found = [json.loads(file.read_text("utf-8")) for file in files]

    def take_up(self, where: Path) -> None:
        """Moves the iterator there. Apart from `load`, whose errors Orbax reports as its own."""
        if not self._found or any(state != self._found[0] for state in self._found):
            raise InputError(
                f"{where}: expected a position in the data that {jax.process_count()} processes "
                f"can go on from, found different ones of {len(self._found)} processes"
            )
        self._batches.set_state(self._found[0])


def _open(folder: Path, keep: int) -> ocp.training.Checkpointer:
    # Any: Orbax annotates its own policies more narrowly than its constructor asks for.
    newest: Any = ocp.training.preservation_policies.LatestN(keep)
    return ocp.training.Checkpointer(
        str(folder.absolute()), preservation_policy=newest, cleanup_tmp_directories=True
    )


class _Series:
    """Checkpoints that follow one another in a folder, the newest of them kept."""

    def __init__(self, folder: Path, keep: int) -> None:
        self._folder = folder
        self._checkpointer = _open(folder, keep)
        self._recorder = ThreadPoolExecutor(1)
        self._recorded: Future[None] | None = None

    def newest(self) -> int | None:
        latest = self._checkpointer.latest
        return None if latest is None else latest.step

    def save(self, number: int, content: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Returns once the content is copied off the devices; checksums follow when it is saved.

        A checkpoint of the same number is replaced.
        """
        self.wait()
        with _one_error(self._folder):
            _check_space(self._folder, content["state"].values())
            response = self._checkpointer.save_checkpointables_async(
                number, content, force=True, overwrite=True, custom_metadata=metadata
            )
        self._recorded = self._recorder.submit(self._record, number, response)

    def _record(self, number: int, response: Any) -> None:
        response.result()  # complete: all processes have written their parts
        if is_primary():
            write_checksums(self._folder / str(number))

    def wait(self) -> None:
        """Returns when nothing is being saved.

        Raises:
            OSError: the last save failed, for want of space, say.
        """
        if self._recorded is not None:
            recorded, self._recorded = self._recorded, None
            with _one_error(self._folder):
                recorded.result()

    def close(self) -> None:
        try:
            self.wait()
        finally:
            self._recorder.shutdown()
            with _one_error(self._folder):
                self._checkpointer.close()


@contextlib.contextmanager
def _one_error(folder: Path) -> Iterator[None]:
    """Turns what Orbax and TensorStore raise on a full disk, an error per array, into one."""
    try:
        yield
    except Exception as error:
        reason = out_of_space(error)
        if reason is None:
            raise
        raise OSError(reason, f"{os.strerror(reason)}, no checkpoint saved", str(folder)) from None


def _check_space(folder: Path, arrays: Iterable[jax.Array]) -> None:
    """Raises what a full disk would, before anything is written to it."""
    needed = sum(array.nbytes for array in arrays)
    if jax.process_count() == 1 and shutil.disk_usage(folder).free < needed:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextlib.contextmanager
def _quiet_failures() -> Iterator[None]:
    """Keeps what background threads say about a full disk off stderr; the error itself is raised.

    Orbax logs a stack trace for each of its threads, and TensorStore reports arrays to an event
    loop that the first failure has closed. After a failure such reports may still come.
    """

    def is_news(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return out_of_space(error) is None and out_of_space(OSError(record.getMessage())) is None

    before = sys.unraisablehook

    def report(unraisable: Any) -> None:
        if str(unraisable.exc_value) != "Event loop is closed":
            before(unraisable)

    logger = logging.getLogger("absl")
    logger.addFilter(is_news)
    sys.unraisablehook = report
    try:
        yield
    except OSError:
        raise
    except BaseException:
        logger.removeFilter(is_news)
        sys.unraisablehook = before
        raise
    else:
        logger.removeFilter(is_news)
        sys.unraisablehook = before


def out_of_space(error: BaseException | None) -> int | None:
    """The `errno` of a full disk, an exhausted quota or a size limit behind an error, or None.

    Example:
        >>> out_of_space(ValueError("write failed [OS error 28: ENOSPC No space left on device]"))
        28
        >>> out_of_space(KeyError("x"))
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


@dataclasses.dataclass(frozen=True)
class _Found:
    """The newest checkpoint that can be used, and what is wrong with newer ones."""

    path: Path | None
    damaged: dict[Path, str]
    unchecked: bool = False


def _numbers(folder: Path) -> list[int]:
    return sorted((int(p.name) for p in folder.glob("*") if p.name.isdigit()), reverse=True)


def _find(folder: Path) -> _Found:
    """Reads every byte of the checkpoint that it finds, to compare checksums."""
    damaged: dict[Path, str] = {}
    for place, number in enumerate(_numbers(folder)):
        path = folder / str(number)
        if has_checksums(path):
            try:
                verify_checksums(path)
            except InputError as error:
                damaged[path] = str(error)
                continue
            return _Found(path, damaged)
        # Without checksums: of version 0.1.0, or saved by a process that was killed before it
        # had written them. An older one may also be what is left of one that was being deleted.
        if place == 0 and (path / _COMPLETE).is_file():
            return _Found(path, damaged, unchecked=True)
    return _Found(None, damaged)


class RunCheckpoints:
    """The checkpoints of one run, `last` and `best`; leaving the context waits for pending saves.

    Args:
        directory: the run's folder.
        fingerprint: the settings of the run as text by name; stored with every checkpoint, and
            a run with other settings refuses to resume.
    """

    def __init__(self, directory: str | Path, fingerprint: Mapping[str, str]) -> None:
        self.fingerprint = dict(fingerprint)
        self._directory = Path(directory)
        self._opened: dict[str, _Series] = {}
        self._entered = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._entered.enter_context(_quiet_failures())
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: Any) -> None:
        with contextlib.ExitStack() as closing:
            closing.push(self._entered)
            if kind is not None:  # the error that ends the run is the one to show
                closing.enter_context(contextlib.suppress(OSError))
            for series in self._opened.values():
                closing.callback(series.close)

    def _series(self, name: Literal["last", "best"]) -> _Series:
        # Opened when something is saved: a run that cannot resume leaves its folder as it is.
        if name not in self._opened:
            self._opened[name] = _Series(self._directory / name, keep=2 if name == "last" else 1)
        return self._opened[name]

    def _metadata(self, progress: Mapping[str, Any]) -> dict[str, Any]:
        return {"format": FORMAT, "fingerprint": self.fingerprint, "progress": dict(progress)}

    def save_last(self, state: TrainState, batches: Any, progress: Mapping[str, Any]) -> None:
        """Saves all that resuming needs; returns once it is copied off the devices.

        Args:
            state: after step n.
            batches: Grain `DatasetIterator` whose next batch is that of step n + 1; every
                process saves its own position.
            progress: the loop's bookkeeping, JSON values.

        Raises:
            OSError: the disk is full; of this save, or of the one before.
        """
        self._series("last").save(
            int(state.step),
            {"state": _to_arrays(state), "data": _Position(batches)},
            self._metadata(progress),
        )

    def save_best(self, params: Any, step: int, progress: Mapping[str, Any]) -> None:
        """Replaces the best parameters; returns once they are on disk.

        Args:
            params: what evaluation measured.
            step: updates made. A resumed run may reach the same best step again; it then saves
                under the next number, because of `best` only one is kept, and replacing it would
                leave a moment in which there is none.
            progress: the loop's bookkeeping, JSON values.

        Raises:
            OSError: the disk is full.
        """
        series = self._series("best")
        newest = series.newest()
        number = step if newest is None else max(step, newest + 1)
        series.save(number, {"state": _to_arrays({"params": params})}, self._metadata(progress))
        series.wait()

    def restore(self, like: TrainState, batches: Any) -> tuple[TrainState, dict[str, Any]] | None:
        """The state and bookkeeping of `last`, or None if there is none; moves `batches` there.

        If the newest checkpoint is damaged, this says so on stderr, uses the one before, and
        deletes the damaged one.

        Args:
            like: a freshly initialised state; gives structure, shapes, dtypes and placement.
            batches: the run's iterator, its position is set.

        Raises:
            InputError: if the checkpoint is of a run configured otherwise (names the fields),
                of another model or optimiser (names the arrays), or of other processes that
                were at different places of their data; or if all checkpoints are damaged.
        """
        folder = self._directory / "last"
        found = _Found(None, {})

        def number() -> int:
            nonlocal found
            found = _find(folder)
            if found.path is None and found.damaged:
                raise InputError(
                    f"{'; '.join(found.damaged.values())}; there is no other checkpoint to resume "
                    f"from: remove {folder} to start the run again"
                )
            return -1 if found.path is None else int(found.path.name)

        step = primary_decides(number)
        if step < 0:
            return None
        where = folder / str(step)
        metadata = ocp.metadata(str(where.absolute()))
        stored: Any = metadata.custom_metadata
        if stored.get("format") != FORMAT:
            raise InputError(
                f"{where}: cannot resume a run of format {stored.get('format', 1)}, this version "
                f"writes {FORMAT}; use the version that started it, or another folder "
                "(evaluate and predict can read it)"
            )
        check_same(stored["fingerprint"], self.fingerprint, where)
        wanted = _to_arrays(like)
        _check_arrays(metadata.metadata, wanted, where)
        self._warn(found, step)
        position = _Position(batches)
        loaded = ocp.load_checkpointables(
            str(where.absolute()),
            {"state": _abstract(metadata.metadata, wanted), "data": position},
        )
        position.take_up(where)
        primary_decides(lambda: _remove(found.damaged))
        return _from_arrays(loaded["state"], like), stored["progress"]

    def _warn(self, found: _Found, step: int) -> None:
        for problem in found.damaged.values():
            print(f"warning: {problem}; resuming from step {step}", file=sys.stderr)
        if found.unchecked:
            print(f"warning: {found.path}: has no checksums, not checked", file=sys.stderr)


def _remove(paths: Iterable[Path]) -> int:
    for path in paths:
        shutil.rmtree(path)
    return 0


def load_params(folder: str | Path, like: Any) -> Any:
    """The parameters in `<run>/best` or `<run>/last`, for evaluation and prediction.

    Where the run keeps an average of its parameters, it is the average that is loaded, from
    either folder.

    Args:
        folder: one of the two folders that `train` writes.
        like: pytree of arrays or `jax.ShapeDtypeStruct`; gives structure, shapes, dtypes and
            (where its leaves have one, else the first device) placement.

    Raises:
        InputError: if there is no checkpoint, a damaged one (names the file), or one of another
            model (names the parameters).

    Example:
        >>> load_params("no-such-run/best", like={})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        hardem_jax.errors.InputError: no-such-run/best: expected a folder with a checkpoint...
    """
    folder = Path(folder)
    where = folder / str(primary_decides(lambda: _newest_undamaged(folder)))
    stored: Any = ocp.metadata(str(where.absolute())).metadata
    root = _root_of_params(stored)
    wanted = {
        root + name.removeprefix("params"): leaf
        for name, leaf in _to_arrays({"params": like}).items()
    }
    there = {n: a for n, a in stored.items() if n == root or n.startswith(root + ".")}
    _check_arrays(there, wanted, where)
    loaded = ocp.load(str(where.absolute()), _abstract(stored, wanted))
    arrays = {"params" + name.removeprefix(root): loaded[name] for name in wanted}
    return _from_arrays(arrays, {"params": like})["params"]


def _newest_undamaged(folder: Path) -> int:
    if not folder.is_dir():
        raise InputError(f"{folder}: expected a folder with a checkpoint, found none")
    found = _find(folder)
    if found.damaged:
        raise InputError("; ".join(found.damaged.values()))
    if found.path is None:
        raise InputError(f"{folder}: expected a folder with a checkpoint, found none in it")
    return int(found.path.name)


def _root_of_params(stored: Iterable[str]) -> str:
    """Where the parameters to evaluate are: under `averaged_params` of a state, or `params`."""
    return next((found[1] for name in stored if (found := _AVERAGE.match(name))), "params")
