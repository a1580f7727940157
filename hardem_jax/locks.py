"""A lock that keeps two processes from writing to the same folder."""

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

from hardem_jax.errors import InputError

LOCK_FILE = "lock.json"
#: Errors from file systems without lock support.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Locks an existing folder until the context or the process ends.

    The kernel (`flock`) releases the lock however the process ends. ``lock.json`` in the folder
    names the owner; a killed process leaves the file, but no lock on it. On a file system without
    locks, a warning goes to stderr.

    Raises:
        InputError: another process holds the lock (names its id, host and start time), or
            the folder cannot be written to.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with locked(folder), locked(folder):  # doctest: +ELLIPSIS
        ...     pass
        Traceback (most recent call last):
        ...
        hardem_jax.errors.InputError: ...: in use by process ... on ..., since ...
    """
    handle = _hold(folder)
    try:
        with _writing(folder):
            owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": _now()}
            os.ftruncate(handle, 0)
            os.write(handle, json.dumps(owner).encode() + b"\n")
        yield
    finally:
        if _is_lock_file(folder, handle):
            (folder / LOCK_FILE).unlink()
        os.close(handle)


def _hold(folder: Path) -> int:
    """Returns the descriptor of the open, locked lock file."""
    while True:
        with _writing(folder):
            handle = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(folder, handle)
        except BaseException:
            os.close(handle)
            raise
        if _is_lock_file(folder, handle):
            return handle
        os.close(handle)  # the previous owner removed the file after it was opened here


def _lock(folder: Path, handle: int) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"{folder}: in use by {_owner(os.read(handle, 1000))}") from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise InputError(f"{folder}: cannot be locked ({error.strerror})") from error
        print(f"warning: {folder}: cannot be locked ({error.strerror})", file=sys.stderr)


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from error


def _is_lock_file(folder: Path, handle: int) -> bool:
    # The folder may have been deleted, and even recreated by another process.
    try:
        return os.path.samestat(os.fstat(handle), os.stat(folder / LOCK_FILE))
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
