"""A split cut into shards, each of which can be written by any process, to the same bytes.

Reading is done once, by the process that starts the build: it is quick, it has to see the file in
order (ids that repeat, tables before their questions), and it counts what is left out. It leaves
examples in work files. Each becomes a shard, in this process, in several on this machine, or in
those that `hardem_jax.data.builders.beam` runs elsewhere.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import pickle
import uuid
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from array_record.python.array_record_module import ArrayRecordWriter

from hardem_jax.data.builders.features import serialize
from hardem_jax.data.data_sets import Record, Solver
from hardem_jax.data.files import writing
from hardem_jax.data.parallel import map_in_order
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
        shard = Shard(folder / f"{len(shards):05}.pickle", size * len(shards), len(some), solver)
        shard.work_file.write_bytes(pickle.dumps(some))
        shards.append(shard)
    return shards


def write_shard(shard: Shard, path: Path) -> None:
    """Writes the records of a shard to an ArrayRecord file, and their facts to its `facts_file`.

    Both get their names when they are complete, so that a worker that is killed, or that another
    one repeats, does no harm.
    """
    kind = shard.solver.kind
    partial = shard.work_file.with_name(uuid.uuid4().hex)
    rows: list[dict[str, Any]] = []
    # One record per group: records are read one by one, in any order.
    writer = ArrayRecordWriter(str(partial), "group_size:1")
    with writing(path):
        try:
            try:
                for _, record in shard():
                    data = serialize(kind, record)
                    writer.write(data)
                    facts = shard.solver.facts(record)
                    rows.append(facts | {"digest": sha256(data).hexdigest()})
            finally:
                writer.close()
        except RuntimeError as error:  # of ArrayRecord, which notices a full disk when it closes
            raise InputError(f"{path}: cannot be written: {error}") from error
        os.replace(partial, path)
        partial.write_text(json.dumps(rows), "utf-8")
        os.replace(partial, shard.facts_file)


def write_here(shards: Sequence[tuple[Shard, Path]], processes: int = 1) -> Iterator[None]:
    """Writes the shards on this machine, in several processes, and yields after each."""
    return map_in_order(_write, shards, processes=processes, chunk_size=1)


def _write(pair: tuple[Shard, Path]) -> None:
    write_shard(*pair)
