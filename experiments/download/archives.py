"""Unpacking archives from the internet, which may be damaged or malicious."""

from __future__ import annotations

import lzma
import os
import shutil
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from hardem_jax.errors import InputError

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")  # the second of one without members
_DAMAGED = (
    tarfile.FilterError,
    tarfile.TarError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    RuntimeError,  # of zipfile: a password, or a compression that it does not know
)


def extract(archive: Path, folder: Path) -> None:
    """Extracts a tar or zip archive; `InputError` if it is damaged or a member would leave
    ``folder``."""
    try:
        if _is_zip(archive):
            with zipfile.ZipFile(archive) as members:
                names = members.namelist()
                for name in names:
                    _check_inside(archive, name)
                # Python 3.12.1 refuses "./", the folder itself.
                members.extractall(folder, [name for name in names if PurePosixPath(name).parts])
        else:
            with tarfile.open(archive) as members:
                members.extractall(folder, filter="data")
                # A garbled header passes for the end. What checks itself is the compressed stream.
                while members.fileobj is not None and members.fileobj.read(2**20):
                    pass
    except _DAMAGED as error:
        raise InputError(f"{archive}: expected a sound archive, found {error}") from error
    except OSError as error:
        if error.errno is not None:  # of the disk
            raise
        raise InputError(f"{archive}: expected a sound archive, found {error}") from error


def _is_zip(archive: Path) -> bool:
    # zipfile looks at the end, where a tar archive may have a zip file of its own.
    with open(archive, "rb") as content:
        return content.read(4) in _ZIP


def _check_inside(archive: Path, name: str) -> None:
    # zipfile would write such members, too, under another name.
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in "".join(path.parts[:1]):
        raise InputError(f"{archive}: expected members below its own folder, found {name!r}")


def unpack(archive: Path, folder: Path, *, strip: bool) -> None:
    """Unpacks a tar or zip archive into a folder, and may replace what is there already. Members
    are moved there after all were unpacked. `strip` leaves out the one folder that holds them."""
    work = folder / f".{archive.name}.unpacking"
    shutil.rmtree(work, ignore_errors=True)  # of a call that was stopped
    work.mkdir(parents=True)
    try:
        extract(archive, work)
        top = _only_folder(archive, work) if strip else work
        shutil.copytree(top, folder, dirs_exist_ok=True, copy_function=os.replace)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _only_folder(archive: Path, work: Path) -> Path:
    found = sorted(work.iterdir())
    if len(found) != 1 or not found[0].is_dir():
        names = ", ".join(path.name for path in found[:5])
        raise InputError(f"{archive}: expected one folder with all members, found {names}")
    return found[0]
