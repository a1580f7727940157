"""The table in the record of a question, and what is counted of such a record."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hardem_jax.data.data_sets import Record, RecordKind, to_json
from hardem_jax.tables.table import Table

#: Texts of every record with a table. ``defect`` says why a question is left out, if it is.
TABLE_TEXTS = ("table_id", "header", "types", "rows", "defect")
# The most recently used tables, read from disk.
_TABLES_IN_MEMORY = 1024


def table_of(record: Mapping[str, Any]) -> Table:
    """The table of a record with a table."""
    header, types, rows = (json.loads(record[key]) for key in ("header", "types", "rows"))
    return Table(record["table_id"], tuple(header), tuple(types), tuple(map(tuple, rows)))


def table_record(table: Table) -> Record:
    """The part of a record that holds the table."""
    return {
        "table_id": table.id,
        "header": to_json(table.header),
        "types": to_json(table.types),
        "rows": to_json(table.rows),
    }


def table_facts(kind: RecordKind, record: Record) -> dict[str, Any]:
    """What is counted of a record with a table: |Z| before and after the rules' cap, and so on."""
    names = ("id", "table_id", "defect")
    kept = len(record[kind.solutions])
    found = int(record[f"num_{kind.solutions}"])
    return {**{name: record[name] for name in names}, "found": found, "kept": kept}


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
