"""Records on disk: ArrayRecord files with random access, and the folders they lie in."""

import contextlib
import dataclasses
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import msgpack
import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter
from grain.sources import ArrayRecordDataSource

from hardem_jax.data.examples import ExclusionCounts
from hardem_jax.errors import InputError

T = TypeVar("T")

_LEFT_OUT = "left_out.json"


@dataclasses.dataclass(frozen=True)
class Codec(Generic[T]):
    """How a dataclass becomes bytes: msgpack, with arrays in their own binary form.

    Attributes:
        type: the dataclass; fields other than ``arrays`` must be what msgpack can hold.
        arrays: field -> (little-endian dtype, shape with one -1).
        sizes: record -> (tokens, solutions), which plan batches before any record is read.

    Example:
        >>> @dataclasses.dataclass
        ... class Row:
        ...     name: str
        ...     ids: np.ndarray
        >>> rows = Codec(Row, {"ids": ("<i4", (-1,))}, sizes=lambda row: (len(row.ids), 0))
        >>> rows.decode(rows.encode(Row("a", np.array([3, 4]))))
        Row(name='a', ids=array([3, 4], dtype=int32))
    """

    type: type[T]
    arrays: Mapping[str, tuple[str, tuple[int, ...]]]
    sizes: Callable[[T], tuple[int, int]]

    def encode(self, record: T) -> bytes:
        """The bytes of a record."""
        fields = {f.name: getattr(record, f.name) for f in dataclasses.fields(cast(Any, record))}
        for name, (dtype, _) in self.arrays.items():
            fields[name] = np.asarray(fields[name], dtype).tobytes()
        return cast(bytes, msgpack.packb(fields))

    def decode(self, data: bytes) -> T:
        """The inverse of `encode`."""
        fields: dict[str, Any] = msgpack.unpackb(data)
        for name, (dtype, shape) in self.arrays.items():
            fields[name] = np.frombuffer(fields[name], dtype).reshape(shape)
        return self.type(**fields)


class RecordWriter(Generic[T]):
    """Appends to ``<stem>.array_record``, and on closing writes ``<stem>.sizes.npy``."""

    def __init__(self, stem: Path, codec: Codec[T]):
        self._stem, self._codec = stem, codec
        # One record a group: records are read one by one, in any order.
        self._writer = ArrayRecordWriter(f"{stem}.array_record", "group_size:1")
        self._sizes: list[tuple[int, int]] = []

    def write(self, record: T) -> None:
        self._writer.write(self._codec.encode(record))
        self._sizes.append(self._codec.sizes(record))

    def close(self) -> None:
        self._writer.close()
        np.save(f"{self._stem}.sizes.npy", np.array(self._sizes, np.int32).reshape(-1, 2))


class RecordSource(Sequence[T]):
    """Records of a file that `RecordWriter` wrote, by index.

    Attributes:
        sizes: ``[N, 2]`` int32, tokens and solutions of each record.

    Raises:
        InputError: a file is missing or damaged.
    """

    def __init__(self, stem: Path, codec: Codec[T]):
        self.sizes: np.ndarray = load_array(Path(f"{stem}.sizes.npy"))
        self._codec = codec
        file = Path(f"{stem}.array_record")
        if not file.is_file():
            raise InputError(f"{file}: expected a file of a prepared split, found none")
        # An ArrayRecord file without records cannot be opened.
        self._records = ArrayRecordDataSource(str(file)) if len(self.sizes) else ()

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._codec.decode(self._records[int(index)])


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to write into, which gets its name only when the block ends without an error.

    An existing folder of that name is replaced if it holds a ``meta.json``, as all
    complete ones do.

    Raises:
        InputError: there is a folder of that name, and it holds something else; or it
            cannot be made.
    """
    if folder.exists() and not (folder / "meta.json").is_file():
        raise InputError(f"{folder}: exists and is not a prepared split; choose another folder")
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror})") from error
    yield partial
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def read_meta(folder: Path, *, format: str | int) -> dict[str, Any]:
    """``meta.json`` of a prepared folder.

    Raises:
        InputError: it is missing or broken, or its "format" is another one.
    """
    if not (folder / "meta.json").is_file():
        raise InputError(
            f"{folder}: expected a prepared split (run `prepare` first), found no meta.json"
        )
    meta = read_json(folder / "meta.json")
    found = meta.get("format") if isinstance(meta, dict) else None
    if found != format:
        raise InputError(f"{folder}: expected format {format}, found {found}; prepare it again")
    return meta


def write_left_out(folder: Path, exclusions: ExclusionCounts, kept: Container[str]) -> None:
    """Writes ``left_out.json``, for `read_left_out`.

    Args:
        folder: of the split.
        exclusions: what reader and preparation left out.
        kept: ids of the questions of the split. One that occurs again in the file is there.
    """
    left_out: dict[str, str] = {}
    for id, reason in exclusions.left_out:
        if id not in kept:
            left_out.setdefault(id, reason)
    write_json(folder / _LEFT_OUT, left_out)


def read_left_out(folder: Path) -> dict[str, str]:
    """Id and reason of every question of the source file that is not in its prepared split.

    An official metric counts these questions, too. One without an id has its place in the file.

    Raises:
        InputError: the file is missing or damaged.
    """
    return read_json(folder / _LEFT_OUT)


def file_digest(file: Path) -> str:
    """SHA-256 of a file, the first 16 hexadecimal digits."""
    try:
        with open(file, "rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()[:16]
    except OSError as error:
        raise InputError(f"{file}: expected a file, found {error.strerror}") from error


def size_summary(sizes: Sequence[int]) -> dict[str, float | int | None]:
    """Mean, median and maximum of |Z| over the questions that have a solution.

    Example:
        >>> size_summary([0, 1, 2, 6])
        {'mean': 3.0, 'median': 2.0, 'max': 6}
    """
    found = np.array([size for size in sizes if size])
    if not len(found):
        return {"mean": None, "median": None, "max": None}
    return {
        "mean": round(float(found.mean()), 2),
        "median": float(np.median(found)),
        "max": int(found.max()),
    }


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
    write_text(file, json.dumps(content, indent=2, sort_keys=True) + "\n")


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
        >>> check_writable(Path("no such folder/report.json"))
        Traceback (most recent call last):
        ...
        hardem_jax.errors.InputError: no such folder/report.json: its folder does not exist
    """
    try:
        if file.is_dir():
            raise InputError(f"{file}: expected the name of a file, found a folder")
        exists, parent = file.exists(), file.parent
        if not parent.exists():
            raise InputError(f"{file}: its folder does not exist")
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
