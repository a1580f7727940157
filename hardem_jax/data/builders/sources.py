"""Source files of a build: their digests, and official releases that can be downloaded.

``checksums.tsv`` holds what may be downloaded, in TFDS's layout: address, bytes, SHA-256, name.
The digests are public records: TriviaQA's from the TFDS builder ``trivia_qa``, those of DROP and
WikiSQL from ``dataset_infos.json`` of their Hugging Face builders. A download with another digest
is refused. NarrativeQA's repository has no archive whose bytes stay the same, and passages of
open-domain questions come from a retriever: a person supplies those files.
"""

from __future__ import annotations

import hashlib
import os
import socket
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds
from tensorflow_datasets.core.download.download_manager import NonMatchingChecksumError
from tensorflow_datasets.core.download.util import DownloadError

from hardem_jax.data.archives import extract
from hardem_jax.data.data_sets import Release
from hardem_jax.data.files import work_folder
from hardem_jax.errors import InputError, found_by


def digest(path: Path) -> str:
    """SHA-256 of a file; of a folder, of the names and contents of all files below it."""
    try:
        if not os.path.isdir(path):
            with open(path, "rb") as content:
                return hashlib.file_digest(content, "sha256").hexdigest()
        names = sorted(file.relative_to(path).as_posix() for file in _files_below(path))
    except OSError as error:
        raise InputError(f"{path}: expected a file or folder, found {found_by(error)}") from error
    whole = hashlib.sha256()
    for name in names:
        # A name need not be UTF-8: Python keeps its bytes as surrogates.
        whole.update(f"{digest(path / name)} {name}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def _files_below(folder: Path, above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[Path]:
    """All files, those in linked folders included; a link to a folder that it lies in is not."""
    found = os.stat(folder)
    here = found.st_dev, found.st_ino
    if here not in above:
        for path in folder.iterdir():
            yield from _files_below(path, above | {here}) if path.is_dir() else (path,)


def download(release: Release, dl_manager: tfds.download.DownloadManager, folder: Path) -> Path:
    """The folder of a release, downloaded and unpacked, or found where it was before."""
    assert release.url is not None
    try:
        if not folder.is_dir():
            _reach(release.url)
        archive: Any = dl_manager.download(release.url)
    except NonMatchingChecksumError as error:
        raise InputError(
            f"{release.url}: expected the SHA-256 of checksums.tsv, found another one; the release "
            f"has changed: get it from {release.home} and give its folder"
        ) from error
    except (OSError, DownloadError) as error:
        raise InputError(
            f"{release.url}: cannot be downloaded ({error}); get it from {release.home} and give "
            "its folder"
        ) from error
    if not folder.is_dir():
        unpack(Path(archive), folder)
    return folder / release.inside


def _reach(url: str) -> None:
    """Raises `OSError` if there is no way to the server: TFDS would try for minutes."""
    from hardem_jax.hub import SECONDS

    address = urllib.parse.urlsplit(url)
    if address.scheme in urllib.request.getproxies():  # which knows the way
        return
    port = address.port or {"http": 80, "https": 443}[address.scheme]
    socket.create_connection((address.hostname, port), timeout=SECONDS).close()


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks an archive; the folder gets its name once it is complete."""
    with work_folder(folder) as work:
        new = work / "new"
        new.mkdir()
        extract(archive, new)
        new.rename(folder)
