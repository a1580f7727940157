"""Files and folders that appear whole or not at all, and JSON in them."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hardem_jax.checksums import (
    MANIFEST,
    has_checksums,
    recorded_files,
    verify_checksums,
    write_checksums,
)
from hardem_jax.errors import InputError, found_by
from hardem_jax.locks import LOCK_FILE, locked


@contextlib.contextmanager
def new_folder(folder: Path, *, format: str, replace: bool = False) -> Iterator[Path]:
    """A folder to write into, which gets its name only when the block ends without an error.

    It is written as ``<folder>.partial/new``, which is removed after an error or an
    interruption, and by the next call after a kill. Files are recorded by checksum.

    Args:
        folder: to be created; it may exist if it is empty.
        format: of ``meta.json``, which the block writes: a kind and a version.
        replace: whether a complete folder of the same kind is replaced, when the new one is
            complete. Anything else is never touched.

    Raises:
        InputError: ``folder`` exists, another process is writing it, or it cannot be written
            (no permission, disk full).
    """
    if os.path.islink(folder) or folder.name in ("", ".."):
        folder = folder.resolve()
    _check_free(folder, format, replace)
    with work_folder(folder) as work:
        new = work / "new"
        new.mkdir()
        yield new
        write_checksums(new)
        _check_free(folder, format, replace)
        if folder.exists():
            folder.rename(work / "old")
        new.rename(folder)


@contextlib.contextmanager
def new_file(file: Path) -> Iterator[Path]:
    """The name of a file to write, which becomes ``file`` when the block ends without an error.

    It is ``<file>.partial/new``, which is removed after an error or an interruption, and by
    the next call after a kill.

    Raises:
        InputError: another process is writing the file, or it cannot be written (no such
            folder, no permission, disk full).

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with new_file(Path(folder, "a.txt")) as partial:
        ...         _ = partial.write_text("Rome")
        ...     Path(folder, "a.txt").read_text()
        'Rome'
    """
    check_writable(file)
    with work_folder(file) as work:
        yield work / "new"
        (work / "new").replace(file)


#: What a disk, its permissions or a name answer.
_CANNOT_WRITE = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES),
    *(errno.EPERM, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EEXIST),
)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Within the block, what keeps ``path`` from being written becomes an `InputError`."""
    try:
        yield
    except OSError as error:
        # Numpy's error for a full disk has a text and no number.
        if error.errno not in _CANNOT_WRITE and "requested and" not in str(error):
            raise
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from error


@contextlib.contextmanager
def work_folder(folder: Path) -> Iterator[Path]:
    """``<folder>.partial``, empty and of this process only; removed at the end.

    The block may write ``new`` in it, which takes the name ``folder``, and put ``old`` there,
    which gets its name back unless ``new`` has it.

    Raises:
        InputError: another process has it, or it cannot be written.
    """
    work = folder.with_name(folder.name + ".partial")
    with writing(folder):
        work.mkdir(parents=True, exist_ok=True)
    try:
        with writing(folder), locked(work):
            if foreign := {entry.name for entry in work.iterdir()} - {"new", "old", LOCK_FILE}:
                raise InputError(
                    f"{work}: expected a folder that a killed run left, found {min(foreign)} in "
                    "it; remove it or choose another --out"
                )
            try:
                _recover(folder, work)
                yield work
            finally:
                _recover(folder, work)
    finally:
        with contextlib.suppress(OSError):  # another process has it, or it holds other files
            work.rmdir()


def _recover(folder: Path, work: Path) -> None:
    """Removes what is half written, and undoes a replacement that was cut short."""
    with contextlib.suppress(OSError):
        (work / "new").unlink()  # a file
    shutil.rmtree(work / "new", ignore_errors=True)
    if (work / "old").exists() and not folder.exists():
        (work / "old").rename(folder)
    shutil.rmtree(work / "old", ignore_errors=True)


def _check_free(folder: Path, format: str, replace: bool) -> None:
    """Raises `InputError` unless a folder of this name may be made."""
    try:
        if not folder.exists():
            return
        if not folder.is_dir():
            raise InputError(f"{folder}: expected the name of a new folder, found a file")
        if folder.is_mount():
            raise InputError(f"{folder}: is a mount point; choose a folder inside it")
        if not any(folder.iterdir()):
            return
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror})") from error
    if foreign := _not_of_kind(folder, format):
        raise InputError(f"{folder}: exists and {foreign}; choose another folder")
    if not replace:
        raise InputError(f"{folder}: exists; choose another folder, or add --force to replace it")


def _not_of_kind(folder: Path, format: str) -> str | None:
    """Why a folder is not one that `new_folder` wrote for this kind of format; None if it is."""
    if not (folder / "meta.json").is_file() or not has_checksums(folder):
        return "was not written by this command"
    meta, kind = read_json(folder / "meta.json"), format.rpartition(" ")[0]
    found = meta.get("format") if isinstance(meta, dict) else None
    if not isinstance(found, str) or found.rpartition(" ")[0] != kind:
        return f"holds {found!r} instead of {format!r}"
    known = recorded_files(folder) | {MANIFEST}
    paths = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())
    foreign = sorted(str(path) for path in paths if str(path) not in known)
    return f"holds {foreign[0]}, which this command did not write" if foreign else None


def read_meta(
    folder: Path,
    *,
    format: str,
    what: str = "a prepared split (run `prepare` first)",
    verify: bool = True,
) -> dict[str, Any]:
    """``meta.json`` of a folder that `new_folder` wrote.

    Args:
        folder: the folder.
        format: that its ``meta.json`` must have.
        what: to call the folder in messages.
        verify: whether every byte of the folder is compared with its checksum, on all cores.

    Raises:
        InputError: the folder is missing or of another format, or a file of it is missing or
            damaged.
    """
    # Without a record it may be of an older format, which the message should say.
    if verify and has_checksums(folder):
        verify_checksums(folder)
    if not os.path.isfile(folder / "meta.json"):  # pathlib's own raises on an over-long name
        raise InputError(f"{folder}: expected {what}, found no complete one")
    meta = read_json(folder / "meta.json")
    found = meta.get("format") if isinstance(meta, dict) else None
    if found != format:
        raise InputError(f"{folder}: expected format {format}, found {found}; prepare it again")
    if not has_checksums(folder):
        raise InputError(f"{folder / MANIFEST}: expected the checksums of the folder, found none")
    return meta


def file_digest(file: Path) -> str:
    """SHA-256 of a file, the first 16 hexadecimal digits."""
    try:
        with open(file, "rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()[:16]
    except OSError as error:
        raise InputError(f"{file}: expected a file, found {found_by(error)}") from error


def read_json(file: Path) -> Any:
    """What `write_json` wrote.

    Raises:
        InputError: the file is missing or holds no JSON.
    """
    try:
        return json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: expected JSON, found {error}") from error


def write_json(file: Path, content: Any) -> None:
    """Write ``content`` indented and in a stable order.

    Raises:
        InputError: the file cannot be written.
    """
    write_text(file, json_text(content))


def json_text(content: Any) -> str:
    """``content`` indented and in a stable order, as files hold it."""
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def write_text(file: Path, text: str) -> None:
    """Write a text file.

    Raises:
        InputError: the file cannot be written.
    """
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be written ({error.strerror})") from error


def check_writable(file: Path) -> None:
    """Checks that a file can be written, before the hours of work whose outcome it is to hold.

    Nothing is created or changed.

    Raises:
        InputError: ``file`` is a folder, its folder is missing, or either may not be written.

    Example:
        >>> check_writable(Path("none/report.json"))
        Traceback (most recent call last):
        ...
        hardem_jax.errors.InputError: none/report.json: cannot be written, its folder does not exist
    """
    try:
        if file.is_dir():
            raise InputError(f"{file}: expected the name of a file, found a folder")
        exists, parent = file.exists(), file.parent
        if not parent.exists():
            raise InputError(f"{file}: cannot be written, its folder does not exist")
        if not parent.is_dir():
            raise InputError(f"{file}: expected a folder before the name, found a file")
        # An existing file is written in place; a new one needs an entry in its folder.
        if not os.access(file if exists else parent, os.W_OK):
            raise InputError(f"{file}: cannot be written (no permission, or a read-only disk)")
        if not exists and len(os.fsencode(file.name)) > os.pathconf(parent, "PC_NAME_MAX"):
            raise InputError(f"{file}: cannot be written ({os.strerror(errno.ENAMETOOLONG)})")
    except OSError as error:
        raise InputError(f"{file}: cannot be written ({error.strerror})") from error


def load_array(file: Path) -> np.ndarray:
    """A ``.npy`` file, mapped into memory and read only where it is looked at.

    Raises:
        InputError: it is missing or damaged.
    """
    try:
        # A plain array over the mapped file, whose parts are cheaper than those of np.memmap.
        return np.asarray(np.load(file, mmap_mode="r"))
    except (OSError, EOFError, ValueError) as error:
        try:
            empty = np.load(file)  # an array without elements cannot be mapped
        except (OSError, EOFError, ValueError):
            empty = None
        if empty is not None and empty.size == 0:
            return empty
        raise InputError(f"{file}: expected an array, found none that can be read") from error
