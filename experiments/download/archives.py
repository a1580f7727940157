"""Unpacking archives from the internet."""

from __future__ import annotations

import lzma
import shutil
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from hardem_jax.errors import InputError

_DAMAGED = (
    tarfile.FilterError,
    tarfile.TarError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
)


def unpack(archive: Path, folder: Path, *, strip: bool) -> None:
    """Unpacks a tar or zip archive; what is below ``folder`` already may be replaced.

    Members are moved there after all of them were unpacked.

    Args:
        archive: the file; its first bytes say what it is.
        folder: where its members go.
        strip: leave out the one folder that holds all members.

    Raises:
        InputError: it is no archive or damaged, a member would be written outside of ``folder``,
            or ``strip`` finds more than one folder.
    """
    work = folder / f".{archive.name}.unpacking"
    shutil.rmtree(work, ignore_errors=True)  # of a call that was stopped
    work.mkdir(parents=True)
    try:
        _unpack(archive, work)
        top = _only_folder(archive, work) if strip else work
        for path in sorted(top.iterdir()):
            _move(path, folder / path.name)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _unpack(archive: Path, work: Path) -> None:
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as members:
                for name in members.namelist():
                    _check_inside(archive, name)
                members.extractall(work)
        else:
            with tarfile.open(archive) as members:
                members.extractall(work, filter="data")
                # A garbled header passes for the end. What checks itself is the compressed stream.
                while members.fileobj is not None and members.fileobj.read(2**20):
                    pass
    except _DAMAGED as error:
        raise InputError(f"{archive}: expected a sound archive, found {error}") from error
    except OSError as error:
        if error.errno is not None:  # of the disk
            raise
        raise InputError(f"{archive}: expected a sound archive, found {error}") from error


def _check_inside(archive: Path, name: str) -> None:
    # zipfile would write such members, too, under another name.
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
        raise InputError(f"{archive}: expected members below its own folder, found {name!r}")


def _only_folder(archive: Path, work: Path) -> Path:
    found = sorted(work.iterdir())
    if len(found) != 1 or not found[0].is_dir():
        names = ", ".join(path.name for path in found[:5])
        raise InputError(f"{archive}: expected one folder with all members, found {names}")
    return found[0]


def _move(path: Path, target: Path) -> None:
    if path.is_dir() and target.is_dir():
        for inner in sorted(path.iterdir()):
            _move(inner, target / inner.name)
    else:
        if target.is_dir():
            shutil.rmtree(target)
        path.replace(target)
