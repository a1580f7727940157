"""A folder that a command writes, and its image in a bucket.

The bucket decides: a mirror begins as what is complete there, and is brought up to date after each
checkpoint and at the end (`publish`). Every moment is safe to be killed at, for the order is that
in which training writes to a disk: files come first, then the best checkpoint, then the last one,
the checksums of each after everything else of it, for a checkpoint without them is none; what has
gone is deleted at the end, checksums first.

Buckets have no locks that end with their process. A claim, an object ``<folder>.lock.json`` that
names its owner and is rewritten every `BEAT` seconds, keeps two machines from writing to the same
folder. One that stands still belonged to a process that was killed, and is taken over.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import sys
import threading
import time
import uuid
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from hardem_jax.buckets.copies import CHECKPOINTS, checkpoint_of, whole
from hardem_jax.buckets.names import mirrors, one_address, root, stands_for
from hardem_jax.buckets.store import Folder
from hardem_jax.checksums import MANIFEST, recorded_files, verify_checksums
from hardem_jax.errors import InputError
from hardem_jax.locks import LOCK_FILE, InUse, locked, owner, this_process

#: Seconds between two signs of life.
BEAT = 15.0
#: A claim without a sign of life for so many beats is that of a killed process.
_PATIENCE = 3


class Claim:
    """A claim on a folder of a bucket that this process holds; ``disk`` identifies the local folder
    of copies, whose locks have shown that no other process on this disk works on the folder."""

    def __init__(self, folder: Folder, disk: str) -> None:
        self._object, self._where = folder.beside(f".{LOCK_FILE}"), folder.where
        self._ended = threading.Event()
        self._owner = this_process() | {"disk": disk, "claim": uuid.uuid4().hex}

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Claims the folder until the context ends, or raises `InUse` after up to 45 seconds."""
        self._take()
        beating = threading.Thread(target=self._beat, name="claim", daemon=True)
        beating.start()
        try:
            yield
        finally:
            self._ended.set()
            beating.join()
            # One that cannot be deleted now is taken over like that of a killed process.
            with contextlib.suppress(InputError):
                if self._is_ours(self._object.read()):
                    self._object.delete([""])

    def check(self) -> None:
        """Checks that nobody has taken the claim over; call it before every change."""
        if not self._is_ours(found := self._object.read()):
            raise InputError(f"{self._where}: was taken over by {owner(found)}")

    def _take(self) -> None:
        content = self._text(0)
        if self._object.create(content):
            return
        found = self._object.read()
        if _parsed(found).get("disk") != self._owner["disk"]:
            self._wait_for_sign_of_life(found)
        self._object.delete([""])
        if not self._object.create(content):
            raise self._in_use(self._object.read())

    def _wait_for_sign_of_life(self, found: bytes | None) -> None:
        print(f"{self._where}: waiting for a sign of life of {owner(found)}", file=sys.stderr)
        for _ in range(_PATIENCE):
            time.sleep(BEAT)
            now = self._object.read()
            if now is not None and now != found:
                raise self._in_use(now)

    def _in_use(self, found: bytes | None) -> InUse:
        return InUse(f"{self._where}: in use by {owner(found)}")

    def _beat(self) -> None:
        beats = 0
        while not self._ended.wait(BEAT):
            beats += 1
            # What goes wrong here goes wrong at the next upload, too, which reports it.
            with contextlib.suppress(InputError):
                if not self._is_ours(self._object.read()):
                    return
                self._object.write(self._text(beats))

    def _text(self, beats: int) -> bytes:
        return json.dumps(self._owner | {"beats": beats}).encode()

    def _is_ours(self, found: bytes | None) -> bool:
        return _parsed(found).get("claim") == self._owner["claim"]


def _parsed(found: bytes | None) -> dict[str, Any]:
    try:
        content = json.loads(found or b"{}")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


@contextlib.contextmanager
def mirror(where: str) -> Iterator[Path]:
    """A local folder or file that stands for one in a bucket, to read and to write. It need not
    exist. Until the context ends, no other process writes to it."""
    where = one_address(where)
    if where.count("/") < 3:
        raise InputError(f"{where}: expected a folder in the bucket, found the bucket itself")
    # Folders of their own: a folder of the bucket may be inside of another one.
    name = hashlib.sha256(where.encode()).hexdigest()[:16]
    place = root() / "written" / name / where.rpartition("/")[2]
    stands_for(place, where)
    locks = root() / "locks"
    with contextlib.ExitStack() as held:
        try:
            locks.mkdir(parents=True, exist_ok=True)
            place.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{root()}: cannot be written ({error.strerror})") from error
        stands_for(locks / f"{name}.json", where)
        held.enter_context(locked(locks, f"{name}.json"))
        folder = Folder(where)
        claim = Claim(folder, _disk())
        held.enter_context(claim.held())
        image = Mirror(place, folder, claim)
        image.fetch()
        mirrors[place] = image
        held.callback(mirrors.pop, place)
        try:
            yield place
        except BaseException:
            # What ended the command is reported, whether or not this succeeds.
            with contextlib.suppress(InputError):
                image.publish()
            raise
        image.publish()


def _disk() -> str:
    """A name for this folder of copies, whose locks show whether an earlier owner still works."""
    with locked(root(), "name.lock.json", wait=True):
        file = root() / "name"
        name = file.read_text("utf-8") if file.exists() else ""
        if not name:  # also after a kill while it was written
            name = uuid.uuid4().hex
            file.write_text(name, encoding="utf-8")
        return name


class Mirror:
    """A local folder and its image."""

    def __init__(self, place: Path, folder: Folder, claim: Claim) -> None:
        self._place, self._folder, self._claim = place, folder, claim
        # Files that the bucket holds as they were then, and all that has to be deleted with them.
        self._known: dict[str, tuple[int, int]] = {}
        self._there: set[str] = set()
        self._publishing = threading.Lock()

    def fetch(self) -> None:
        """Makes the local folder equal to what is complete in the bucket."""
        found = self._folder.listing()
        wanted = set(whole(found))
        self._there = {name for name in found if name in wanted or checkpoint_of(name)}
        same = self._same_as(wanted)
        for name in self._local():
            if name not in same:
                self._file(name).unlink()
        _remove_empty(self._place)
        try:
            self._folder.download({name: self._file(name) for name in wanted - same})
        except FileNotFoundError:
            raise InputError(f"{self._folder.where}: changes while it is read") from None
        self._known = {n: s for n, s in self._local().items() if n in wanted}

    def publish(self) -> None:
        """Uploads what has changed and deletes what has gone."""
        with self._publishing:
            local = self._local()
            local = {name: local[name] for name in whole(local)}
            changed = [name for name, stat in local.items() if self._known.get(name) != stat]
            gone = self._there - local.keys()
            # Also what is left of a checkpoint that is just being deleted, not of one replaced.
            half = {owner for name in gone if (owner := checkpoint_of(name))}
            half -= {checkpoint_of(name) for name in changed if _is_record(name)}
            gone |= {name for name in self._there if checkpoint_of(name) in half}
            changed = [name for name in changed if name not in gone]
            if not changed and not gone:
                return
            self._claim.check()
            # Until the new checksums are there, a folder has none.
            self._folder.delete(n for n in changed if _is_record(n) and n in self._there)
            for _, names in itertools.groupby(sorted(changed, key=_rank), _rank):
                files = {name: self._file(name) for name in names}
                self._there |= files.keys()
                self._folder.upload(files)
                self._known |= {name: local[name] for name in files}
            self._folder.delete(sorted(gone, key=lambda name: not _is_record(name)))
            self._there -= gone
            for name in gone:
                self._known.pop(name, None)

    def _file(self, name: str) -> Path:
        return self._place / name if name else self._place

    def _local(self) -> dict[str, tuple[int, int]]:
        """Size and time of every file by its name; those that go meanwhile are left out."""
        found = {}
        inside = (Path(parent, x) for parent, _, names in os.walk(self._place) for x in names)
        for file in [self._place] if self._place.is_file() else inside:
            with contextlib.suppress(FileNotFoundError):
                stat = file.stat()
                name = file.relative_to(self._place).as_posix() if file != self._place else ""
                found[name] = (stat.st_size, stat.st_mtime_ns)
        return found

    def _same_as(self, wanted: Collection[str]) -> set[str]:
        """The files that need no download: their checksums are right, and those of the bucket."""
        same: set[str] = set()
        for record in filter(_is_record, wanted):
            file = self._file(record)
            if not file.is_file() or file.read_bytes() != self._folder.read(record):
                continue
            with contextlib.suppress(InputError):  # damaged, so it is downloaded
                verify_checksums(file.parent)
                prefix = record.removesuffix(MANIFEST)
                same |= {prefix + name for name in recorded_files(file.parent)} | {record}
        return same & set(wanted)


def _remove_empty(folder: Path) -> None:
    for parent, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):  # not empty
            os.rmdir(parent)


def _is_record(name: str) -> bool:
    return name.rpartition("/")[2] == MANIFEST


def _rank(name: str) -> tuple[int, bool]:
    """Where a file comes in the order of uploads."""
    owner = checkpoint_of(name)
    return -1 if owner is None else CHECKPOINTS.index(owner.split("/")[-2]), _is_record(name)
