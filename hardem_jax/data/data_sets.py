"""What a task says of the data sets that can be built for it, without importing TFDS.

A `RecordKind` says how a question and its Z lie on disk, a `Solver` finds Z, and a `DataSet`
reads official files; its fields are its options.
"""

from __future__ import annotations

import abc
import copy
import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from hardem_jax.data.exclusions import ExclusionCounts

Record = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class RecordKind:
    """The records of a task. They hold texts and no tokens, so that they serve every encoder.

    Attributes:
        name: of the folder of `hardem_jax` whose ``records.RECORDS`` this is.
        to_example: record -> the task's own object.
        texts, lists, numbers: names of its texts, lists of texts, and integers.
        arrays: name -> (dtype, width) of an array with as many rows as there are; None for one
            dimension. Their bytes are stored: floats of a `Tensor` lose half their digits.
        solutions: the array that is Z.
        no_solution: why "train" leaves out a question whose Z is empty; "" keeps it.
        repetitions: whether the golds of repeated questions are kept, for official scores.
        with_table: whether records hold a table, see `hardem_jax.tables.records`.
    """

    name: str
    to_example: Callable[[Mapping[str, Any]], Any]
    texts: tuple[str, ...]
    arrays: Mapping[str, tuple[str, int | None]]
    solutions: str
    lists: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    no_solution: str = ""
    repetitions: bool = False
    with_table: bool = False

    def values(self, record: Mapping[str, Any], *names: str) -> Record:
        """Arrays, numbers and the named texts of a record, as keywords of an example."""
        return {name: record[name] for name in (*names, *self.numbers, *self.arrays)}

    def values_of(self, example: Any) -> Record:
        """The same of an example, as a part of its record."""
        return {name: getattr(example, name) for name in (*self.numbers, *self.arrays)}


class Solver(abc.ABC):
    """Finds Z: examples in, records out.

    Subclasses are frozen dataclasses of rules. They can be pickled, and what they make of an
    example depends only on it and the rules, so it does not matter which machine runs them.
    """

    kind: ClassVar[RecordKind]

    @abc.abstractmethod
    def records(self, examples: Sequence[Any], /) -> Iterator[Record]:
        """As many records as examples, in their order."""

    def facts(self, record: Record) -> dict[str, Any]:
        """What `hardem_jax.data.builders.base` counts of a record: at least its id and |Z|."""
        return {"id": record["id"], "found": len(record[self.kind.solutions])}


@dataclasses.dataclass(frozen=True)
class DataSet(abc.ABC):
    """A data set that can be built; its fields are what can be chosen.

    Attributes:
        NAME: of its folder.
        SPLITS: built by default, as far as their files are present.
        HOME: where a person gets the files.
        METRIC: module of `hardem_jax.documents.metrics` for documents, else None.
    """

    NAME: ClassVar[str]
    SPLITS: ClassVar[tuple[str, ...]] = ("train", "dev")
    HOME: ClassVar[str]
    METRIC: ClassVar[str | None] = None
    files: ClassVar[Mapping[str, Path]] = {}

    @abc.abstractmethod
    def source_names(self, folder: Path | None, split: str) -> tuple[str, ...]:
        """Files and folders that determine a split, relative to ``folder``."""

    @abc.abstractmethod
    def read(self, folder: Path, split: str, skips: ExclusionCounts) -> Iterator[Any]:
        """The examples of a split, in the order of the file, without Z."""

    def source_files(self, folder: Path, split: str) -> dict[str, Path]:
        """The files of a split, each by the name under which a build records its digest."""
        if file := self.files.get(split):
            return {file.name: file}
        return {name: folder / name for name in self.source_names(folder, split)}

    def with_files(self, files: Mapping[str, Path]) -> Self:
        """The same with a file of any name and place for each split.

        A build is found again wherever they lie, so they are no option, and no field.
        """
        own = copy.copy(self)
        object.__setattr__(own, "files", dict(files))
        return own

    @property
    @abc.abstractmethod
    def solver(self) -> Solver:
        """Finds Z of the examples."""


def to_json(value: Any) -> str:
    """Cells and golds, which mix types, as a text of a record."""
    return json.dumps(value, ensure_ascii=False)
