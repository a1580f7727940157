"""Records on disk: ArrayRecord files with random access, and the folders they lie in."""

import dataclasses
import hashlib
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import msgpack
import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter

from hardem_jax.data.exclusions import ExclusionCounts, reasons
from hardem_jax.data.files import load_array, read_json, write_json
from hardem_jax.errors import InputError

T = TypeVar("T")

_LEFT_OUT = "left_out.json"


@dataclasses.dataclass(frozen=True)
class Codec(Generic[T]):
    """How a dataclass becomes bytes: msgpack, with arrays in their own binary form.

    ``arrays`` maps a field to its little-endian dtype and shape with one -1; None is not stored.
    ``sizes`` gives (tokens, solutions) of a record, which plan batches before any is read.
    """

    type: type[T]
    arrays: Mapping[str, tuple[str, tuple[int, ...]]]
    sizes: Callable[[T], tuple[int, int]]

    def encode(self, record: T) -> bytes:
        """The bytes of a record."""
        fields = {f.name: getattr(record, f.name) for f in dataclasses.fields(cast(Any, record))}
        for name, (dtype, _) in self.arrays.items():
            if fields[name] is None:
                del fields[name]
            else:
                fields[name] = np.asarray(fields[name], dtype).tobytes()
        return cast(bytes, msgpack.packb(fields))

    def decode(self, data: bytes) -> T:
        """The inverse of `encode`."""
        fields: dict[str, Any] = msgpack.unpackb(data)
        for name, (dtype, shape) in self.arrays.items():
            if name in fields:
                fields[name] = np.frombuffer(fields[name], dtype).reshape(shape)
        return self.type(**fields)


class RecordWriter(Generic[T]):
    """Appends to ``<stem>.array_record``, and on closing writes ``<stem>.sizes.npy``."""

    def __init__(self, stem: Path, codec: Codec[T]):
        self._stem, self._codec = stem, codec
        self._file = f"{stem}.array_record"
        # One record per group: records are read one by one, in any order.
        self._writer = ArrayRecordWriter(self._file, "group_size:1")
        self._sizes: list[tuple[int, int]] = []
        self._content = hashlib.sha256()

    @property
    def num_records(self) -> int:
        return len(self._sizes)

    @property
    def content(self) -> str:
        """Digest of the records so far, which unlike the file is the same on every machine."""
        return self._content.hexdigest()[:16]

    def write(self, record: T) -> None:
        self.write_encoded(self._codec.encode(record), self._codec.sizes(record))

    def write_encoded(self, data: bytes, sizes: tuple[int, int]) -> None:
        """Appends a record that another process encoded with the codec."""
        try:
            self._writer.write(data)
        except RuntimeError as error:
            raise InputError(f"{self._file}: cannot be written: {error}") from error
        self._content.update(len(data).to_bytes(8, "little") + data)
        self._sizes.append(sizes)

    def close(self) -> None:
        """Completes the files; ArrayRecord reports a full disk here."""
        try:
            self._writer.close()
        except RuntimeError as error:
            raise InputError(f"{self._file}: cannot be written: {error}") from error
        np.save(f"{self._stem}.sizes.npy", np.array(self._sizes, np.int32).reshape(-1, 2))


class RecordSource(Sequence[T]):
    """Records that `RecordWriter` wrote, by index; ``sizes`` are its tokens and solutions, ``[N,
    2]`` int32."""

    def __init__(self, stem: Path, codec: Codec[T]):
        self.sizes: np.ndarray = load_array(Path(f"{stem}.sizes.npy"))
        self._codec = codec
        file = Path(f"{stem}.array_record")
        if not file.is_file():
            raise InputError(f"{file}: expected a file of a prepared split, found none")
        self._records: Any = ()
        if len(self.sizes):  # an ArrayRecord file without records cannot be opened
            from grain.sources import ArrayRecordDataSource  # imports jax; writing needs none

            self._records = ArrayRecordDataSource(str(file))

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._codec.decode(self._records[int(index)])


def write_left_out(folder: Path, exclusions: ExclusionCounts, kept: Container[str]) -> None:
    """Writes ``left_out.json``, for `read_left_out`; ``kept`` are the ids of the split's
    questions."""
    write_json(folder / _LEFT_OUT, reasons(exclusions.left_out, kept))


def read_left_out(folder: Path) -> dict[str, str]:
    """Id, or place in the file, and reason of every question of the source that is not in its
    prepared split."""
    return read_json(folder / _LEFT_OUT)
