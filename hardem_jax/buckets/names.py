"""Addresses in buckets, and the local folders that stand for them in messages and records.

A command line names a folder as ``gs://bucket/folder``. While a command runs, a local folder takes
its place; what the command prints or records names the address again.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hardem_jax.errors import InputError

#: Where the copies lie, in place of ``hardem_jax/buckets`` in the user's cache folder.
VARIABLE = "HARDEM_JAX_BUCKETS"
# Pathlib folds the two slashes.
_ADDRESS = re.compile(r"(gs|s3):/+([^/]*)/*(.*?)/*")
_OTHER = re.compile(r"([a-z][a-z0-9+.-]+):/")
#: What both clouds allow, dots aside; in particular no "user:password@".
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]+")
_shown: dict[str, str] = {}
#: Local folder -> its `hardem_jax.buckets.mirror.Mirror` in a bucket, while it is written.
mirrors: dict[Path, Any] = {}


def address(path: object) -> str | None:
    """The address that a path of a command line stands for; None for a path on a disk.

    Example:
        >>> address(Path("gs://bucket/runs/1")), address("s3://bucket"), address("runs/1")
        ('gs://bucket/runs/1', 's3://bucket', None)
    """
    match = _ADDRESS.fullmatch(str(path)) if isinstance(path, (str, Path)) else None
    if match is None:
        if isinstance(path, Path) and (other := _OTHER.match(str(path))):
            expected = "a path on a disk, gs:// or s3://"
            raise InputError(f"{path}: expected {expected}, found {other[1]}://")
        return None
    scheme, bucket, key = match.groups()
    if not _BUCKET.fullmatch(bucket):  # not repeated, for it may hold a password
        expected = "expected letters, digits, dots, dashes and underscores"
        raise InputError(f"{scheme}://: {expected} as the name of a bucket, found something else")
    return f"{scheme}://{bucket}/{key}" if key else f"{scheme}://{bucket}"


def one_address(where: str) -> str:
    """The one way to write an address: without slashes at its end."""
    return address(where) or where.rstrip("/")


def root() -> Path:
    """The local folder of all copies: ``HARDEM_JAX_BUCKETS``, or one in the user's cache folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get(VARIABLE) or cache / "hardem_jax" / "buckets").resolve()


def stands_for(folder: Path, where: str) -> None:
    """From now on `shown` writes the address in place of the folder."""
    _shown[str(folder)] = where


def shown(text: object) -> str:
    """The text with addresses in place of the local folders that stand for them.

    Example:
        >>> stands_for(Path("/copies/1/run"), "s3://bucket/run")
        >>> shown(Path("/copies/1/run/config.json")), shown("/copies/1/runs: in use")
        ('s3://bucket/run/config.json', '/copies/1/runs: in use')
    """
    text = str(text)
    for folder in sorted(_shown, key=len, reverse=True):
        if folder in text:
            where = _shown[folder]
            text = re.sub(re.escape(folder) + r"(?![\w-])", lambda _, to=where: to, text)
    return text


def publish(folder: Path) -> None:
    """Brings the bucket up to date, if a folder, or one that it lies in, stands for one there. Call
    it while no checkpoint is being written."""
    for place in (folder, *folder.parents):
        if place in mirrors:
            return mirrors[place].publish()
