"""The splits of builds as models are trained and evaluated on them."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hardem_jax.data.builders.features import (
    Kind,
    Record,
    to_numeric_question,
    to_program_question,
    to_query_question,
    to_table,
)
from hardem_jax.data.builders.read import Examples, open_build
from hardem_jax.data.drawing import draw_first
from hardem_jax.data.exclusions import REPEATED_ID, reasons
from hardem_jax.data.json_stream import PathLike
from hardem_jax.errors import InputError
from hardem_jax.solutions.equations.enumeration import EquationRules
from hardem_jax.solutions.equations.numbers import NumberConfig
from hardem_jax.solutions.programs.rules import ProgramRules
from hardem_jax.solutions.sql.enumeration import SqlRules, Table

# The most recently used tables, read from disk.
_TABLES_IN_MEMORY = 1024


class _Split:
    """Common to all kinds of records; see `NumericSplit`."""

    def __init__(
        self,
        folder: PathLike,
        split: str,
        kind: Kind,
        make: Callable[[Record], Any],
        drawn: int | None,
    ):
        build = open_build(folder)
        if build.kind != kind:
            raise InputError(
                f"{build.folder}: expected a build of kind {kind!r}, found {build.kind!r}"
            )
        records = build.records(split)
        index = build.index(split)
        skipped, kept = set(index["skipped"]), set(index["kept"])
        places = [place for place in range(len(records)) if place not in skipped]
        self._records, self._index = records, index
        self.folder = build.folder
        read = make if drawn is None else lambda record: draw_first(make(record), drawn)
        self.questions: Sequence[Any] = Examples(records, read, places)
        self.left_out = reasons(index["left_out"], kept)
        counts = {n: found for n, found in build.meta["splits"][split].items() if n != "report"}
        self.meta: dict[str, Any] = {
            "format": build.meta["format"],
            "data set": build.meta["data set"],
            **build.meta["options"],
            **counts,
        }


class NumericSplit(_Split):
    """Questions on numbers with Z, of a build.

    Args:
        folder: of the build, or one that holds no other.
        split: of the build.
        drawn: the seed of `draw_first`; None for Z in its order.

    Attributes:
        folder: of the build.
        questions: `NumericQuestion` by index, in the order of the source; of "train", those that
            have a solution.
        rules: that Z follows.
        numbers: what counts as a number.
        left_out: id -> reason of every other question of the source file. An official metric
            counts these, too.
        repeated: id -> the golds of every repetition of the question in the source file; here, it
            occurs once. The official evaluator scores its answer against each of them. Golds of
            questions left out are not kept.
        meta: options, counts, |Z| statistics, and a digest of all that scores depend on.

    Raises:
        InputError: there is no such build or split, it is of another kind, or a file is damaged.
    """

    def __init__(self, folder: PathLike, split: str, *, drawn: int | None = None):
        super().__init__(folder, split, "numeric", to_numeric_question, drawn)
        self.rules = EquationRules(**self.meta["rules"])
        self.numbers = NumberConfig(**self.meta["numbers"])
        self.repeated: dict[str, list[Sequence[Any]]] = {}
        repeats = any(reason == REPEATED_ID for _, reason in self._index["left_out"])
        if repeats and "repeated" not in self._index:
            raise InputError(
                f"{self.folder}: expected the golds of questions that are repeated, found none, as "
                "in builds of an earlier version; build it again"
            )
        kept = set(self._index["kept"])
        for id, golds in self._index.get("repeated", ()):
            if id in kept:
                self.repeated.setdefault(id, []).append(golds)
        for id, count in Counter(id for id, _ in self._index["left_out"] if id not in kept).items():
            if count > 1:
                self.repeated[id] = [()] * (count - 1)


class TableSplit(_Split):
    """Questions on tables with Z, of a build; otherwise as `NumericSplit`.

    Attributes:
        questions: `QueryQuestion` by index.
        rules: Z_tot.
        tables: `Table` by id, read when it is asked for.
    """

    def __init__(self, folder: PathLike, split: str, *, drawn: int | None = None):
        super().__init__(folder, split, "queries", to_query_question, drawn)
        self.rules = SqlRules(**self.meta["rules"])
        self.tables: Mapping[str, Table] = _Tables(self._index["tables"], self._records)


class ProgramSplit(_Split):
    """Questions on tables with programs as Z, of a build; otherwise as `NumericSplit`.

    Attributes:
        questions: `ProgramQuestion` by index.
        rules: Z_tot.
        tables: `Table` by id, read when it is asked for.
    """

    def __init__(self, folder: PathLike, split: str, *, drawn: int | None = None):
        super().__init__(folder, split, "programs", to_program_question, drawn)
        self.rules = ProgramRules(**self.meta["rules"])
        self.tables: Mapping[str, Table] = _Tables(self._index["tables"], self._records)


class _Tables(Mapping[str, Table]):
    """Tables by id, in order of first use; recently used ones are cached."""

    def __init__(self, places: dict[str, int], records: Sequence[Record]):
        self._places = dict(sorted(places.items(), key=lambda item: item[1]))
        self._read = functools.lru_cache(_TABLES_IN_MEMORY)(lambda i: to_table(records[i]))

    def __getitem__(self, id: str) -> Table:
        return self._read(self._places[id])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
