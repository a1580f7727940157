"""Builds read back as the project's own objects, by index; no source file is needed.

TFDS reads them, too: ``tfds.builder_from_directory(folder).as_data_source("train")``.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from array_record.python.array_record_data_source import ArrayRecordDataSource
from tensorflow_datasets.proto import tf_example_pb2

from hardem_jax.checksums import has_checksums
from hardem_jax.data.batching.padding import Subset
from hardem_jax.data.data_sets import Record, RecordKind
from hardem_jax.data.exclusions import reasons
from hardem_jax.data.files import kind_of, read_json, read_meta
from hardem_jax.data.json_stream import PathLike
from hardem_jax.errors import InputError, similar_path
from hardem_jax.registry import task_module

#: Version of records and their order. Raise it with any change in what a build of the same files
#: holds.
FORMAT = "build 11"

BUILD_FILE = "build.json"
_WHAT = "build (run `prepare` first)"


def index_file(split: str) -> str:
    """The name of the file with the index of a split."""
    return f"{split}.index.json"


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
        """What `hardem_jax.data.builders.base` says of the records of a split."""
        self.check_split(split)
        return read_json(self.folder / index_file(split))


class Examples(Sequence[Any]):
    """Objects made of records, when they are asked for."""

    def __init__(self, records: Sequence[Any], make: Callable[[Any], Any]):
        self._records, self._make = records, make

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._make(self._records[index])


def open_build(folder: PathLike) -> Build:
    """The build in a folder, or the only one below it."""
    folder = Path(folder)
    # Either is enough to recognise a build, one file of which may be lost.
    marks = (BUILD_FILE, "dataset_info.json")  # TFDS's, beside checksums of ours
    if any(os.path.isfile(folder / name) for name in marks):
        found = [folder]
    else:
        # incomplete.* is what a build that was killed leaves.
        there = os.path.isdir(folder)  # globbing raises on an over-long name
        files = (file for name in marks if there for file in folder.glob(f"**/{name}"))
        folders = {x.parent for x in files if x.name == BUILD_FILE or has_checksums(x.parent)}
        found = sorted(x for x in folders if "/incomplete." not in f"/{x.relative_to(folder)}")
    if len(found) != 1:
        if found:
            told = f"{len(found)} folders to choose from: {', '.join(map(str, found))}"
        else:
            told = kind_of(folder) or f"0{similar_path(folder)}"
        raise InputError(f"{folder}: expected one complete {_WHAT}, found {told}")
    meta = read_meta(
        found[0], format=FORMAT, file=BUILD_FILE, what=f"a {_WHAT}", remedy="build it again"
    )
    return Build(found[0], meta)


def parse(kind: RecordKind, data: bytes) -> Record:
    """The record that `serialize` wrote; several times as fast as TFDS reads it."""
    protocol: Any = tf_example_pb2
    features = protocol.Example.FromString(data).features.feature
    record: Record = {n: features[n].bytes_list.value[0].decode() for n in kind.texts}
    for name in kind.lists:
        record[name] = [text.decode() for text in features[name].bytes_list.value]
    for name in kind.numbers:
        record[name] = features[name].int64_list.value[0]
    for name, (dtype, width) in kind.arrays.items():
        array = np.frombuffer(features[name].bytes_list.value[0], dtype)
        record[name] = array if width is None else array.reshape(-1, width)
    return record


class BuiltSplit:
    """The questions of a split of a build, with Z.

    ``questions`` are in the order of the source, of "train" those with a solution. ``left_out`` has
    the reason of every other question by id, for official metrics count these, too. ``meta`` holds
    options, counts, |Z| statistics, and a digest of all that scores depend on. ``drawn`` is the
    seed of `draw_first`; None keeps Z in its order.
    """

    #: Of the records.
    KIND: ClassVar[RecordKind]

    def __init__(self, folder: PathLike, split: str, *, drawn: int | None = None):
        build = open_build(folder)
        if build.kind != self.KIND.name:
            raise InputError(
                f"{build.folder}: expected a build of {self.KIND.name}, found one of {build.kind}"
            )
        records = build.records(split)
        index = build.index(split)
        skipped, kept = set(index["skipped"]), set(index["kept"])
        places = np.array([n for n in range(len(records)) if n not in skipped], np.int64)
        self._records, self._index = records, index
        self.folder = build.folder
        kind = self.KIND

        def read(record: Record) -> Any:
            example = kind.to_example(record)
            return example if drawn is None else draw_first(example, kind.solutions, drawn)

        self.questions: Sequence[Any] = Examples(Subset(records, places), read)
        self.left_out = reasons(index["left_out"], kept)
        self.meta: dict[str, Any] = {
            "format": build.meta["format"],
            "data set": build.meta["data set"],
            **build.meta["options"],
            **{n: found for n, found in build.meta["splits"][split].items() if n != "report"},
        }


def draw_first(question: Any, solutions: str, seed: int) -> Any:
    """The question with a solution of its Z moved to the front, each with the same probability,
    which depends only on the seed and the question's id; the others keep their order."""
    rows: np.ndarray = getattr(question, solutions)
    if not len(rows):
        return question
    identity = hashlib.sha256(question.id.encode("utf-8", "surrogatepass")).digest()[:8]
    rng = np.random.default_rng([seed, int.from_bytes(identity, "little")])
    drawn = int(rng.integers(len(rows)))
    order = [drawn, *(place for place in range(len(rows)) if place != drawn)]
    changes: dict[str, Any] = {solutions: rows[order]}
    if getattr(question, "true_equation", -1) >= 0:
        changes["true_equation"] = order.index(question.true_equation)
    return dataclasses.replace(question, **changes)
