"""Unpacking archives from the internet."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from hardem_jax.data.archives import extract
from hardem_jax.errors import InputError


def unpack(archive: Path, folder: Path, *, strip: bool) -> None:
    """Unpacks a tar or zip archive into a folder; what is there already may be replaced.

    Members are moved there after all of them were unpacked. `strip` leaves out the one folder that
    holds all of them.

    Raises:
        InputError: it is no archive or damaged, a member would be written outside of the folder,
            or there is more than one to leave out.
    """
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
