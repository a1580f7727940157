"""Records of questions on tables."""

from __future__ import annotations

import abc
import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from hardem_jax.data.data_sets import DataSet, Record, RecordKind, Solver, to_json
from hardem_jax.data.exclusions import NOT_ENUMERABLE
from hardem_jax.errors import InputError
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.table import Table

#: Texts of every record with a table. ``defect`` says why a question is left out, if it is.
TABLE_TEXTS = ("table_id", "header", "types", "rows", "defect")
# Texts that are written as JSON, or are not those of a question.
_WRITTEN = (*TABLE_TEXTS, "answer", "values")
# The most recently used tables, read from disk.
_TABLES_IN_MEMORY = 1024


def table_of(record: Mapping[str, Any]) -> Table:
    header, types, rows = (json.loads(record[key]) for key in ("header", "types", "rows"))
    return Table(record["table_id"], tuple(header), tuple(types), tuple(map(tuple, rows)))


def question_record(kind: RecordKind, question: Any, table: Table, defect: str = "") -> Record:
    """The record of a question with its Z; ``defect`` says why it is left out, if so."""
    texts = {name: getattr(question, name) for name in kind.texts if name not in _WRITTEN}
    return {
        **texts,
        "answer": to_json(question.answer),
        "values": to_json(question.values),
        "table_id": table.id,
        "header": to_json(table.header),
        "types": to_json(table.types),
        "rows": to_json(table.rows),
        "defect": defect,
        **kind.values_of(question),
    }


@dataclasses.dataclass(frozen=True)
class TableSolver(Solver):
    """Finds Z of questions on tables; ``rules`` are Z_tot."""

    rules: Any

    @abc.abstractmethod
    def solve(self, example: Any) -> tuple[Any, str]:
        """The question with its Z, and why it is left out. `InputError`: beyond what Z can hold."""

    @staticmethod
    @abc.abstractmethod
    def unsolved(example: TableQuestion, /) -> Any:
        """The question with an empty Z."""

    def records(self, examples: Sequence[TableQuestion]) -> Iterator[Record]:
        for example in examples:
            try:
                question, defect = self.solve(example)
            except InputError as error:  # kept, and marked
                question, defect = self.unsolved(example), f"{NOT_ENUMERABLE}: {error}"
            yield question_record(self.kind, question, example.table, defect)

    def facts(self, record: Record) -> dict[str, Any]:
        """|Z| before and after the rules' cap, and so on."""
        names = ("id", "table_id", "defect")
        kept = len(record[self.kind.solutions])
        found = int(record[f"num_{self.kind.solutions}"])
        return {**{name: record[name] for name in names}, "found": found, "kept": kept}


class OnTables(DataSet):
    """Questions on tables; SOLVER finds their Z by ``rules``."""

    SOLVER: ClassVar[type[TableSolver]]
    rules: Any

    @property
    def solver(self) -> TableSolver:
        return self.SOLVER(self.rules)


class Tables(Mapping[str, Table]):
    """Tables by id, in order of first use; recently used ones are cached."""

    def __init__(self, places: dict[str, int], records: Sequence[Record]):
        self._places = dict(sorted(places.items(), key=lambda item: item[1]))
        self._read = functools.lru_cache(_TABLES_IN_MEMORY)(lambda i: table_of(records[i]))

    def __getitem__(self, id: str) -> Table:
        return self._read(self._places[id])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
