"""Executes WikiSQL queries: f of semantic parsing (Min et al., 2019, section 3.2).

Two engines give the same results. `OfficialEngine` passes the query to SQLite, as WikiSQL's
official engine does (Zhong et al., 2017); `execute_sql` computes it without SQLite, from sorted
columns with row masks. `hardem_jax.queries.solutions.values` lists the rules for values; the rest
is SQLite's.

SQL statements that are executed refer to columns by index; they never contain headers, cells or
values. `statement` writes a query for people, with the table's own names.
"""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from hardem_jax.errors import InputError
from hardem_jax.queries.solutions.columns import typed_table
from hardem_jax.queries.solutions.types import AGGREGATORS, OPERATORS, Condition, Query
from hardem_jax.queries.solutions.values import (
    SQLITE_ERRORS,
    ExecutionError,
    bound_values,
    check_query,
    in_lower_case,
    sql_types,
)
from hardem_jax.tables.table import Cell, IdentityCache, Table, column_names, mask_rows


class OfficialEngine:
    """WikiSQL's official engine on SQLite.

    Args:
        database: an official ``.db`` file, opened read-only. None for tables in memory: each is
            stored when it is first queried, with its texts in lower case.

    Example:
        >>> from hardem_jax.queries.solutions.types import Condition
        >>> table = Table("1-1", ("player", "no."), ("text", "real"), (("ann", 7.0), ("bo", 9.0)))
        >>> with OfficialEngine() as engine:
        ...     engine.execute(table, Query(0, 0, (Condition(1, 1, "more than 8"),)))
        ['bo']
    """

    def __init__(self, database: str | Path | None = None):
        if database is None:
            self._connection = sqlite3.connect(":memory:", isolation_level=None)
        else:
            path = Path(database)
            if not os.path.isfile(path):
                raise InputError(f"{path}: expected a SQLite file, found none")
            uri = f"{path.resolve().as_uri()}?mode=ro"
            self._connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        self._database = database
        self._stored = 0
        self._names = IdentityCache(
            self._store if database is None else self._find,
            drop=self._drop if database is None else lambda name: None,
        )

    def __enter__(self) -> OfficialEngine:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def execute(self, table: Table, query: Query) -> list[Cell]:
        """The result of a query.

        Args:
            table: the table to query; with an official file, only its id and types are used.
            query: any number of conditions, in any order.

        Returns:
            The selected cells in the order of the rows, or one aggregate. An aggregate over no rows
            is None; a count is 0.

        Raises:
            ExecutionError: the query cannot be executed.
            InputError: the table is not in the file, or has a cell that SQLite cannot hold.
        """
        check_query(table, query)
        name, types = self._names(table)
        bound = {f"c{c}": value for c, value in bound_values(types, query).items()}
        selected = f"col{query.select}"
        if query.aggregator:
            selected = f"{AGGREGATORS[query.aggregator]}({selected})"
        tests = [f"col{c.column} {OPERATORS[c.operator]} :c{c.column}" for c in query.conditions]
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        statement = f"SELECT {selected} FROM {name}{where}"
        try:
            return [row[0] for row in self._connection.execute(statement, bound)]
        except SQLITE_ERRORS as error:
            raise ExecutionError(f"table {table.id}: {query}: {error}") from error

    def _store(self, table: Table) -> tuple[str, tuple[str, ...]]:
        types = sql_types(table)
        name = f"stored{self._stored}"
        self._stored += 1
        columns = ", ".join(f"col{index} {kind}" for index, kind in enumerate(types))
        placeholders = ", ".join("?" * len(types))
        try:
            self._connection.execute(f"CREATE TABLE {name} ({columns})")
            rows = map(in_lower_case, table.rows)
            self._connection.executemany(f"INSERT INTO {name} VALUES ({placeholders})", rows)
        except SQLITE_ERRORS as error:
            raise InputError(f"table {table.id}: SQLite cannot store a cell ({error})") from error
        return name, types

    def _drop(self, stored: tuple[str, tuple[str, ...]]) -> None:
        self._connection.execute(f"DROP TABLE {stored[0]}")

    def _find(self, table: Table) -> tuple[str, tuple[str, ...]]:
        """Returns the quoted name of the table in an official file, and its types."""
        name = table.id
        if not name.startswith("table"):
            name = f"table_{name.replace('-', '_')}"
        quoted = '"' + name.replace('"', '""') + '"'
        try:
            rows = self._connection.execute(
                "SELECT lower(type) FROM pragma_table_info(?) ORDER BY cid", (name,)
            ).fetchall()
        except SQLITE_ERRORS as error:
            raise InputError(f"{self._database}: {error}") from error
        if not rows:
            raise InputError(f"{self._database}: expected a table {name!r}, found none")
        types = tuple(kind for (kind,) in rows)
        if types != table.types:
            raise InputError(
                f"{self._database}, table {table.id}: expected columns {table.types}, found {types}"
            )
        return quoted, types


def execute_sql(table: Table, query: Query, *, as_written: bool = False) -> list[Cell]:
    """f(z), computed without SQLite, with the results of `OfficialEngine`.

    Sorted columns are cached for the most recently used tables; a query on one of them takes a few
    microseconds.

    Args:
        table: the table to query.
        query: any number of conditions, in any order.
        as_written: False returns cells as they are compared: text in lower case. True returns
            selected cells, MAX and MIN as the table holds them, for display.

    Raises:
        ExecutionError: a column does not exist, or the official engine cannot execute the query.
        InputError: the table has a cell that SQLite cannot hold.

    Example:
        >>> from hardem_jax.queries.solutions.types import Condition
        >>> table = Table("1-1", ("player", "no."), ("text", "real"), (("Ann", 7.0), ("Bo", 9.0)))
        >>> between = (Condition(1, 1, "6"), Condition(1, 2, "8"))
        >>> execute_sql(table, Query(0, 0, between))  # 6 is lost: no. > 8 AND no. < 8
        []
        >>> execute_sql(table, Query(0, 1), as_written=True)
        ['Bo']
    """
    typed = typed_table(table)
    check_query(table, query)
    mask = rows_of_conditions(table, query.conditions)
    selected = typed.columns[query.select]
    if not query.aggregator:
        return _original_cells(table, query.select, mask) if as_written else selected.select(mask)
    value = selected.aggregate(query.aggregator, mask)
    if as_written and AGGREGATORS[query.aggregator] in ("max", "min") and value is not None:
        return _original_cells(table, query.select, mask & selected.rows_by_value[value])[:1]
    return [value]


def rows_of_conditions(table: Table, conditions: Sequence[Condition]) -> int:
    """The mask of the rows that meet all conditions of a query, in its order.

    Raises:
        ExecutionError: the official engine cannot compare a value.
        InputError: the table has a cell that SQLite cannot hold.

    Example:
        >>> from hardem_jax.queries.solutions.types import Condition
        >>> table = Table("1-1", ("no.",), ("real",), ((7.0,), (9.0,)))
        >>> [bin(rows_of_conditions(table, [Condition(0, 1, text)])) for text in ("6", "8")]
        ['0b11', '0b10']
    """
    typed = typed_table(table)
    # Two conditions on a column share the value of the last.
    bound = {c.column: typed.columns[c.column].bind(c.value) for c in conditions}
    mask = typed.every_row
    for condition in conditions:
        value = bound[condition.column]
        mask &= typed.columns[condition.column].compare(value)[condition.operator]
    return mask


def _original_cells(table: Table, column: int, mask: int) -> list[Cell]:
    return [table.rows[row][column] for row in mask_rows(mask)]


def statement(table: Table, query: Query) -> str:
    """A query as SQL that can be pasted into SQLite.

    Names are quoted, and quotation marks inside them doubled. Values are what the official engine
    compares: the number in a span for a real column, otherwise text, regardless of case (of ASCII
    letters, as far as SQLite goes). SQLite wants distinct names: see `column_names`.

    Args:
        table: gives the names of table and columns.
        query: on this table.

    Raises:
        ExecutionError: a column does not exist, or a span has no number for a real column.

    Example:
        >>> from hardem_jax.queries.solutions.types import Condition
        >>> table = Table("results.csv", ("player", "no."), ("text", "real"), ())
        >>> query = Query(1, 1, (Condition(0, 0, "O'Hara"), Condition(1, 2, "under 8")))
        >>> print(statement(table, query))
        SELECT MAX("no.") FROM "results.csv" WHERE "player" = 'O''Hara' COLLATE NOCASE AND "no." < 8
    """
    check_query(table, query)
    names = [_quoted(name) for name in column_names(table.header)]
    bound = bound_values(sql_types(table), query)
    shown = {c.column: c.value for c in query.conditions}
    tests = []
    for condition in query.conditions:
        name, value = names[condition.column], bound[condition.column]
        if isinstance(value, str):  # in lower case: as the question has it
            value = shown[condition.column]
        tests.append(f"{name} {OPERATORS[condition.operator]} {_literal(value)}")
    selected = names[query.select]
    if query.aggregator:
        selected = f"{AGGREGATORS[query.aggregator].upper()}({selected})"
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    return f"SELECT {selected} FROM {_quoted(table.id)}{where}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Cell) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "' COLLATE NOCASE"
    if isinstance(value, float) and not math.isfinite(value):
        # SQLite has no names for these: too large a number is infinite, and what is none is NULL.
        return "NULL" if math.isnan(value) else f"{math.copysign(9, value):.0f}e999"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return repr(value)
