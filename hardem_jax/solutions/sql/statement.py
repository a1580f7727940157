"""Queries as statements that SQLite executes, with the table's own names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hardem_jax.solutions.sql.types import AGGREGATORS, OPERATORS, Cell, Query, Table
from hardem_jax.solutions.sql.values import bound_values, check_query


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
        >>> from hardem_jax.solutions.sql.types import Condition
        >>> table = Table("results.csv", ("player", "no."), ("text", "real"), ())
        >>> query = Query(1, 1, (Condition(0, 0, "O'Hara"), Condition(1, 2, "under 8")))
        >>> print(statement(table, query))
        SELECT MAX("no.") FROM "results.csv" WHERE "player" = 'O''Hara' COLLATE NOCASE AND "no." < 8
    """
    check_query(table, query)
    names = [_quoted(name) for name in column_names(table.header)]
    bound = bound_values(table, query)
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


def column_names(header: Sequence[str]) -> list[str]:
    """Distinct names, regardless of case: those that repeat an earlier one end in their number.

    Example:
        >>> column_names(["City", "Year", "city", ""])
        ['City', 'Year', 'city_3', '_4']
    """
    names, seen = [], Counter()
    for number, name in enumerate(header, start=1):
        seen[name.lower()] += 1
        names.append(f"{name}_{number}" if seen[name.lower()] > 1 or not name else name)
    return names


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Cell) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "' COLLATE NOCASE"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return repr(value)
