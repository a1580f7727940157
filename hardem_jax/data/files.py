"""Atomic creation of files and folders, and reading and writing of JSON, tables and arrays."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
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
from hardem_jax.data.json_stream import read_json_object
from hardem_jax.errors import InputError, check_unicode, found_by, offered
from hardem_jax.locks import LOCK_FILE, locked


def make_out(folder: Path) -> Path:
    """Creates the folder that ``--out`` names, unless it is there, and returns it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--out: {folder}: expected a folder to write to, found {found_by(error)}"
        ) from error
    return folder


@contextlib.contextmanager
def new_folder(folder: Path, *, format: str, replace: bool = False) -> Iterator[Path]:
    """Yields ``<folder>.partial/new`` to fill, which at the end becomes ``folder``, with checksums.

    It is removed after an error, or after a kill by the next call. The block writes ``format``,
    kind and version, to ``meta.json``. ``replace`` replaces a complete folder of the same kind once
    the new one is, too.
    """
    check_unicode(str(folder), "folder")
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
    """Yields ``<file>.partial/new``, which becomes ``file``, or what it links to, at the end; see
    `new_folder`."""
    if file.is_symlink():
        file = file.resolve()
    check_writable(file)
    if file.exists() and not file.is_file():
        raise InputError(f"{file}: expected the name of a file, found a pipe or a device")
    with work_folder(file) as work:
        yield work / "new"
        (work / "new").replace(file)


#: Error numbers caused by the disk, permissions or the file name, on which a person can act.
CANNOT_WRITE = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES),
    *(errno.EPERM, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EEXIST),
)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns errors that keep ``path`` from being written into an `InputError`."""
    try:
        yield
    except OSError as error:
        # Numpy's error for a full disk has no errno.
        if error.errno not in CANNOT_WRITE and "requested and" not in str(error):
            raise
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from error


@contextlib.contextmanager
def work_folder(folder: Path) -> Iterator[Path]:
    """Creates and locks the empty folder ``<folder>.partial``; removes it at the end. To replace
    ``folder``, the block first moves it to ``old``. It is moved back unless it is replaced."""
    work = folder.with_name(folder.name + ".partial")
    with writing(folder):
        work.mkdir(parents=True, exist_ok=True)
    try:
        with writing(folder), locked(work):
            if foreign := {entry.name for entry in work.iterdir()} - {"new", "old", LOCK_FILE}:
                raise InputError(
                    f"{work}: expected a folder left by a killed run, found {min(foreign)} in it; "
                    "remove it or choose another --out"
                )
            try:
                _recover(folder, work)
                yield work
            finally:
                _recover(folder, work)
    finally:
        with contextlib.suppress(OSError):  # used by another process, or not empty
            work.rmdir()


def _recover(folder: Path, work: Path) -> None:
    """Removes incomplete output and undoes an interrupted replacement."""
    with contextlib.suppress(OSError):
        (work / "new").unlink()  # a file
    shutil.rmtree(work / "new", ignore_errors=True)
    if (work / "old").exists() and not folder.exists():
        (work / "old").rename(folder)
    shutil.rmtree(work / "old", ignore_errors=True)


def _check_free(folder: Path, format: str, replace: bool) -> None:
    """Raises `InputError` unless the folder may be created."""
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
        raise InputError(f"{folder}: cannot be created ({error.strerror})") from error
    if problem := _why_not_replaceable(folder, format):
        raise InputError(f"{folder}: exists and {problem}; choose another folder")
    if not replace:
        raise InputError(f"{folder}: exists; choose another folder, or add --force to replace it")


def _why_not_replaceable(folder: Path, format: str) -> str | None:
    """Returns None if `new_folder` wrote the folder with this kind of format, else a reason."""
    if not (folder / "meta.json").is_file() or not has_checksums(folder):
        return "was not written by this command"
    found = read_json_object(folder / "meta.json").get("format")
    if not isinstance(found, str) or found.rpartition(" ")[0] != format.rpartition(" ")[0]:
        return f"holds {found!r} instead of {format!r}"
    known = recorded_files(folder) | {MANIFEST}
    paths = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())
    foreign = sorted(str(path) for path in paths if str(path) not in known)
    return f"holds {foreign[0]}, which this command did not write" if foreign else None


#: Name in a folder -> what the folder is, and who takes it.
_KINDS = {
    "meta.json": "a prepared split, which commands of documents take, or an index of passages",
    "comparison.json": "what `compare` wrote, whose runs are folders in it",
    "best": "a run",
    "last": "a run",
    "config.json": "an encoder, an exported reader or a run without checkpoints",
    # A folder of builds has them this deep; a search of all that lies below may take minutes.
    **dict.fromkeys(
        ("build.json", "*/build.json", "*/*/build.json", "*/*/*/build.json"),
        "a build, which commands of numbers and tables take, and `experiments.build prepare`",
    ),
}


def kind_of(folder: Path) -> str | None:
    """What a folder of this project is, to complete "expected ..., found ..."; None if unknown."""
    try:
        return next((kind for name, kind in _KINDS.items() if any(folder.glob(name))), None)
    except OSError:  # an over-long name, or a folder that may not be read
        return None


def read_meta(
    folder: Path,
    *,
    format: str,
    file: str = "meta.json",
    what: str = "a prepared split (run `prepare` first)",
    remedy: str = "prepare it again",
    verify: bool = True,
) -> dict[str, Any]:
    """The ``file`` that describes a folder with checksums, which ``verify`` checks; in messages it
    is ``what``, and ``remedy`` says what to do about another format."""
    # A folder without checksums may have an older format, which is then what to report.
    if verify and has_checksums(folder):
        verify_checksums(folder)
    if not os.path.isfile(folder / file):  # pathlib's own raises on an over-long name
        found = kind_of(folder) or f"none or an incomplete one{offered(folder, file)}"
        raise InputError(f"{folder}: expected {what}, found {found}")
    meta = read_json_object(folder / file)
    if (found := meta.get("format")) != format:
        raise InputError(f"{folder}: expected format {format}, found {found}; {remedy}")
    if not has_checksums(folder):
        raise InputError(f"{folder / MANIFEST}: expected checksums of the folder, found no file")
    return meta


def file_digest(file: Path) -> str:
    """Returns the first 16 hexadecimal digits of a file's SHA-256."""
    try:
        with open(file, "rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()[:16]
    except OSError as error:
        raise InputError(f"{file}: expected a file, found {found_by(error)}") from error


def read_json(file: Path) -> Any:
    """Reads a JSON file; `InputError` if it is missing or not JSON."""
    try:
        return json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: expected JSON, found {error}") from error


def write_json(file: Path, content: Any) -> None:
    """Writes ``content`` as indented JSON with sorted keys."""
    write_text(file, json_text(content))


def json_text(content: Any) -> str:
    """Returns ``content`` as `write_json` writes it."""
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def markdown_rows(rows: Sequence[Sequence[Any]]) -> str:
    """Rows of cells as a Markdown table; the first is its head."""
    lines = []
    for row in rows:
        texts = (str(cell).replace("|", "\\|").replace("\n", " ") for cell in row)
        lines.append("".join(f"| {text} " if text else "| " for text in texts) + "|\n")
    return "".join([lines[0], f"|{'---|' * len(rows[0])}\n", *lines[1:]])


def write_text(file: Path, text: str) -> None:
    """Writes a UTF-8 text file."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be written ({error.strerror})") from error


def check_writable(file: Path) -> None:
    """Raises `InputError` if a file cannot be written, without creating it, before hours of
    work."""
    try:
        if file.is_dir():
            raise InputError(f"{file}: expected the name of a file, found a folder")
        exists, parent = file.exists(), file.parent
        if not parent.exists():
            raise InputError(f"{file}: cannot be written, its folder does not exist")
        if not parent.is_dir():
            raise InputError(f"{file}: expected {parent} to be a folder, found a file")
        # An existing file is overwritten in place; a new one requires a writable folder.
        if not os.access(file if exists else parent, os.W_OK):
            raise InputError(f"{file}: cannot be written (no permission, or a read-only disk)")
        if not exists and len(os.fsencode(file.name)) > os.pathconf(parent, "PC_NAME_MAX"):
            raise InputError(f"{file}: cannot be written ({os.strerror(errno.ENAMETOOLONG)})")
    except OSError as error:
        raise InputError(f"{file}: cannot be written ({error.strerror})") from error


def load_array(file: Path) -> np.ndarray:
    """Memory-maps a ``.npy`` file."""
    try:
        with contextlib.suppress(ValueError):  # an array without elements cannot be mapped
            # A plain array over the mapped file, because slicing np.memmap is slower.
            return np.asarray(np.load(file, mmap_mode="r"))
        if (empty := np.load(file)).size == 0:
            return empty
        raise ValueError("is not as long as its header says")
    except (OSError, EOFError, ValueError) as error:
        raise InputError(f"{file}: expected an array, found a damaged file") from error
