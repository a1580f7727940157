"""Builds read back as the project's own objects, by index; no source file is needed.

    train = open_build("built").examples("train")      # ReadingExample, NumericQuestion, ...
    dataset = grain.MapDataset.source(train).seed(0).shuffle()[process_index::process_count]

TFDS reads them, too: ``tfds.builder_from_directory(folder).as_data_source("train")``.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from array_record.python.array_record_data_source import ArrayRecordDataSource

from hardem_jax.checksums import MANIFEST
from hardem_jax.data.builders.features import BUILD_FILE, FORMAT, index_file, parse
from hardem_jax.data.data_sets import Record, RecordKind
from hardem_jax.data.files import read_json, read_meta
from hardem_jax.data.json_stream import PathLike
from hardem_jax.errors import InputError, similar_path
from hardem_jax.registry import task_module


@dataclasses.dataclass(frozen=True)
class Build:
    """A finished build: its folder and the content of its ``build.json``."""

    folder: Path
    meta: dict[str, Any]

    @property
    def kind(self) -> str:
        """Name of the kind of its records."""
        return self.meta["kind"]

    @property
    def records_kind(self) -> RecordKind:
        """How its records are laid out."""
        return task_module(self.kind, "records").RECORDS

    def check_split(self, split: str) -> None:
        """Raises `InputError` if there is no such split."""
        if split not in self.meta["splits"]:
            known = ", ".join(self.meta["splits"])
            raise InputError(f"{self.folder}: expected a split out of {known}, found {split!r}")

    def records(self, split: str) -> Sequence[Record]:
        """Records by index, in the order of the source."""
        self.check_split(split)
        files = sorted(self.folder.glob(f"{self.meta['data set']}-{split}.array_record-*"))
        data: Any = ArrayRecordDataSource(list(map(str, files)))
        return Examples(data, functools.partial(parse, self.records_kind))

    def examples(self, split: str) -> Sequence[Any]:
        """The task's objects by index."""
        return Examples(self.records(split), self.records_kind.to_example)

    def index(self, split: str) -> dict[str, Any]:
        """What `hardem_jax.data.builders.counts` says of the records of a split."""
        return read_json(self.folder / index_file(split))


class Examples(Sequence[Any]):
    """Objects made of the records at these places, of all if None, when they are asked for."""

    def __init__(
        self,
        records: Sequence[Any],
        make: Callable[[Any], Any],
        places: Sequence[int] | None = None,
    ):
        self._records, self._make = records, make
        self._places = range(len(records)) if places is None else places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._make(self._records[self._places[index]])


def open_build(folder: PathLike) -> Build:
    """The build in a folder, or the only one below it."""
    folder = Path(folder)
    # Either is enough to recognise a build, one file of which may be lost.
    marks = (BUILD_FILE, MANIFEST)
    if any(os.path.isfile(folder / name) for name in marks):
        found = [folder]
    else:
        # incomplete.* is what a build that was killed leaves.
        there = os.path.isdir(folder)  # globbing raises on an over-long name
        files = (file for name in marks if there for file in folder.glob(f"**/{name}"))
        folders = {file.parent for file in files}
        found = sorted(x for x in folders if "/incomplete." not in f"/{x.relative_to(folder)}")
    if len(found) != 1:
        listing = ": " + ", ".join(map(str, found)) if found else similar_path(folder)
        raise InputError(
            f"{folder}: expected one complete build (run `prepare` first), "
            f"found {len(found)}{listing}"
        )
    return Build(
        found[0], read_meta(found[0], format=FORMAT, file=BUILD_FILE, remedy="build it again")
    )
