"""Questions of your own, a row each, in a file of any name.

CSV with any delimiter, JSON lines, a JSON list, or a list under "data" of an object; also ``.gz``.
`Columns` says which column of a table, or which key of an object, holds what.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hardem_jax.data.csv import read_csv_rows
from hardem_jax.data.json_fields import check_kind, json_type
from hardem_jax.data.json_stream import (
    PathLike,
    first_character,
    first_list,
    iter_json_items,
    iter_json_lines,
    iter_json_records,
    iter_lines,
)
from hardem_jax.errors import InputError

# What a column may be called where no flag names it; the first that a row has is taken.
_USUAL = {
    "id": ("id", "query_id"),
    "question": ("question",),
    "answer": ("answer", "answers", "number"),
    "text": ("text", "context", "passage", "document"),
    "table": ("table",),
}


@dataclasses.dataclass(frozen=True)
class Columns:
    """Names of the columns of a file, or of the keys of its objects; None for a usual name.

    Attributes:
        id: of the question; without it, the name of the file and the number of the row.
        question: its text.
        answer: a text or number, or several: a list, in CSV with vertical bars between them.
        text: what the question is about, a document or passage ("text", "context", "passage" or
            "document").
        table: the file of its table, in a folder ``tables`` next to the questions.
    """

    id: str | None = None
    question: str | None = None
    answer: str | None = None
    text: str | None = None
    table: str | None = None


#: Every column has a usual name.
USUAL = Columns()


class RawRow(NamedTuple):
    """A row as it is in its file.

    Attributes:
        place: file and line, for messages.
        name: of the file and the number of the row, from 0: an id where it has none.
        values: by column or key; those of CSV are texts.
        is_csv: whether it is from CSV, where bars separate answers.
    """

    place: str
    name: str
    values: dict[str, Any]
    is_csv: bool


def raw_rows(path: PathLike) -> Iterator[RawRow]:
    """The rows of a file.

    Raises:
        InputError: with the line: it is no row.
    """
    is_csv = first_character(path) not in (b"{", b"[")
    name = Path(path).name.partition(".")[0]
    for number, (place, values) in enumerate(_csv(path) if is_csv else _json(path)):
        yield RawRow(place, f"{name}-{number}", values, is_csv)


def read_rows(
    path: PathLike, columns: Columns, *roles: str, with_answers: bool = True
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (place, row) of a file, see `as_row`.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "mine.csv")
        ...     _ = file.write_text("question,reply,text\\nWho?,Ann|Bo,It was Ann and Bo.\\n")
        ...     [(_, row)] = read_rows(file, Columns(answer="reply"), "text")
        >>> row["id"], row["answers"], row["text"]
        ('mine-0', ['Ann', 'Bo'], 'It was Ann and Bo.')
    """
    for row in raw_rows(path):
        yield row.place, as_row(row, columns, *roles, with_answers=with_answers)


def as_row(raw: RawRow, columns: Columns, *roles: str, with_answers: bool = True) -> dict[str, Any]:
    """The "id", the "question", a list of texts "answers", and the texts of these ``roles``.

    Args:
        raw: as it is in its file.
        columns: what its columns are called.
        roles: fields of `Columns` that the row must have besides the question.
        with_answers: whether it must have answers; their list may be empty. Without, none are read.

    Raises:
        InputError: it lacks a column, or has no text in it.
    """
    place, values = raw.place, raw.values
    row: dict[str, Any] = {}
    for role in ("question", *roles):
        row[role] = _text(values[column_of(values, role, columns, place)], role, place)
    row["id"] = row_id(raw, columns)
    answers = (answer_values(raw, columns, required=True) if with_answers else None) or []
    texts = [_text(value, "answer", place) for value in answers]
    return row | {"answers": [text for text in texts if text.strip()]}


def row_id(raw: RawRow, columns: Columns) -> str:
    """Its own id; where it has none, the row's name."""
    column = column_of(raw.values, "id", columns, raw.place, required=columns.id is not None)
    return (_text(raw.values[column], "id", raw.place).strip() if column else "") or raw.name


def answer_values(raw: RawRow, columns: Columns, *, required: bool) -> list[Any] | None:
    """The answers as they are in the file; None if it gives none."""
    column = column_of(raw.values, "answer", columns, raw.place, required=required)
    found = raw.values[column] if column else None
    if isinstance(found, Mapping) and "text" in found:  # as Hugging Face's data sets have them
        found = found["text"]
    if isinstance(found, str) and raw.is_csv:
        return found.split("|") if found.strip() else None
    if found is None or found != found:  # pandas' NaN
        return None
    return found if isinstance(found, list) else [found]


def _csv(path: PathLike) -> Iterator[tuple[str, dict[str, Any]]]:
    (line, names), *rows = read_csv_rows(path)
    names = [name.strip() for name in names]
    if repeated := {name for name in names if name and names.count(name) > 1}:
        expected = "expected different names of columns"
        raise InputError(f"{path}: line {line}: {expected}, found {min(repeated)!r} twice")
    for line, row in rows:
        cells = [*row, *[""] * (len(names) - len(row))]
        yield f"{path}: line {line}", dict(zip(names, cells, strict=True))


def _json(path: PathLike) -> Iterator[tuple[str, dict[str, Any]]]:
    if first_list(path, "data"):
        for index, row in iter_json_items(path, "data"):
            yield f"{path}: item {index} of 'data'", row
    elif next((line for _, line in iter_lines(path) if line.strip()), "").strip() == "{":
        expected = "expected an object on each line, a list, or a list under 'data'"
        found = f"a list under {first_list(path)!r}" if first_list(path) else "one on several lines"
        raise InputError(f"{path}: {expected}, found {found}")
    elif first_character(path) == b"{":  # NaN, as Python and pandas write it, is a missing value
        for line, row in iter_json_lines(path):
            yield f"{path}: line {line}", row
    else:
        for _, place, row in iter_json_records(path):
            yield place, row


def column_of(
    row: Mapping[str, Any], role: str, columns: Columns, place: str, *, required: bool = True
) -> str:
    """The column of a role; "" if there is none and it is not required."""
    chosen = getattr(columns, role, None)
    names = _USUAL.get(role, (role,)) if chosen is None else (chosen,)
    by_name = {name.lower(): name for name in reversed(list(row))} | {name: name for name in row}
    if found := next((by_name[name] for name in names if name in by_name), None):
        return found
    if not required:
        return ""
    raise InputError(
        f"{place}: expected a column {' or '.join(map(repr, names))} (--columns.{role} names "
        f"another), found {', '.join(map(repr, row)) or 'none'}"
    )


def _text(value: Any, name: str, place: str) -> str:
    """A text, or a number as one; empty for null and NaN."""
    if value is None or value != value:
        return ""
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.15g}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(int(value) if abs(value) < 2**63 else value)  # not the 301 digits of 1e300
    if isinstance(value, (list, dict, bool)):
        raise InputError(f"{place}: expected {name!r} to be a text, found {json_type(value)}")
    return check_kind(value, str, f"{place}: expected {name!r} to be")
