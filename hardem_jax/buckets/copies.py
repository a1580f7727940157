"""Copies of what lies in a bucket, to be read: data, and the run that is evaluated.

A copy is named by what the bucket lists of its objects, sizes and versions, so that it never goes
stale, shared by all commands on this disk, and downloaded once. Copies stay until they are removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath

from hardem_jax.buckets.names import one_address, root, stands_for
from hardem_jax.buckets.store import Folder
from hardem_jax.checksums import MANIFEST
from hardem_jax.errors import InputError
from hardem_jax.locks import LOCK_FILE, locked

#: The folders of a run that hold numbered checkpoints.
CHECKPOINTS = ("best", "last")
_ATTEMPTS = 5


def checkpoint_of(name: str) -> str | None:
    """The folder of the checkpoint that a file of a run belongs to.

    >>> checkpoint_of("mml-0/last/20/state/d/1"), checkpoint_of("last/20"), checkpoint_of("a/b")
    ('mml-0/last/20', None, None)
    """
    parts = name.split("/")
    for n, part in enumerate(parts[:-2]):
        if part in CHECKPOINTS:
            return "/".join(parts[: n + 2])
    return None


def whole(names: Collection[str]) -> list[str]:
    """The names without locks and claims and without checkpoints that are not complete.

    The checksums of a checkpoint are the last of its files to be written and the first to go.

    Example:
        >>> whole(["a", "lock.json", "last/5/d", "last/5/checksums.json", "last/6/d"])
        ['a', 'last/5/d', 'last/5/checksums.json']
    """
    return [
        name
        for name in names
        if not f".{name.rpartition('/')[2]}".endswith(f".{LOCK_FILE}")
        and ((owner := checkpoint_of(name)) is None or f"{owner}/{MANIFEST}" in names)
    ]


def copy(where: str, *, without: Iterable[str] = ()) -> Path:
    """Returns a local copy of a folder or file in a bucket, which nobody may write to."""
    where = one_address(where)
    folder, without = Folder(where), tuple(f"{name}/" for name in without)
    for _ in range(_ATTEMPTS):
        found = folder.listing()
        kept = {name: found[name] for name in whole(found) if not name.startswith(without)}
        if not kept:
            raise InputError(f"{where}: expected a file or folder, found nothing of that name")
        digest = hashlib.sha256(json.dumps([where, sorted(kept.items())]).encode()).hexdigest()
        place = root() / "copies" / digest[:32] / PurePosixPath(where).name
        stands_for(place, where)
        if place.exists():
            return place
        place.parent.mkdir(parents=True, exist_ok=True)
        with locked(place.parent, wait=True):
            if place.exists():
                return place
            partial = place.with_name(place.name + ".partial")
            shutil.rmtree(partial, ignore_errors=True)
            files = {name: partial / "new" / name if name else partial / "new" for name in kept}
            try:
                folder.download(files)
            except FileNotFoundError:  # somebody is writing there
                continue
            now = folder.listing()
            if {name: now.get(name) for name in kept} == kept:
                (partial / "new").rename(place)
                partial.rmdir()
                return place
    raise InputError(f"{where}: changes while it is read; try again")


@contextlib.contextmanager
def run_to_read(where: str, *, without: Iterable[str] = ()) -> Iterator[Path]:
    """A local copy of a run. What the block writes into it beside the checkpoints, such as scores,
    is uploaded when it ends."""
    original = copy(where, without=without)
    if not original.is_dir():
        raise InputError(f"{where}: expected the folder of a run, found a file")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve() / original.name
        folder.mkdir()
        for entry in original.iterdir():
            if entry.is_dir():
                (folder / entry.name).symlink_to(entry)
            else:
                shutil.copy2(entry, folder)
        stands_for(folder, where)
        before = _files(folder)
        yield folder
        changed = _files(folder).items() - before.items()
        Folder(where).upload({file.name: file for file, _ in changed})


def _files(folder: Path) -> dict[Path, tuple[int, int]]:
    stats = {file: file.stat() for file in folder.iterdir() if file.is_file()}
    return {file: (stat.st_size, stat.st_mtime_ns) for file, stat in stats.items()}
