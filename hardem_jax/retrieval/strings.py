"""Strings and numbers on disk, written one after another in memory that does not grow."""

from __future__ import annotations

import mmap
import sqlite3
from array import array
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np

from hardem_jax.data.files import load_array
from hardem_jax.errors import InputError

# Numbers that are collected before they are written.
_BUFFERED = 1 << 16
# What SQLite keeps in memory of a file of `StringNumbers`.
_CACHE_KIB = 1 << 16


class ArrayWriter:
    """Writes a one-dimensional ``.npy`` file piece by piece; its bytes are those of `np.save`.

    Args:
        file: output file.
        dtype: its dtype, to which the pieces are converted.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with ArrayWriter(Path(folder, "a.npy"), np.int32) as writer:
        ...         writer.write(np.array([1, 2]))
        ...         writer.write(np.array([3]))
        ...     np.load(Path(folder, "a.npy")).tolist()
        [1, 2, 3]
    """

    def __init__(self, file: Path, dtype: type):
        self._dtype = np.dtype(dtype)
        self._file = open(file, "wb")  # closed by __exit__
        self._length = 0
        self._write_header()

    def write(self, part: np.ndarray) -> None:
        """Appends numbers, ``[P]``."""
        self._file.write(np.ascontiguousarray(part, self._dtype).data)
        self._length += len(part)

    def _write_header(self) -> None:
        # numpy pads headers, so that they have room for any length.
        about = {"descr": self._dtype.str, "fortran_order": False, "shape": (self._length,)}
        np.lib.format.write_array_header_1_0(self._file, about)

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: object, trace: TracebackType | None
    ) -> None:
        with self._file:
            if kind is None:
                self._file.seek(0)
                self._write_header()


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
        self._file = open(f"{stem}.txt", "wb")  # closed by __exit__
        self._ends = ArrayWriter(Path(f"{stem}.ends.npy"), np.int64)
        self._last_ends = array("q")
        self._size = self._length = 0

    def __len__(self) -> int:
        return self._length

    def write(self, text: str) -> None:
        """Appends a string."""
        self._size += self._file.write(text.encode("utf-8"))
        self._length += 1
        self._last_ends.append(self._size)
        if len(self._last_ends) == _BUFFERED:
            self._write_ends()

    def _write_ends(self) -> None:
        self._ends.write(np.frombuffer(self._last_ends, np.int64))
        self._last_ends = array("q")

    def __enter__(self) -> StringWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if kind is None:
            self._write_ends()
        self._ends.__exit__(kind, error, trace)


class StringNumbers:
    """Numbers of distinct strings in a temporary file: a dictionary that takes little memory.

    Strings are compared, not hashes of them. SQLite keeps 64 MiB of the file in memory.

    Args:
        file: the file, which is removed at the end.

    Raises:
        InputError: the file cannot be written, as on a full disk.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with StringNumbers(Path(folder, "numbers.tmp")) as numbers:
        ...         numbers.setdefault("Rome", 0), numbers.setdefault("Bonn", 1)
        ...         numbers.setdefault("Rome", 2)
        (0, 1)
        0
    """

    def __init__(self, file: Path):
        self._file = file
        try:
            self._database = sqlite3.connect(file, isolation_level=None)
            # Nobody else reads the file and nobody reads it again, so it needs no journal, and one
            # transaction never ends.
            for setting in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE"):
                self._database.execute(f"PRAGMA {setting}")
            self._database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            self._database.execute(
                "CREATE TABLE numbers (string BLOB PRIMARY KEY, number INTEGER) WITHOUT ROWID"
            )
            self._database.execute("BEGIN")
        except sqlite3.OperationalError as error:
            raise self._cannot_write(error) from error

    def setdefault(self, string: str, number: int) -> int:
        """Returns the number of a string, which is `number` if the string is new."""
        key = string.encode("utf-8")
        try:
            added = self._database.execute(
                "INSERT OR IGNORE INTO numbers VALUES (?, ?)", (key, number)
            )
            if added.rowcount:
                return number
            found = self._database.execute("SELECT number FROM numbers WHERE string = ?", (key,))
            return found.fetchone()[0]
        except sqlite3.OperationalError as error:
            raise self._cannot_write(error) from error

    def _cannot_write(self, error: sqlite3.Error) -> InputError:
        return InputError(f"{self._file}: cannot be written ({error})")

    def __enter__(self) -> StringNumbers:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()
        self._file.unlink()


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

    def release(self) -> None:
        """Unmaps the text read so far from memory; it is mapped again when it is needed."""
        if isinstance(self._bytes, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
            self._bytes.madvise(mmap.MADV_DONTNEED)
