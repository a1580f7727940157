"""Checkpoints on disk: a thin layer over Orbax, so that the rest of the project never sees its API.

A run folder holds `last/` (all that resuming needs) and `best/` (parameters
only), one checkpoint each. A checkpoint appears under its final name only when
it is complete, and the one before is deleted after that; a process killed at
any moment, in the middle of a save too, leaves a folder that loads.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import jax
import jax.numpy as jnp
from orbax.checkpoint import v1 as ocp

from hardem_jax.errors import InputError
from hardem_jax.training.names import named_leaves
from hardem_jax.training.state import TrainState

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


def _open(folder: Path) -> ocp.training.Checkpointer:
    # Any: Orbax annotates its own policies more narrowly than its constructor asks for.
    keep_one: Any = ocp.training.preservation_policies.LatestN(1)
    return ocp.training.Checkpointer(
        str(folder.absolute()), preservation_policy=keep_one, cleanup_tmp_directories=True
    )


class RunCheckpoints:
    """The checkpoints of one run, `last` and `best`; leaving the context waits for pending saves.

    Args:
        directory: the run's folder.
        fingerprint: what the run was configured with, as text by field name; stored with
            every checkpoint, and a run with another one refuses to resume.
    """

    def __init__(self, directory: str | Path, fingerprint: Mapping[str, str]) -> None:
        self.fingerprint = dict(fingerprint)
        self._last = _open(Path(directory) / "last")
        self._best = _open(Path(directory) / "best")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._last.close()
        self._best.close()

    def _metadata(self, progress: Mapping[str, Any]) -> dict[str, Any]:
        return {"fingerprint": self.fingerprint, "progress": dict(progress)}

    def save_last(self, state: TrainState, batches: Any, progress: Mapping[str, Any]) -> None:
        """Saves all that resuming needs; returns once it is copied off the devices.

        Args:
            state: after step n.
            batches: Grain `DatasetIterator` whose next batch is that of step n + 1; every
                process saves its own position.
            progress: the loop's bookkeeping, JSON values.
        """
        self._last.save_checkpointables_async(
            int(state.step),
            {"state": _to_arrays(state), "data": _Position(batches)},
            force=True,
            custom_metadata=self._metadata(progress),
        )

    def save_best(self, params: Any, progress: Mapping[str, Any]) -> None:
        """Replaces the best parameters; returns once they are on disk.

        Numbered 0, 1, 2 ... in the order of saving and not by step: a resumed
        run may reach the same best step again, and replacing a folder of the
        same name could not be done without a moment in which there is none.
        """
        latest = self._best.latest
        self._best.save_checkpointables(
            0 if latest is None else latest.step + 1,
            {"state": _to_arrays({"params": params})},
            force=True,
            custom_metadata=self._metadata(progress),
        )

    def restore(self, like: TrainState, batches: Any) -> tuple[TrainState, dict[str, Any]] | None:
        """The state and bookkeeping of `last`, or None if there is none; moves `batches` there.

        Args:
            like: a freshly initialised state; gives structure, shapes, dtypes and placement.
            batches: the run's iterator, its position is set.

        Raises:
            InputError: if the checkpoint is of a run configured otherwise (names the fields),
                of another model or optimiser (names the arrays), or of other processes that
                were at different places of their data.
        """
        if self._last.latest is None:
            return None
        step = self._last.latest.step
        where = Path(self._last.directory) / str(step)
        found = self._last.metadata(step)
        stored: Any = found.custom_metadata
        _check_fingerprint(stored["fingerprint"], self.fingerprint, where)
        wanted = _to_arrays(like)
        _check_arrays(found.metadata, wanted, where)
        position = _Position(batches)
        loaded = self._last.load_checkpointables(
            step, {"state": _abstract(found.metadata, wanted), "data": position}
        )
        position.take_up(where)
        return _from_arrays(loaded["state"], like), stored["progress"]


def _check_fingerprint(stored: Mapping[str, str], ours: Mapping[str, str], where: Path) -> None:
    names = [*ours, *(name for name in stored if name not in ours)]
    differing = [
        f"{name} ({stored.get(name, 'absent')} there, {ours.get(name, 'absent')} here)"
        for name in names
        if stored.get(name) != ours.get(name)
    ]
    if differing:
        raise InputError(
            f"{where}: cannot resume, the run was started with other settings: "
            f"{'; '.join(differing)}; use the same settings or another folder"
        )


def load_params(folder: str | Path, like: Any) -> Any:
    """The parameters in `<run>/best` or `<run>/last`, for evaluation and prediction.

    Where the run keeps an average of its parameters, it is the average that is loaded, from
    either folder.

    Args:
        folder: one of the two folders that `train` writes.
        like: pytree of arrays or `jax.ShapeDtypeStruct`; gives structure, shapes, dtypes and
            (where its leaves have one, else the first device) placement.

    Raises:
        InputError: if there is no checkpoint, or one of another model (names the parameters).

    Example:
        >>> load_params("no-such-run/best", like={})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        hardem_jax.errors.InputError: no-such-run/best: expected a folder with a checkpoint...
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: expected a folder with a checkpoint, found none")
    with ocp.training.Checkpointer(str(folder.absolute())) as checkpointer:
        if checkpointer.latest is None:
            raise InputError(f"{folder}: expected a folder with a checkpoint, found none in it")
        step = checkpointer.latest.step
        stored: Any = checkpointer.metadata(step).metadata
        where = folder / str(step)
        root = _root_of_params(stored)
        wanted = {
            root + name.removeprefix("params"): leaf
            for name, leaf in _to_arrays({"params": like}).items()
        }
        there = {n: a for n, a in stored.items() if n == root or n.startswith(root + ".")}
        _check_arrays(there, wanted, where)
        loaded = checkpointer.load(step, _abstract(stored, wanted))
        arrays = {"params" + name.removeprefix(root): loaded[name] for name in wanted}
        return _from_arrays(arrays, {"params": like})["params"]


def _root_of_params(stored: Iterable[str]) -> str:
    """Where the parameters to evaluate are: under `averaged_params` of a state, or `params`."""
    return next((found[1] for name in stored if (found := _AVERAGE.match(name))), "params")
