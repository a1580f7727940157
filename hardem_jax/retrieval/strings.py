"""Strings stored in one memory-mapped file, read by index."""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np

from hardem_jax.data.files import load_array
from hardem_jax.errors import InputError


class StringWriter:
    """Writes ``<stem>.txt``, the concatenated strings, and ``<stem>.ends.npy``, their ends.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with StringWriter(Path(folder, "names")) as writer:
        ...         for name in ("Zoë", "", "Bo"):
        ...             writer.write(name)
        ...     list(StringTable(Path(folder, "names")))
        ['Zoë', '', 'Bo']
    """

    def __init__(self, stem: Path):
        self._stem = stem
        self._file = open(f"{stem}.txt", "wb")  # closed by __exit__
        self._ends = array("q")
        self._size = 0

    def __len__(self) -> int:
        return len(self._ends)

    def write(self, text: str) -> None:
        """Appends a string."""
        self._size += self._file.write(text.encode("utf-8"))
        self._ends.append(self._size)

    def __enter__(self) -> StringWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: object, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if kind is None:
            np.save(f"{self._stem}.ends.npy", np.frombuffer(self._ends, np.int64))


class StringTable(Sequence[str]):
    """The strings that `StringWriter` wrote, by index, memory-mapped.

    Raises:
        InputError: a file is missing or has the wrong size.
    """

    def __init__(self, stem: Path):
        self._ends = load_array(Path(f"{stem}.ends.npy"))
        file = Path(f"{stem}.txt")
        size = int(self._ends[-1]) if len(self._ends) else 0
        try:
            with open(file, "rb") as stream:
                file_size = stream.seek(0, 2)
                # An empty file cannot be mapped.
                self._bytes = (
                    mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if file_size else b""
                )
        except OSError as error:
            raise InputError(f"{file}: cannot be read ({error.strerror})") from error
        if file_size != size:
            raise InputError(f"{file}: expected {size} bytes, found {file_size}; rebuild it")

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(index)
        start = int(self._ends[index - 1]) if index else 0
        return self._bytes[start : int(self._ends[index])].decode("utf-8")
