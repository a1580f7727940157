"""WikiSQL's official engine (Zhong et al., 2017), which is SQLite."""

import atexit
import sqlite3

from hardem_jax.errors import InputError
from hardem_jax.queries.solutions.types import AGGREGATORS, OPERATORS
from hardem_jax.queries.solutions.values import (
    SQLITE_ERRORS,
    ExecutionError,
    bound_value,
    check_query,
    in_lower_case,
    sql_types,
)

_latest = []  # the table asked last, its connection and the types of its columns


@atexit.register
def forget():
    if _latest:
        _latest[1].close()
        _latest.clear()


def stored(table):
    """Of the latest table alone, for Python 3.13 reports what is not closed."""
    if not _latest or _latest[0] is not table:
        forget()
        types, connection = sql_types(table), sqlite3.connect(":memory:", isolation_level=None)
        _latest[:] = table, connection, types
        columns = ", ".join(f"col{index} {kind}" for index, kind in enumerate(types))
        marks = ", ".join("?" * len(types))
        try:
            connection.execute(f"CREATE TABLE t ({columns})")
            rows = map(in_lower_case, table.rows)
            connection.executemany(f"INSERT INTO t VALUES ({marks})", rows)
        except SQLITE_ERRORS as error:
            forget()
            raise InputError(f"SQLite cannot store a cell ({error})") from error
    return _latest[1:]


def official(table, query):
    """The result of a query, with the errors of `execute_sql`."""
    check_query(table, query)
    connection, types = stored(table)
    bound = {f"c{c.column}": bound_value(c.value, types[c.column]) for c in query.conditions}
    selected = f"{AGGREGATORS[query.aggregator]}(col{query.select})"
    tests = [f"col{c.column} {OPERATORS[c.operator]} :c{c.column}" for c in query.conditions]
    asked = f"SELECT {selected} FROM t WHERE {' AND '.join(tests) or 1}"
    try:
        return [cell for (cell,) in connection.execute(asked, bound)]
    except SQLITE_ERRORS as error:
        raise ExecutionError(f"{query}: {error}") from error
