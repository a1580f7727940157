"""Checksums of the files in a folder, which detect damage before the files are used."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hardem_jax.errors import InputError

MANIFEST = "checksums.json"
_PARTIAL = f"{MANIFEST}.partial"


def write_checksums(folder: Path, files: Iterable[Path] | None = None) -> None:
    """Records every file below ``folder``; call it last, before renaming the folder into place. For
    a subfolder with a record of its own, only that record is recorded."""
    files = _files(folder) if files is None else files
    own = (folder / MANIFEST, folder / _PARTIAL)
    names = sorted(file.relative_to(folder) for file in files if file.is_file() and file not in own)
    with _pool() as pool:
        manifest = dict(pool.map(lambda name: (str(name), _record(folder / name)), names))
    manifest[MANIFEST] = _own_record(manifest)
    # Renamed once complete: a process killed before then leaves a folder without a record.
    partial = folder / _PARTIAL
    partial.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    partial.replace(folder / MANIFEST)


def verify_checksums(folder: Path) -> None:
    """Compares every recorded file of ``folder`` with its recorded size and checksum. Ignores files
    that are not in the record. Reads every byte once, using all cores."""
    recorded = _read_manifest(folder / MANIFEST)
    with _pool() as pool:
        for fault in pool.map(lambda item: _fault(folder / item[0], item[1]), recorded.items()):
            if fault is not None:
                pool.shutdown(cancel_futures=True)
                raise InputError(fault)


def has_checksums(folder: Path) -> bool:
    """Returns whether ``folder`` holds a record of checksums."""
    return os.path.isfile(folder / MANIFEST)  # Path.is_file raises on an over-long name


def recorded_files(folder: Path) -> set[str]:
    """Returns the names of the recorded files, including those of recorded subfolders."""
    names = set(_read_manifest(folder / MANIFEST))
    for name in sorted(names):
        if (inner := Path(name)).name == MANIFEST:
            names |= {str(inner.parent / each) for each in recorded_files(folder / inner.parent)}
    return names


def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 1)  # hashlib releases the GIL


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        # A subfolder with a record of its own is covered by that record.
        inner = parent != str(folder) and MANIFEST in names
        if inner:
            folders.clear()
        for name in [MANIFEST] if inner else names:
            yield Path(parent, name)


def _record(file: Path) -> dict[str, Any]:
    with open(file, "rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    return {"bytes": file.stat().st_size, "sha256": digest}


def _own_record(manifest: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(manifest)
    return {"bytes": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}


def _fault(file: Path, recorded: dict[str, Any]) -> str | None:
    try:
        size = file.stat().st_size
        if size != recorded["bytes"]:
            return f"{file}: damaged, expected {recorded['bytes']} bytes, found {size}"
        if _record(file) != recorded:
            return f"{file}: damaged, its checksum differs from the recorded one"
    except OSError as error:
        return f"{file}: cannot be read ({error.strerror})"
    return None


def _read_manifest(file: Path) -> dict[str, dict[str, Any]]:
    try:
        recorded = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: damaged, expected JSON") from error
    well_formed = isinstance(recorded, dict) and all(
        isinstance(entry, dict) and entry.keys() == {"bytes", "sha256"}
        for entry in recorded.values()
    )
    if not well_formed:
        raise InputError(f"{file}: damaged, expected a size and a checksum for every file")
    if recorded.pop(MANIFEST, None) != _own_record(recorded):
        raise InputError(f"{file}: damaged, its checksum differs from the recorded one")
    return recorded
