"""Locks that keep two processes from the same folder, or from the same piece of work in it."""

import contextlib
import errno
import json
import os
import socket
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from hardem_jax.errors import InputError, check_unicode

LOCK_FILE = "lock.json"
#: Errors from file systems without lock support.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)


class InUse(InputError):
    """Another process holds the lock."""


@contextlib.contextmanager
def locked(folder: Path, name: str = LOCK_FILE, *, wait: bool = False) -> Iterator[None]:
    """Locks an existing folder, or something in it, until the context or the process ends.

    The kernel (`flock`) releases the lock however the process ends. A file in the folder names the
    owner; a killed process leaves the file, but no lock on it. On a file system without locks, a
    warning goes to stderr. Raises `InUse`, or waits for the other's end if ``wait``.
    """
    check_unicode(str(folder), "folder")
    file = folder / name
    # Messages name what users know: the folder, or the thing in it that the lock is named after.
    locked_thing = folder if name == LOCK_FILE else file
    lock = FileLock(file, timeout=-1 if wait else 0, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        content = None
        with contextlib.suppress(OSError):  # it has just ended
            content = file.read_bytes()
        raise InUse(f"{locked_thing}: in use by {owner(content)}") from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise InputError(f"{folder}: cannot be written ({error.strerror})") from error
        print(f"warning: {locked_thing}: cannot be locked ({error.strerror})", file=sys.stderr)
    ours = os.stat(file)
    try:
        try:
            file.write_text(json.dumps(this_process()) + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"{folder}: cannot be written ({error.strerror})") from error
        yield
    finally:
        # The folder may have been deleted, and even recreated by another process.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(ours, os.stat(file)):
                file.unlink()  # filelock sees that a file it has locked is gone, and tries again
        lock.release()


def this_process() -> dict[str, Any]:
    """What a lock says about its owner, as JSON."""
    since = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since}


def owner(content: bytes | None) -> str:
    """The owner of a lock with this content, for people."""
    try:
        found = json.loads(content or b"")
        return f"process {found['pid']} on {found['host']}, since {found['since']}"
    except (ValueError, KeyError, TypeError):  # it has ended, or not written it yet
        return "another process"
