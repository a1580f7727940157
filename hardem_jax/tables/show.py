"""Tables: from a dict, a DataFrame or a CSV file, and their cells as text."""

from __future__ import annotations

import datetime
import decimal
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardem_jax.errors import InputError, check_many
from hardem_jax.show.record import Grid
from hardem_jax.tables.csv import make_table, read_csv_table
from hardem_jax.tables.metrics import result_texts
from hardem_jax.tables.table import Cell, Table, column_names, plain_cell

# Types of pandas, which need not be installed.
_MISSING = ("NaTType", "NAType")


def to_table(source: Any) -> Table:
    """A table of a dict from column name to values, rows whose first has the names, or dicts, a
    DataFrame, a CSV file's path, or a `Table`.

    A column of numbers stays as it is, with None for NaN. Any other column becomes texts, which are
    read as those of a CSV file are: "12,467" and "72 km" throughout make a column of numbers. As in
    a file, a column with a whole number beyond 64 bits is text. An index with a name is a column.

    Raises:
        InputError: columns of different lengths, more cells than names, no column, a broken file.
        TypeError: something else, also in a cell.

    Example:
        >>> to_table([["player", "goals"], ["Ann", 3], ["Bo", "5"]]).types
        ('text', 'real')
    """
    if isinstance(source, Table):
        table = source
    elif isinstance(source, (str, os.PathLike)):
        table = read_csv_table(source, id=Path(source).stem)
    elif isinstance(source, Mapping):
        table = _from_columns((str(name), values) for name, values in source.items())
    elif hasattr(source, "iloc") and hasattr(source, "columns"):
        table = _from_columns(_columns_of_frame(source))
    elif hasattr(source, "get_columns"):  # a DataFrame of polars
        table = _from_columns((column.name, column.to_list()) for column in source.get_columns())
    else:
        table = _from_columns(_columns_of_rows(source))
    if not table.header:
        raise InputError("table: expected columns to select from, found none")
    return table


def _columns_of_rows(source: Any) -> Iterator[tuple[str, list[Any]]]:
    rows = list(source) if isinstance(source, Iterable) else []
    if rows and all(isinstance(row, Mapping) for row in rows):
        names = list(dict.fromkeys(name for row in rows for name in row))
        rows = [names, *([row.get(name) for name in names] for row in rows)]
    if not rows or any(isinstance(x, str) or not isinstance(x, Iterable) for x in rows):
        expected = "expected a dict of columns, rows, a DataFrame or the path of a CSV file"
        raise TypeError(f"table: {expected}, found {type(source).__name__} {source!r:.40}")
    names, *rows = map(list, rows)
    if longer := next((row for row in rows if len(row) > len(names)), None):
        raise InputError(f"table: expected at most {len(names)} cells, found {longer!r:.80}")
    for place, name in enumerate(names):
        cells = [row[place] if place < len(row) else None for row in rows]
        yield "" if name is None else str(name), cells


def _columns_of_frame(frame: Any) -> list[tuple[str, Any]]:
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index(allow_duplicates=True)  # an index may be named like a column
    # By position, since names may repeat; NaN, NaT and NA become None.
    columns = [frame.iloc[:, index] for index in range(frame.shape[1])]
    values = [column.astype(object).where(column.notna(), None).tolist() for column in columns]
    return list(zip(map(str, frame.columns), values, strict=True))


def _from_columns(columns: Iterable[tuple[str, Any]]) -> Table:
    header, types, cells = [], [], []
    for name, values in columns:
        check_many(values, f"table: column {name!r}", "values")
        column = [to_cell(value, f"table: column {name!r}") for value in values]
        if cells and len(column) != len(cells[0]):
            lengths = f"{len(cells[0])} in {header[0]!r} and {len(column)} in {name!r}"
            raise InputError(f"table: expected columns of one length, found {lengths}")
        real = any(cell is not None for cell in column) and not any(
            isinstance(cell, str) for cell in column
        )
        if not real:
            texts = [["" if cell is None else str(cell)] for cell in column]
            read = make_table("table", [name], texts)
            real, column = read.types[0] == "real", [row[0] for row in read.rows]
        header.append(name)
        types.append("real" if real else "text")
        cells.append(column)
    return Table("table", tuple(header), tuple(types), tuple(zip(*cells, strict=True)))


def to_cell(value: Any, where: str) -> Cell:
    """What stands in a cell for a value of Python, NumPy or pandas: a number, a text, or None.
    Dates, times, booleans and integers beyond 64 bits become texts; NaN, NaT and NA None."""
    if isinstance(value, np.datetime64):
        moment = value.astype("datetime64[us]").item()
        value = str(value) if isinstance(moment, int) else moment  # Python's years end with 9999
    elif isinstance(value, np.generic) and not isinstance(value, np.timedelta64):
        value = value.item()
    is_number = isinstance(value, (float, decimal.Decimal))
    if type(value).__name__ in _MISSING or (is_number and math.isnan(value)):
        return None
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()  # pandas has midnights for dates
    if isinstance(value, (datetime.date, datetime.time, bool)):
        return str(value)
    cell = plain_cell(value, where)
    is_long = isinstance(cell, int) and not -(2**63) <= cell < 2**63
    return str(cell) if is_long else cell


def cell_text(cell: Cell) -> str:
    """A cell as people read it."""
    return "NULL" if cell is None else result_texts([cell])[0]


def grid(table: Table) -> Grid:
    return Grid(
        header=table.header,
        names=column_names(table.header),
        numeric=[kind == "real" for kind in table.types],
        rows=[[None if cell is None else cell_text(cell) for cell in row] for row in table.rows],
    )


def rows_text(rows: Sequence[int], total: int) -> str:
    """Some of a table's rows, by their numbers from 0.

    Example:
        >>> rows_text([4], 9), rows_text(range(9), 9), rows_text([0, 2, 3, 5], 9)
        ('row 4', 'every row', 'rows 0, 2, 3, ...')
    """
    if len(rows) == total > 1:
        return "every row"
    few = ", ".join(map(str, rows[:3])) + ", ..." * (len(rows) > 3)
    return f"row{'s' * (len(rows) != 1)} {few}"
