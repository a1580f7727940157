"""Locks that keep two processes from the same folder, or from the same piece of work in it."""

import contextlib
import errno
import fcntl
import json
import os
import socket
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from hardem_jax.errors import InputError, check_unicode

LOCK_FILE = "lock.json"
#: Errors from file systems without lock support.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)


class InUse(InputError):
    """Another process holds the lock."""


@contextlib.contextmanager
def locked(folder: Path, name: str = LOCK_FILE, *, wait: bool = False) -> Iterator[None]:
    """Locks an existing folder, or something in it, until the context or the process ends.

    The kernel (`flock`) releases the lock however the process ends. A file in the folder names
    the owner; a killed process leaves the file, but no lock on it. On a file system without
    locks, a warning goes to stderr.

    Args:
        folder: an existing folder.
        name: of the lock file; locks with different names are independent.
        wait: wait for the other process to end instead of raising `InUse`.

    Raises:
        InUse: another process holds the lock (names its id, host and start time).
        InputError: the folder cannot be written to, or its name is not UTF-8, which the libraries
            that write checkpoints and records need.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with locked(folder), locked(folder):  # doctest: +ELLIPSIS
        ...     pass
        Traceback (most recent call last):
        ...
        hardem_jax.locks.InUse: ...: in use by process ... on ..., since ...
    """
    check_unicode(str(folder), "folder")
    file = folder / name
    handle = _hold(file, wait)
    try:
        with _writing(folder):
            owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": _now()}
            os.ftruncate(handle, 0)
            os.write(handle, json.dumps(owner).encode() + b"\n")
        yield
    finally:
        if _is_lock_file(file, handle):
            file.unlink()
        os.close(handle)


def _hold(file: Path, wait: bool) -> int:
    """Returns the descriptor of the open, locked lock file."""
    while True:
        with _writing(file.parent):
            handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(file, handle, wait)
        except BaseException:
            os.close(handle)
            raise
        if _is_lock_file(file, handle):
            return handle
        os.close(handle)  # the previous owner removed the file after it was opened here


def _lock(file: Path, handle: int, wait: bool) -> None:
    # Messages name what users know: the folder, or the thing in it that the lock is named after.
    locked_thing = file.parent if file.name == LOCK_FILE else file
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InUse(f"{locked_thing}: in use by {_owner(os.read(handle, 1000))}") from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise InputError(f"{locked_thing}: cannot be locked ({error.strerror})") from error
        print(f"warning: {locked_thing}: cannot be locked ({error.strerror})", file=sys.stderr)


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from error


def _is_lock_file(file: Path, handle: int) -> bool:
    # The folder may have been deleted, and even recreated by another process.
    try:
        return os.path.samestat(os.fstat(handle), os.stat(file))
    except FileNotFoundError:
        return False


def _owner(text: bytes) -> str:
    try:
        owner = json.loads(text)
        return f"process {owner['pid']} on {owner['host']}, since {owner['since']}"
    except (ValueError, KeyError, TypeError):  # read before the owner wrote it
        return "another process"


def _now() -> str:
    return datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
