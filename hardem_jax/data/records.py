"""Windows on disk: ArrayRecord files with random access, one window a record."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgpack
import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter
from grain.sources import ArrayRecordDataSource

from hardem_jax.data.windows import Window

_ARRAYS = {"token_ids": (-1,), "offsets": (-1, 2), "solutions": (-1, 2)}


def window_to_bytes(window: Window) -> bytes:
    """A window as msgpack, its arrays as little-endian int32."""
    fields = dataclasses.asdict(window)
    for name in _ARRAYS:
        fields[name] = np.asarray(fields[name], "<i4").tobytes()
    return cast(bytes, msgpack.packb(fields))


def window_from_bytes(record: bytes) -> Window:
    """The inverse of `window_to_bytes`.

    Example:
        >>> none = np.zeros((0, 2), np.int32)
        >>> window = Window("q1", 0, "", 0, np.array([2, 3, 3], np.int32), 2, none, none)
        >>> window_from_bytes(window_to_bytes(window)).token_ids.tolist()
        [2, 3, 3]
    """
    fields: dict[str, Any] = msgpack.unpackb(record)
    for name, shape in _ARRAYS.items():
        fields[name] = np.frombuffer(fields[name], "<i4").reshape(shape)
    return Window(**fields)


class WindowWriter:
    """Appends windows to ``<stem>.array_record`` and remembers their sizes in ``<stem>.sizes.npy``.

    The sizes (``[N, 2]`` int32: tokens and solutions of each window) let batches be planned
    without reading a record.
    """

    def __init__(self, stem: Path):
        self._stem = stem
        # One record a group: windows are read one by one, in any order.
        self._writer = ArrayRecordWriter(f"{stem}.array_record", "group_size:1")
        self._sizes: list[tuple[int, int]] = []

    def write(self, window: Window) -> None:
        self._writer.write(window_to_bytes(window))
        self._sizes.append((window.num_tokens, len(window.solutions)))

    def close(self) -> None:
        self._writer.close()
        np.save(f"{self._stem}.sizes.npy", np.array(self._sizes, np.int32).reshape(-1, 2))


class WindowSource(Sequence[Window]):
    """Windows of a file that `WindowWriter` wrote, by index.

    Attributes:
        sizes: ``[N, 2]`` int32, tokens and solutions of each window.
    """

    def __init__(self, stem: Path):
        self.sizes: np.ndarray = np.load(f"{stem}.sizes.npy")
        # An ArrayRecord file without records cannot be opened.
        self._records = ArrayRecordDataSource(f"{stem}.array_record") if len(self.sizes) else ()

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(index)
        return window_from_bytes(self._records[int(index)])


def write_json(file: Path, content: Any) -> None:
    """Write ``content`` indented and in a stable order."""
    file.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
