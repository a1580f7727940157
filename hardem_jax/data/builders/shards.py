"""A split cut into shards, each of which can be written by any process, to the same bytes.

Reading is done once, by the process that starts the build: it is quick, it has to see the file in
order (ids that repeat, tables before their questions), and it counts what is left out. It leaves
examples in work files. From one work file a shard is made, in this process or in one that
`hardem_jax.data.builders.beam` runs elsewhere.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import pickle
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from array_record.python.array_record_module import ArrayRecordWriter

from hardem_jax.data.builders.features import Record, num_solutions, serialize
from hardem_jax.data.builders.solvers import Solver
from hardem_jax.data.files import writing
from hardem_jax.errors import InputError


@dataclasses.dataclass(frozen=True)
class Shard:
    """Consecutive examples of a split; calling it gives their keys and records, as TFDS wants.

    Attributes:
        work_file: pickled list of the examples, on a file system that all workers see.
        first: position of the first in the split.
        count: how many.
        solver: finds their Z.
    """

    work_file: Path
    first: int
    count: int
    solver: Solver

    def __call__(self) -> Iterator[tuple[int, Record]]:
        examples = pickle.loads(self.work_file.read_bytes())
        yield from enumerate(self.solver.records(examples), start=self.first)

    @property
    def sizes_file(self) -> Path:
        """Where `write_shard` leaves |Z| of every record."""
        return self.work_file.with_suffix(".json")


def cut(examples: Iterable[Any], folder: Path, solver: Solver, size: int) -> list[Shard]:
    """Leaves the examples in work files of ``size`` each; memory holds one of them.

    Args:
        examples: from a reader.
        folder: for the work files; made.
        solver: finds Z.
        size: examples of a shard; the last has the rest.
    """
    folder.mkdir(parents=True)
    shards: list[Shard] = []
    iterator = iter(examples)
    while some := list(itertools.islice(iterator, size)):
        shard = Shard(folder / f"{len(shards):05}.pickle", size * len(shards), len(some), solver)
        shard.work_file.write_bytes(pickle.dumps(some))
        shards.append(shard)
    return shards


def write_shard(shard: Shard, path: Path) -> None:
    """Writes the records of a shard to an ArrayRecord file, and |Z| of each to its `sizes_file`.

    Both get their names when they are complete, so that a worker that is killed, or that another
    one repeats, does no harm.

    Raises:
        InputError: the file cannot be written (disk full).
    """
    kind = shard.solver.kind
    partial = shard.work_file.with_name(uuid.uuid4().hex)
    sizes: list[int] = []
    # One record a group: records are read one by one, in any order.
    writer = ArrayRecordWriter(str(partial), "group_size:1")
    with writing(path):
        try:
            try:
                for _, record in shard():
                    writer.write(serialize(kind, record))
                    sizes.append(num_solutions(kind, record))
            finally:
                writer.close()
        except RuntimeError as error:  # of ArrayRecord, which notices a full disk when it closes
            raise InputError(f"{path}: cannot be written: {error}") from error
        os.replace(partial, path)
        partial.write_text(json.dumps(sizes))
        os.replace(partial, shard.sizes_file)


def write_here(shards: Iterable[tuple[Shard, Path]]) -> None:
    """Writes the shards one after another in this process."""
    for shard, path in shards:
        write_shard(shard, path)
