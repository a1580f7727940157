"""Reads tables from CSV files and detects columns of numbers."""

from __future__ import annotations

import decimal
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from hardem_jax.data.csv import read_csv_rows
from hardem_jax.data.json_stream import PathLike
from hardem_jax.errors import InputError
from hardem_jax.tables.cell_values import parse_date, parse_quantity
from hardem_jax.tables.table import MAX_WHOLE, Cell, Table, plain_text

# Cells of a numeric column that stand for a missing number.
_NO_NUMBER = {"", *"-–—?…", "--", "...", "n/a", "na", "none", "tba", "tbd", "unknown"}
_NO_NUMBER_OF_OWN = {"nan", "null", "#n/a", "#div/0!", "#value!"}
# Groups of three digits; above the first thousand also groups of two, as in India.
_NUMBER = re.compile(
    r"(?P<sign>[-+−–]?) ?(?P<number>(?:[0-9]{1,3}(?:,[0-9]{2,3})*,[0-9]{3}|[0-9]+)?(?:\.[0-9]+)?"
    r"(?:(?<=[0-9])[eE][-+][0-9]{1,3})?)"  # as programs write 1e-05, not the "1E5" of a code
)
_CODE = re.compile("0[0-9]{2,}")
_CITATION = re.compile(r" ?(?:\[[^\[\]]+\]|[*†‡#])+")
_MINUS = ("-", "−", "–")


def make_table(
    id: str, header: Sequence[str], rows: Iterable[Sequence[str]], *, official: bool = False
) -> Table:
    """A table from text cells, with columns of numbers detected.

    White space is collapsed, and short rows (including the header) are padded with empty cells. A
    column is real if all its cells are numbers or NULL and at least one is a number:

    - digits, optionally with thousands commas, a sign and decimals: "12,467", "+0.5", "1e-05";
      above 2^53, where float64 loses digits, whole numbers become integers of 64 bits;
    - the same followed by citation marks, "7,144[2]" or "12*", or by a space and a unit that is
      the same in all cells and is not a month: "72 km";
    - NULL: an empty cell, a dash, "?", "...", or one of n/a, na, none, tba, tbd, unknown; in
      tables of your own also nan, null, and Excel's #N/A, #DIV/0! and #VALUE!.

    Everything else is text, including longer numbers, "5th", "5%" and "$5": WikiTableQuestions
    compares their texts, and a number could no longer answer which rank, share or price it was. So
    is a column with a code such as "007", but for ``official`` tables of WikiTableQuestions, whose
    cells become lower case. An empty cell of a text column is "", not NULL.
    """
    read = (lambda cell: " ".join(cell.split())) if official else plain_text
    texts = [[read(cell) for cell in row] for row in (header, *rows)]
    width = max(map(len, texts))
    names, *cells = [row + [""] * (width - len(row)) for row in texts]
    columns: list[Sequence[Cell]] = []
    types = []
    for index in range(width):
        column = [row[index].lower() if official else row[index] for row in cells]
        is_code = not official and any(map(_CODE.fullmatch, column))
        numbers = None if is_code else _numbers(column, official)
        types.append("text" if numbers is None else "real")
        columns.append(column if numbers is None else numbers)
    return Table(id, tuple(names), tuple(types), tuple(zip(*columns, strict=True)))


def read_csv_table(path: PathLike, *, id: str | None = None) -> Table:
    """A table from a CSV file, UTF-8 or `.gz`, whose first line names the columns.

    Fields may be quoted with double quotes, which are doubled inside or stand behind a backslash.
    Backslashes escape if each stands before a quotation mark or another backslash, or if the quotes
    are broken otherwise. Where they are broken between tabs, quotation marks are text. Empty rows
    are skipped and short rows padded. The delimiter is the one that a first line such as ``sep=;``
    names, as Excel reads it, or else the one of ``, ; tab |`` that splits the largest share of the
    rows into the same number of fields.

    Raises:
        InputError: no table can be read; names the line.
    """
    header, *rows = (row for _, row in read_csv_rows(path))
    rows = [row for row in rows if len(header) == 1 or any(map(str.strip, row))]
    return make_table(str(path) if id is None else id, header, rows)


def file_inside(folder: Path, name: str, place: str) -> Path:
    """A file of a folder, by its path there, which must not lead out of the folder."""
    if not name.strip() or Path(name).is_absolute() or ".." in Path(name).parts:
        raise InputError(f"{place}: expected a path inside the data set, found {name!r}")
    return folder / name


def _numbers(column: Sequence[str], official: bool) -> list[float | int | None] | None:
    """Returns the numbers of a real column, or None for a text column."""
    numbers: list[float | int | None] = []
    units = set()
    for text in column:
        if text.lower() in _NO_NUMBER or (not official and text.lower() in _NO_NUMBER_OF_OWN):
            numbers.append(None)
            continue
        number, unit = _number(text), ""
        measured = text if official else text.lstrip("+−–")
        if number is None and (quantity := parse_quantity(measured)) and not parse_date(text):
            unit = quantity[1].lower()
            is_unit = unit == "%" or any(map(str.isalpha, unit))
            number = _number(text.partition(" ")[0]) if is_unit else None
        if number is None:
            return None
        units.add(unit)
        numbers.append(number)
    return numbers if len(units) == 1 else None


def _number(text: str) -> float | int | None:
    match = _NUMBER.match(text)
    if not match or not match["number"]:
        return None
    if match.end() < len(text) and not _CITATION.fullmatch(text, match.end()):
        return None
    digits = match["number"].replace(",", "")
    number: float | int = float(digits)
    is_long = decimal.Decimal(digits) > MAX_WHOLE  # no digit of it may be lost
    if is_long:
        if not digits.isdecimal() or digits.startswith("0") or len(digits) > 19:
            return None
        number = int(digits)
    if match["sign"] in _MINUS:
        number = 0 - number  # avoids a negative zero
    return None if is_long and not -(2**63) <= number < 2**63 else number
