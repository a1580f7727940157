"""The file of questions on tables, from which everything after reading works.

One JSON object a line, a table before the first question on it:

    {"table": {"id": "1-1", "header": ["player"], "types": ["text"], "rows": [["ann"], ["bo"]]}}
    {"id": "train-0", "question": "Who?", "table_id": "1-1", "answer": ["bo"], "match": "execution"}

It holds answers and no query: what is built from it is built from answers alone.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast, get_args

from hardem_jax.data.examples import Match, TableQuestion
from hardem_jax.data.exclusions import EMPTY_QUESTION, NO_ANSWER, NO_ID, ExclusionCounts
from hardem_jax.data.files import new_file
from hardem_jax.data.json_fields import check_kind, get_field, get_id, get_strings
from hardem_jax.data.json_stream import PathLike, iter_json_lines
from hardem_jax.errors import InputError
from hardem_jax.solutions.sql.types import Cell, Table

# Warnings of `ExclusionCounts`:
RAGGED = "table with rows of different lengths, padded"
REPEATED = "question id occurs again"


def write_table_questions(questions: Iterable[TableQuestion], out: PathLike) -> int:
    """Writes questions and their tables; the file gets its name when it is complete.

    Returns:
        Number of questions.

    Raises:
        InputError: the file cannot be written, or two tables have one id.
    """
    out = Path(out)
    written: dict[str, Table] = {}
    count = 0
    with new_file(out) as partial, partial.open("w", encoding="utf-8") as file:
        for question in questions:
            table = question.table
            if (known := written.get(table.id)) is None:
                written[table.id] = table
                _write_line(file, {"table": asdict(table)})
            elif known is not table and known != table:
                raise InputError(f"{out}: two tables with the id {table.id!r} that differ")
            _write_line(file, _record(question))
            count += 1
    return count


def read_table_questions(path: PathLike, *, skips: ExclusionCounts) -> Iterator[TableQuestion]:
    """Streams the questions of a file that `write_table_questions` wrote, or a person.

    Args:
        path: JSON lines, also compressed as `.gz`.
        skips: counts what is left out, by id or line. Left out: no question id, empty question, no
            answer given. Warned of: question id that occurred before.

    Raises:
        InputError: with the line: not JSON, a value of the wrong type, a table that was not yet
            there, or one that does not hold together.

    Example:
        >>> import tempfile
        >>> table = Table("1-1", ("player", "no."), ("text", "real"), (("ann", 7.0), ("bo", None)))
        >>> question = TableQuestion("train-0", "Who wears number 7?", table, ("ann",))
        >>> skips = ExclusionCounts()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "train.jsonl")
        ...     _ = write_table_questions([question], file)
        ...     read = list(read_table_questions(file, skips=skips))
        >>> read == [question], skips.total
        (True, 0)
    """
    tables: dict[str, Table] = {}
    seen: set[str] = set()
    for number, record in iter_json_lines(path):
        place = f"{path}: line {number}"
        if "table" in record:
            table = read_table(get_field(record, "table", dict, place) or {}, place)
            tables[table.id] = table
        elif question := _question(record, tables, place, skips):
            if question.id in seen:
                skips.warn(REPEATED, question.id)
            seen.add(question.id)
            yield question


def read_table(
    record: dict[str, Any], place: str, *, lower: bool = False, skips: ExclusionCounts | None = None
) -> Table:
    """The table of a JSON object with "id", "header", "types" and "rows".

    Args:
        record: the object.
        place: file and line, with which messages begin.
        lower: text cells in lower case.
        skips: warned of a table whose rows have different lengths, which are filled up with NULL
            and cut to the header's. None if that is an error.

    Raises:
        InputError: something is missing, of the wrong type, or does not fit the rest.
    """
    id = get_id(record, "id", place)
    if id is None:
        raise InputError(f"{place}: expected a table with 'id', found one without")
    place = f"{place} ({id})"
    header, types = get_strings(record, "header", place), get_strings(record, "types", place)
    rows = []
    for number, row in enumerate(get_field(record, "rows", list, place) or []):
        row = check_kind(row, list, f"{place}: expected each row to be")
        rows.append(tuple(_cell(cell, lower, f"{place}: row {number}") for cell in row))
    if skips is not None and any(len(row) != len(header) for row in rows):
        skips.warn(RAGGED, id)
        nothing = (None,) * len(header)
        rows = [(row + nothing)[: len(header)] for row in rows]
    try:
        return Table(id, header, types, tuple(rows))
    except ValueError as error:
        raise InputError(f"{place}: {error}") from error


def _cell(cell: Any, lower: bool, place: str) -> Cell:
    if cell is None or isinstance(cell, float):
        return cell
    if isinstance(cell, int) and not isinstance(cell, bool):
        if not -(2**63) <= cell < 2**63:
            raise InputError(f"{place}: expected integers of 64 bits, found {str(cell)[:40]}")
        return cell
    text = check_kind(cell, str, f"{place}: expected each cell to be a number, null or")
    return text.lower() if lower else text


def _record(question: TableQuestion) -> dict[str, Any]:
    record = {
        "id": question.id,
        "question": question.question,
        "table_id": question.table.id,
        "answer": question.answer,
        "match": question.match,
    }
    return record if question.values is None else record | {"values": question.values}


def _write_line(file: io.TextIOBase, record: dict[str, Any]) -> None:
    file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _question(
    record: dict[str, Any], tables: dict[str, Table], place: str, skips: ExclusionCounts
) -> TableQuestion | None:
    id = get_id(record, "id", place)
    if id is None:
        return skips.add(NO_ID, place)
    place = f"{place} ({id})"
    question = get_field(record, "question", str, place) or ""
    answer = get_field(record, "answer", list, place)
    table_id = get_id(record, "table_id", place)
    if not question.strip():
        return skips.add(EMPTY_QUESTION, id)
    if answer is None:
        return skips.add(NO_ANSWER, id)
    if table_id not in tables:
        raise InputError(f"{place}: expected a table {table_id!r} in a line before, found none")
    match = get_field(record, "match", str, place) or "execution"
    if match not in get_args(Match):
        raise InputError(f"{place}: expected 'match' to be one of {get_args(Match)}, found {match}")
    if match == "denotation":
        cells: tuple[Cell, ...] = get_strings(record, "answer", place)
    else:
        cells = tuple(_cell(cell, False, place) for cell in answer)
    values = get_strings(record, "values", place) if record.get("values") is not None else None
    if values is not None and len(values) != len(cells):
        raise InputError(f"{place}: expected {len(cells)} under 'values', found {len(values)}")
    return TableQuestion(id, question, tables[table_id], cells, cast(Match, match), values)
