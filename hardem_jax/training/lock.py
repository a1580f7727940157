"""A lock on a run's folder, so that two processes never write to one run."""

from __future__ import annotations

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
#: What file systems without locks answer.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder, which must exist, until the context ends or the process does.

    The lock belongs to the kernel (`flock`), which releases it however the process ends; the
    file ``lock.json`` stays and only says who held it last.

    Raises:
        InputError: another process holds the folder; names its host, id and start time.
        OSError: the folder cannot be written to.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with locked(folder), locked(folder):  # doctest: +ELLIPSIS
        ...     pass
        Traceback (most recent call last):
        ...
        hardem_jax.errors.InputError: ...: in use by process ... on ..., since ...
    """
    with open(folder / LOCK_FILE, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise InputError(f"{folder}: in use by {_owner(file.read())}") from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            print(f"warning: {folder}: cannot be locked ({error.strerror})", file=sys.stderr)
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": _now()}
        file.truncate(0)
        file.write(json.dumps(owner) + "\n")
        file.flush()
        yield


def _owner(text: str) -> str:
    try:
        owner = json.loads(text)
        return f"process {owner['pid']} on {owner['host']}, since {owner['since']}"
    except (ValueError, KeyError, TypeError):  # read before its owner had written it
        return "another process"


def _now() -> str:
    return datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
