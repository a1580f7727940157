"""Prepared questions on tables, on disk; `hardem_jax.data.prepared.queries` makes them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardem_jax.data.examples import Match
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.files import read_json, read_meta, write_json
from hardem_jax.data.prepared.records import (
    Codec,
    RecordSource,
    RecordWriter,
    read_left_out,
    size_summary,
    write_left_out,
)
from hardem_jax.errors import InputError
from hardem_jax.solutions.sql.enumeration import MAX_CONDITIONS, ROW_WIDTH, Cell, SqlRules, Table

FORMAT = "queries 2"

# Of the tables used last, read from disk.
_TABLES_IN_MEMORY = 1024


@dataclasses.dataclass(frozen=True)
class QueryQuestion:
    """A question with its Z.

    Attributes:
        id, question, answer, match, values: as in `data.examples.TableQuestion`
            (tuples are lists once they were on disk).
        table_id: of its table.
        words: ``[W, 2]`` int32 characters of the question's words, see `split_words`.
        queries: ``[Z, 15]`` int16, see `hardem_jax.solutions.sql.Query.from_row`.
        num_queries: |Z| before the rules' cap.
        max_conditions: of the queries that were tried, see `hardem_jax.solutions.sql.Solutions`.
    """

    id: str
    question: str
    table_id: str
    answer: Sequence[Cell]
    match: Match
    values: Sequence[str] | None
    words: np.ndarray
    queries: np.ndarray
    num_queries: int
    max_conditions: int = MAX_CONDITIONS


class _TableCodec(Codec[Table]):
    def decode(self, data: bytes) -> Table:
        table = super().decode(data)  # with lists, which tables never compare equal to
        rows = tuple(tuple(row) for row in table.rows)
        return Table(table.id, tuple(table.header), tuple(table.types), rows)


QUESTIONS = Codec(
    QueryQuestion,
    {"words": ("<i4", (-1, 2)), "queries": ("<i2", (-1, ROW_WIDTH))},
    sizes=lambda question: (len(question.words), len(question.queries)),
)
TABLES = _TableCodec(Table, {}, sizes=lambda table: (len(table.header), len(table.rows)))


class PreparedQueries:
    """A folder that `hardem_jax.data.prepared.queries.prepare_queries` wrote.

    Attributes:
        questions: `QueryQuestion` by index.
        tables: `Table` by id, read when it is asked for.
        rules: Z_tot.
        left_out: see `hardem_jax.data.prepared.records.read_left_out`.
        meta: content of ``meta.json``.

    Raises:
        InputError: if the folder is not a complete prepared split of this format.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.meta = read_meta(folder, format=FORMAT)
        self.rules = SqlRules(**self.meta["rules"])
        self.questions = RecordSource(folder / "questions", QUESTIONS)
        self.tables: Mapping[str, Table] = _Tables(folder)
        self.left_out = read_left_out(folder)


class _Tables(Mapping[str, Table]):
    """Tables by id; of those used last, the same object every time."""

    def __init__(self, folder: Path):
        file = folder / "tables.ids.json"
        records = RecordSource(folder / "tables", TABLES)
        self._places = dict(zip(read_json(file), range(len(records)), strict=True))
        self._read = functools.lru_cache(_TABLES_IN_MEMORY)(records.__getitem__)

    def __getitem__(self, id: str) -> Table:
        return self._read(self._places[id])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class SplitWriter:
    """Writes a prepared split into an empty folder."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._questions = RecordWriter(folder / "questions", QUESTIONS)
        self._tables = RecordWriter(folder / "tables", TABLES)
        self._known: dict[str, Table] = {}
        self._ids: set[str] = set()
        self._found: list[int] = []
        self._kept: list[int] = []

    @property
    def num_questions(self) -> int:
        """Written so far."""
        return len(self._found)

    def write(self, question: QueryQuestion, table: Table) -> None:
        """Appends a question, and its table if that is new.

        Raises:
            InputError: another table has this id.
        """
        known = self._known.get(table.id)
        if known is None:
            self._known[table.id] = table
            self._tables.write(table)
        elif known is not table and known != table:
            raise InputError(f"{question.id}: expected one table {table.id!r}, found a second one")
        self._questions.write(question)
        self._ids.add(question.id)
        self._found.append(question.num_queries)
        self._kept.append(len(question.queries))

    def close(self, meta: dict[str, Any], exclusions: ExclusionCounts) -> dict[str, Any]:
        """Writes what is known of the split, counts and |Z| statistics added, and returns it.

        Args:
            meta: rules, sources and options.
            exclusions: what the reader and the search for Z left out.
        """
        self._questions.close()
        self._tables.close()
        write_json(self._folder / "tables.ids.json", list(self._known))
        write_left_out(self._folder, exclusions, self._ids)
        sizes = list(zip(self._found, self._kept, strict=True))
        counts = {
            "questions read": len(sizes) + exclusions.total,
            "left out": exclusions.total,
            "questions": len(sizes),
            "questions with a solution": sum(found > 0 for found, _ in sizes),
            "questions cut by the cap": sum(found > kept for found, kept in sizes),
            "solutions cut by the cap": sum(found - kept for found, kept in sizes),
            "tables": len(self._known),
        }
        summary = {"solutions per question": size_summary(self._found)}
        left_out = {
            "excluded": exclusions.as_dict(),
            "warnings": exclusions.warnings_as_dict(),
        }
        content = {"content": [self._questions.content, self._tables.content]}
        meta = {"format": FORMAT, **meta, **content, "counts": counts, **left_out, **summary}
        write_json(self._folder / "meta.json", meta)
        return meta
