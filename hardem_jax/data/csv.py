"""Reads CSV files in whatever dialect they are."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

from hardem_jax.data.json_stream import PathLike, long_csv_fields, read_text
from hardem_jax.errors import InputError

#: Of those that split a text alike, the first: commas also stand in numbers and in names.
DELIMITERS = ";\t|,"

# As Excel reads it.
_DELIMITER_LINE = re.compile(r"sep=(?P<delimiter>[^\r\n\"])(?=[\r\n]|$)", re.IGNORECASE)
_ESCAPE = re.compile(r'\\["\\]')


def read_csv_rows(path: PathLike) -> list[tuple[int, list[str]]]:
    """Names and rows of a CSV file, with the numbers of their last lines. No row has more cells
    than there are names. See `hardem_jax.tables.csv.read_csv_table`."""
    text = read_text(path)
    named = _DELIMITER_LINE.match(text)
    delimiters = named["delimiter"] if named else DELIMITERS
    rows = _guess_dialect(text, str(path), delimiters)[1 if named else 0 :]
    if not rows:
        raise InputError(f"{path}: expected a line with the names of columns, found an empty file")
    width = len(rows[0][1])
    for line, row in rows:
        if any(cell.strip() for cell in row[width:]):
            expected = f"expected at most {width} cells, as many as there are names of columns"
            raise InputError(f"{path}: line {line}: {expected}, found {len(row)}")
    return [(line, row[:width]) for line, row in rows]


def parse_csv(text: str, place: str, **dialect: Any) -> list[tuple[int, list[str]]]:
    """The non-empty rows of a CSV text with the numbers of their last lines, strictly."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, **dialect)
    try:
        with long_csv_fields():
            return [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        expected = "expected comma-separated values"
        raise InputError(f"{place}: line {reader.line_num}: {expected}, found {error}") from error


def _guess_dialect(text: str, place: str, delimiters: str) -> list[tuple[int, list[str]]]:
    """The rows of a text with their lines, in the dialect that fits it best."""
    # Quotation marks are doubled within quotes; where backslashes precede them, they become so.
    doubled = _ESCAPE.sub(lambda escape: '""' if escape[0] == '\\"' else "\\", text)
    only_escapes = "\\" in text and "\\" not in _ESCAPE.sub("", text)
    texts = dict.fromkeys((doubled, text) if only_escapes else (text, doubled))
    best, most = None, (-1.0, 0)
    for delimiter in delimiters:
        found: list[tuple[int, list[str]]] | InputError | None = None
        for quoted in texts:
            try:
                found = parse_csv(quoted, place, delimiter=delimiter)
                break
            except InputError as error:
                found = found or error
        rows = found
        if not isinstance(rows, list):  # which does not make another delimiter the right one
            rows = parse_csv(text, place, delimiter=delimiter, quoting=csv.QUOTE_NONE)
        widths = [len(row) for _, row in rows]
        split = [width for width in widths if width > 1]
        mode = max(set(split), key=lambda width: (split.count(width), width), default=1)
        regularity = split.count(mode) / max(1, len(widths)), mode
        if regularity > most:
            best, most = rows if delimiter == "\t" else found, regularity
    if isinstance(best, InputError):
        raise best
    assert best is not None
    return best
