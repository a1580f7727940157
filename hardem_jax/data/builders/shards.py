"""A split cut into shards, each of which can be written by any process, to the same bytes.

Reading is done once, by the process that starts the build: it has to see the file in order (ids
that repeat, tables before their questions), and counts what is left out. It leaves examples in work
files, each of which becomes a shard.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import os
import pickle
import uuid
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from array_record.python.array_record_module import ArrayRecordWriter
from tensorflow_datasets.core.example_serializer import ExampleSerializer

from hardem_jax.data.data_sets import Record, RecordKind, Solver
from hardem_jax.data.files import writing
from hardem_jax.errors import InputError


def features_of(kind: RecordKind) -> tfds.features.FeaturesDict:
    """The TFDS features of a kind of record."""
    return _features(kind.name, kind.texts, kind.lists, kind.numbers, tuple(kind.arrays.items()))


@functools.cache
def _features(name_of_kind, texts, lists, numbers, arrays) -> tfds.features.FeaturesDict:
    features = tfds.features
    found: dict[str, Any] = {name: features.Text() for name in texts}
    found |= {name: features.Sequence(features.Text()) for name in lists}
    found |= {name: features.Scalar(np.int64) for name in numbers}
    for name, (dtype, width) in arrays:
        shape = (None,) if width is None else (None, width)
        found[name] = features.Tensor(shape=shape, dtype=np.dtype(dtype), encoding="bytes")
    return features.FeaturesDict(found)


def serialize(kind: RecordKind, record: Record) -> bytes:
    """A record as a `tf.train.Example`, with the order of its map fixed: the same bytes in every
    process."""
    features = features_of(kind)
    specs: Any = features.get_serialized_info()
    example: Any = ExampleSerializer(specs).get_tf_example(features.encode_example(record))
    return example.SerializeToString(deterministic=True)


@dataclasses.dataclass(frozen=True)
class Shard:
    """Consecutive examples of a split, pickled in a file that all workers see."""

    work_file: Path
    count: int
    solver: Solver

    def records(self) -> Iterator[Record]:
        """Their records, with Z."""
        return self.solver.records(pickle.loads(self.work_file.read_bytes()))

    @property
    def facts_file(self) -> Path:
        """Where `write_shard` leaves what is counted of every record, and its digest."""
        return self.work_file.with_suffix(".json")

    def facts(self) -> list[dict[str, Any]]:
        """What `write_shard` left there."""
        return json.loads(self.facts_file.read_text("utf-8"))


def cut(examples: Iterable[Any], folder: Path, solver: Solver, size: int) -> list[Shard]:
    """Leaves the examples in work files of ``size`` each; memory holds one of them."""
    folder.mkdir(parents=True)
    shards: list[Shard] = []
    iterator = iter(examples)
    while some := list(itertools.islice(iterator, size)):
        shard = Shard(folder / f"{len(shards):05}.pickle", len(some), solver)
        shard.work_file.write_bytes(pickle.dumps(some))
        shards.append(shard)
    return shards


def write_shard(shard_and_path: tuple[Shard, Path]) -> None:
    """Writes the records of a shard to an ArrayRecord file, and their facts to its `facts_file`.
    Both get their names when they are complete: a worker may be killed or repeated."""
    shard, path = shard_and_path
    kind = shard.solver.kind
    partial = shard.work_file.with_name(uuid.uuid4().hex)
    rows: list[dict[str, Any]] = []
    # One record per group: records are read one by one, in any order.
    writer = ArrayRecordWriter(str(partial), "group_size:1")
    with writing(path):
        try:
            try:
                for record in shard.records():
                    data = serialize(kind, record)
                    writer.write(data)
                    rows.append(shard.solver.facts(record) | {"digest": sha256(data).hexdigest()})
            finally:
                writer.close()
        except RuntimeError as error:  # of ArrayRecord, which notices a full disk when it closes
            raise InputError(f"{path}: cannot be written: {error}") from error
        os.replace(partial, path)
        partial.write_text(json.dumps(rows), "utf-8")
        os.replace(partial, shard.facts_file)
