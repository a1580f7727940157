"""Builds read back, by TFDS and Grain, as the project's own objects; no source file is needed.

build = open_build("built")
train = build.examples("train")       # by index: ReadingExample, NumericQuestion, ...
dataset = grain.MapDataset.source(train).seed(0).shuffle()
mine = process_share(dataset)         # of several hosts, this one's part
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import grain
import jax
import tensorflow_datasets as tfds

from hardem_jax.checksums import MANIFEST, has_checksums, verify_checksums
from hardem_jax.data.builders.base import BUILD_FILE, FORMAT
from hardem_jax.data.builders.features import (
    Kind,
    to_numeric_question,
    to_query_question,
    to_reading_example,
)
from hardem_jax.data.files import read_json
from hardem_jax.data.json_stream import PathLike
from hardem_jax.errors import InputError

_FROM_RECORD: dict[Kind, Callable[[Mapping[str, Any]], Any]] = {
    "reading": to_reading_example,
    "numeric": to_numeric_question,
    "queries": to_query_question,
}


@dataclasses.dataclass(frozen=True)
class Build:
    """A finished build.

    Attributes:
        folder: that holds ``build.json``.
        meta: its content: "data set", "options", "sources", "kind", "metric", "splits" with counts
            and |Z| statistics.
    """

    folder: Path
    meta: dict[str, Any]

    @property
    def kind(self) -> Kind:
        """Of its records, see `hardem_jax.data.builders.features`."""
        return self.meta["kind"]

    def records(self, split: str) -> Sequence[dict[str, Any]]:
        """Records by index, in the order of the source: the data source of TFDS.

        Raises:
            InputError: there is no such split.
        """
        if split not in self.meta["splits"]:
            known = ", ".join(self.meta["splits"])
            raise InputError(f"{self.folder}: expected a split out of {known}, found {split!r}")
        builder: Any = tfds.builder_from_directory(self.folder)
        return builder.as_data_source(split)

    def examples(self, split: str) -> Examples:
        """The project's objects by index: `ReadingExample`, `NumericQuestion`, `QueryQuestion`."""
        return Examples(self.records(split), _FROM_RECORD[self.kind])


class Examples(Sequence[Any]):
    """Objects made of records when they are asked for; a random-access source for Grain."""

    def __init__(self, records: Sequence[Any], make: Callable[[Mapping[str, Any]], Any]):
        self._records, self._make = records, make

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._make(self._records[int(index)])


def open_build(folder: PathLike) -> Build:
    """The build in a folder, or the only one below it.

    Raises:
        InputError: there is none that is complete, there are several, it is of another format, or
            a file of it is damaged.
    """
    folder = Path(folder)
    # Either is enough to recognise a build, one file of which may be lost.
    marks = (BUILD_FILE, MANIFEST)
    if any(os.path.isfile(folder / name) for name in marks):
        found = [folder]
    else:
        # incomplete.* is what a build that was killed leaves.
        there = os.path.isdir(folder)  # globbing raises on an over-long name
        files = (file for name in marks if there for file in folder.glob(f"**/{name}"))
        found = sorted(
            {
                file.parent
                for file in files
                if not any(
                    part.startswith("incomplete.") for part in file.relative_to(folder).parts
                )
            }
        )
    if len(found) != 1:
        listing = ": " + ", ".join(map(str, found)) if found else ""
        raise InputError(f"{folder}: expected one complete build, found {len(found)}{listing}")
    meta = read_build_file(found[0])
    return Build(found[0], meta)


def read_build_file(folder: Path) -> dict[str, Any]:
    """``build.json`` of a build, every byte of which is compared with its checksum.

    Raises:
        InputError: see `open_build`.
    """
    # Without a record it may be of an older format, which the message should say.
    if has_checksums(folder):
        verify_checksums(folder)
    file = folder / BUILD_FILE
    meta = read_json(file)
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        found = meta.get("format") if isinstance(meta, dict) else None
        raise InputError(f"{file}: expected format {FORMAT}, found {found}; build it again")
    if not has_checksums(folder):
        raise InputError(f"{folder / MANIFEST}: expected the checksums of the build, found none")
    return meta


def process_share(
    dataset: grain.MapDataset, *, index: int | None = None, count: int | None = None
) -> grain.MapDataset:
    """Every ``count``-th element from ``index`` on: what one of several processes reads.

    Args:
        dataset: the same in every process, shuffled with the same seed.
        index: of this process; None for that of JAX.
        count: of processes; None for that of JAX.

    Example:
        >>> whole = grain.MapDataset.source(range(5))
        >>> [list(process_share(whole, index=i, count=2)) for i in (0, 1)]
        [[0, 2, 4], [1, 3]]
    """
    index = jax.process_index() if index is None else index
    count = jax.process_count() if count is None else count
    return dataset[index::count]
