"""Objects of a bucket, through fsspec; what goes wrong is one line without what requests hold."""

from __future__ import annotations

import contextlib
import copy
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hardem_jax.buckets.names import one_address
from hardem_jax.errors import InputError, require_packages

#: Libraries whose errors and records may quote a request, which holds credentials.
_CLIENTS = ("botocore", "aiobotocore", "aiohttp", "google", "gcsfs", "s3fs", "urllib3", "requests")
#: Larger files are read as they are sent, a few at a time; smaller ones may still change.
_SMALL = 2**20
_LARGE_AT_ONCE = 8
#: From this size on, the client of gs sends parts.
_IN_PARTS = 50 * 2**20


class Folder:
    """A folder of a bucket, or a single object."""

    def __init__(self, where: str) -> None:
        self.where = one_address(where)
        scheme, _, self._root = self.where.partition("://")
        self._files = _file_system(scheme)
        self._by_lines = scheme == "gs"

    def listing(self) -> dict[str, tuple[int, str]]:
        """Name of every object in the folder -> its size in bytes, and what changes with its
        content. A single object has the name ""."""
        with self.one_line():
            found = self._files.find(self._root, detail=True)
        names = {}
        for path, about in found.items():
            path = path.lstrip("/")  # with which some clients begin
            inside = path.startswith(f"{self._root}/") and not path.endswith("/")
            if path == self._root or inside:
                self._check_name(path[len(self._root) + 1 :])
                version = about.get("ETag") or about.get("generation") or about.get("updated")
                names[path[len(self._root) + 1 :]] = (int(about["size"]), str(version))
        return names

    def _check_name(self, name: str) -> None:
        """Raises `InputError` if a file of this name would lie elsewhere on a disk."""
        if name and not {"", ".", ".."}.isdisjoint(name.split("/")):
            raise InputError(f"{self.where}: expected names of files, found the object {name!r}")

    def beside(self, suffix: str) -> Folder:
        """The object whose name is that of this folder and a suffix."""
        other = copy.copy(self)
        other._root += suffix
        return other

    def read(self, name: str = "") -> bytes | None:
        """The content of an object; None if there is none of that name."""
        with self.one_line():
            try:
                return self._files.cat_file(self._path(name))
            except FileNotFoundError:
                return None

    def create(self, content: bytes) -> bool:
        """Writes the object of the folder's own name and returns True, unless there is one."""
        with self.one_line():
            if self._files.exists(self._root):  # some emulators overwrite nevertheless
                return False
            try:
                self._files.pipe_file(self._root, content, mode="create")
            except FileExistsError:
                return False
        return True

    def write(self, content: bytes) -> None:
        """Writes the object of the folder's own name; others see the old content or the new one."""
        with self.one_line():
            self._files.pipe_file(self._root, content)

    def upload(self, files: Mapping[str, Path]) -> None:
        """Writes objects with the contents of files, several at once. A file that has gone by then
        is left out."""
        contents, large, alone = {}, {}, {}
        for name, file in files.items():
            path = self._path(name)
            with contextlib.suppress(FileNotFoundError):
                if self._by_lines and _ambiguous(file):
                    alone[path] = file.read_bytes()
                elif file.stat().st_size < _SMALL:
                    contents[path] = file.read_bytes()
                else:
                    large[path] = str(file)
        with self.one_line():
            for path, content in alone.items():
                self._files.pipe_file(path, content, chunksize=len(content))
            if contents:
                self._files.pipe(contents)
            if large:
                self._files.put([*large.values()], [*large], batch_size=_LARGE_AT_ONCE)

    def download(self, files: Mapping[str, Path]) -> None:
        """Writes files with the contents of objects, several at once."""
        for file in files.values():
            file.parent.mkdir(parents=True, exist_ok=True)
        if files:
            with self.one_line(FileNotFoundError):
                paths = [self._path(name) for name in files]
                # What gs was sent in parts has no md5. Checkpoints and data have checksums of ours.
                how = {"consistency": "size"} if self._by_lines else {}
                self._files.get(paths, [str(file) for file in files.values()], **how)

    def delete(self, names: Iterable[str]) -> None:
        """Deletes objects, in this order; those that have gone are no error."""
        with self.one_line():
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    self._files.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    @contextlib.contextmanager
    def one_line(self, *passed: type[Exception]) -> Iterator[None]:
        """Turns what the client raises into an `InputError`, but for these types."""
        try:
            yield
        except Exception as error:
            ours = not isinstance(error, (OSError, TimeoutError)) and (
                type(error).__module__.partition(".")[0] not in _CLIENTS
            )
            if ours or isinstance(error, passed):
                raise
            raise InputError(f"{self.where}: {_reason(error)}") from None


def _ambiguous(file: Path) -> bool:
    """Whether a content may lose bytes at its end. The client of gs sends contents below its chunk
    size between lines of text, and takes what ends a line as no part of them. It also marks the end
    by a line that a content may have."""
    if file.stat().st_size >= _IN_PARTS:
        return False
    content = file.read_bytes()
    return content.endswith((b"\r", b"\n")) or b"--==0==" in content


def _reason(error: BaseException) -> str:
    """Why a bucket cannot be used, in words of our own: the client's may quote the request."""
    if isinstance(error, PermissionError) and error.filename is None:
        return "no permission (wrong credentials, or without the right to do this)"
    if isinstance(error, FileNotFoundError):
        return "no such bucket"
    if isinstance(error, (ConnectionError, TimeoutError)):
        return "cannot be reached"
    if isinstance(error, OSError) and error.filename is not None:
        raise error  # of the local disk
    if isinstance(error, OSError) and error.errno is not None:
        return f"cannot be used ({os.strerror(error.errno)})"
    # The client of gs has no type of its own for 403, but raises "Forbidden: <the request>".
    kind = str(error).partition(":")[0] if type(error) is OSError else type(error).__name__
    return f"cannot be used ({kind})"


def _file_system(scheme: str) -> Any:
    """The client for a kind of bucket, which fsspec makes once a process."""
    try:
        require_packages("buckets", "s3fs" if scheme == "s3" else "gcsfs")  # they need fsspec
    except ImportError as error:
        raise InputError(f"{scheme}://: {error}") from None
    for name in _CLIENTS:  # they report what is raised, with the request
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    # A listing must be of now, for others write to the bucket.
    options: dict[str, Any] = {"use_listings_cache": False}
    if scheme == "s3":
        import fsspec

        return fsspec.filesystem("s3", **options)
    from gcsfs.core import GCSFileSystem  # not the one for zonal buckets: it asks by gRPC first

    options["consistency"] = "md5"  # of what is sent
    if os.environ.get("STORAGE_EMULATOR_HOST"):
        options["token"] = "anon"
    return GCSFileSystem(**options)
