"""Reader for your own questions on tables, with answers and no queries.

Rows are those of `hardem_jax.data.rows`. In JSON, a table may stand before its first question:

    {"table": {"id": "1-1", "header": ["player"], "types": ["text"], "rows": [["ann"], ["bo"]]}}
    {"id": "train-0", "question": "Who?", "table_id": "1-1", "answer": ["Bo"], "match": "cells"}

A question may name a table file instead, below ``tables/`` next to the file of questions; it is
read by `read_csv_table`. So do the rows of CSV, where vertical bars separate an answer's cells:

    question,table,answer
    Who scored 5 goals?,players.csv,Bo
    Who scored?,players.csv,Ann|Bo

"match" may be left out; `hardem_jax.tables.examples.Match` lists the comparisons of results with
the answer. "execution" is WikiSQL's and tells "7" from 7; "denotation", WikiTableQuestions',
ignores the order of cells, needs texts, and may have the value of each under "values".

`hardem_jax.queries.builds.TableQuestions` builds Z of such files, and
`hardem_jax.programs.builds.TablePrograms` that of programs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast, get_args

from hardem_jax.data.exclusions import EMPTY_QUESTION, NO_ANSWER, ExclusionCounts
from hardem_jax.data.json_fields import check_kind, get_field, get_id, get_strings
from hardem_jax.data.json_stream import PathLike
from hardem_jax.data.rows import USUAL, Columns, RawRow, answer_values, column_of, raw_rows, row_id
from hardem_jax.errors import InputError
from hardem_jax.tables.csv import file_inside, read_csv_table
from hardem_jax.tables.examples import Match, TableQuestion
from hardem_jax.tables.table import Cell, Table, clean_question, plain_text

# Warnings of `ExclusionCounts`:
RAGGED = "table with rows of different lengths, padded"


def read_table_questions(
    path: PathLike, *, skips: ExclusionCounts, columns: Columns = USUAL
) -> Iterator[TableQuestion]:
    """Streams the questions of a file in a layout of `hardem_jax.data.rows`.

    ``skips`` counts what is left out, by id: empty question, no answer given. ``columns`` names the
    columns, or the keys of objects.

    Raises:
        InputError: with the line, what is not in this layout.
    """
    tables: dict[str, Table] = {}
    for raw in raw_rows(path):
        place = raw.place
        if isinstance(raw.values.get("table"), dict):
            table = read_table(raw.values["table"], place)
            if tables.setdefault(table.id, table) != table:
                raise InputError(f"{place}: expected one table {table.id!r}, found a second one")
            continue
        record = _record(raw, columns)
        asked = str(record.get("question") or "").strip()
        if asked and (name := record.get("table")) is not None:
            if name not in tables:
                tables[name] = _read_file(Path(path).parent / "tables", name, place)
            record["table_id"] = name
        if question := _question(record, tables, place, skips):
            yield question


def _record(raw: RawRow, columns: Columns) -> dict[str, Any]:
    """A row with the keys that are described above; empty cells of CSV are left out."""
    record: dict[str, Any] = {"id": row_id(raw, columns)}
    for role in ("question", "table", "table_id", "match", "values"):
        required = role == "question" or (role == "table" and "table_id" not in raw.values)
        column = column_of(raw.values, role, columns, raw.place, required=required)
        if column and (not raw.is_csv or raw.values[column].strip()):
            record[role] = raw.values[column]
    if isinstance(values := record.get("values"), str):
        record["values"] = values.split("|")
    if "table_id" not in record:
        place = f"{raw.place}: expected 'table' to be"
        record["table"] = check_kind(record.get("table", ""), str, place).strip()
    return record | {"answer": answer_values(raw, columns, required=raw.is_csv)}


def _read_file(folder: Path, name: str, place: str) -> Table:
    file = file_inside(folder, name, place)
    if not os.path.isfile(file):
        raise InputError(f"{place}: expected a table file {file}, found none")
    return read_csv_table(file, id=name)


def read_table(
    record: dict[str, Any], place: str, *, lower: bool = False, skips: ExclusionCounts | None = None
) -> Table:
    """The table of a JSON object with "id", "header", "types" and "rows". ``lower`` lower-cases its
    cells. Rows of different lengths are fitted with a warning to ``skips``, an error if None."""
    id = get_id(record, "id", place)
    if id is None:
        raise InputError(f"{place}: expected a table with 'id', found one without")
    place = f"{place} ({id})"
    header, types = get_strings(record, "header", place), get_strings(record, "types", place)
    written = str.lower if lower else plain_text
    rows = []
    for number, row in enumerate(get_field(record, "rows", list, place) or []):
        row = check_kind(row, list, f"{place}: expected each row to be")
        rows.append(tuple(_cell(cell, written, f"{place}: row {number}") for cell in row))
    if skips is not None and any(len(row) != len(header) for row in rows):
        skips.warn(RAGGED, id)
        rows = [(row + (None,) * len(header))[: len(header)] for row in rows]
    try:
        return Table(id, header, types, tuple(rows))
    except ValueError as error:
        raise InputError(f"{place}: {error}") from error


def _cell(cell: Any, written: Callable[[str], str], place: str) -> Cell:
    if cell is None or isinstance(cell, float):
        return cell
    if isinstance(cell, int) and not isinstance(cell, bool):
        if not -(2**63) <= cell < 2**63:
            raise InputError(f"{place}: expected integers of 64 bits or text, found {cell!s:.40}")
        return cell
    return written(check_kind(cell, str, f"{place}: expected each cell to be a number, null or"))


def _question(
    record: dict[str, Any], tables: dict[str, Table], place: str, skips: ExclusionCounts
) -> TableQuestion | None:
    id = record["id"]
    place = f"{place} ({id})"
    question = clean_question(get_field(record, "question", str, place) or "")
    answer = get_field(record, "answer", list, place)
    table_id = get_id(record, "table_id", place)
    if not question:
        return skips.add(EMPTY_QUESTION, id)
    if answer is None:
        return skips.add(NO_ANSWER, id)
    if table_id not in tables:
        raise InputError(f"{place}: expected a table {table_id!r} in a line before, found none")
    match = get_field(record, "match", str, place) or "cells"
    if match not in get_args(Match):
        raise InputError(f"{place}: expected 'match' to be one of {get_args(Match)}, found {match}")
    written = plain_text if match == "execution" else str  # others ignore white space
    cells: tuple[Cell, ...] = tuple(_cell(cell, written, place) for cell in answer)
    if match == "denotation" and not (cells := get_strings(record, "answer", place)):
        return skips.add(NO_ANSWER, id)
    values = get_strings(record, "values", place) if record.get("values") is not None else None
    if values is not None and len(values) != len(cells):
        raise InputError(f"{place}: expected {len(cells)} under 'values', found {len(values)}")
    return TableQuestion(id, question, tables[table_id], cells, cast(Match, match), values)
