"""Statements for SQLite: executed there, on a table with the names and cells of the file."""

import contextlib
import random
import sqlite3

import pytest

from hardem_jax.queries.solutions.engine import execute_sql, statement
from hardem_jax.queries.solutions.types import Condition, Query
from hardem_jax.queries.solutions.values import ExecutionError
from hardem_jax.tables.table import Table, column_names

NAMES = ("player", 'so-called "no."', "Player", "", "select", "it's; --")
TEXTS = ("Ann", "bo'b", 'say "hi"', "7", "1,000", "", None, "x%_", "O''x")
NUMBERS = (7.0, 2.5, -7.0, 1e15, 1e-7, 8336817.0, None)


def random_table(rng):
    types = tuple(rng.choice(("text", "real")) for _ in range(rng.randrange(1, 5)))
    cells = {"text": TEXTS, "real": NUMBERS}
    rows = tuple(tuple(rng.choice(cells[kind]) for kind in types) for _ in range(6))
    name, header = rng.choice(('my "own".csv', "1-1")), rng.choices(NAMES, k=len(types))
    return Table(name, tuple(header), types, rows)


def random_query(rng, table):
    values = {"text": TEXTS[:6], "real": ("7", "over 2.5", "1,000", "-7", 8)}
    columns = range(len(table.types))
    conditions = []
    for column in rng.sample(columns, rng.randrange(min(3, len(columns)) + 1)):
        kind = table.types[column]
        operator = rng.randrange(3) if kind == "real" else 0
        conditions.append(Condition(column, operator, rng.choice(values[kind])))
    return Query(rng.choice(columns), rng.randrange(6), tuple(conditions))


def stored(table):
    connection = sqlite3.connect(":memory:")

    def quoted(name):
        return '"' + name.replace('"', '""') + '"'

    named = zip(column_names(table.header), table.types, strict=True)
    columns = [f"{quoted(name)} {kind}" for name, kind in named]
    connection.execute(f"CREATE TABLE {quoted(table.id)} ({', '.join(columns)})")
    marks = ", ".join("?" * len(columns))
    connection.executemany(f"INSERT INTO {quoted(table.id)} VALUES ({marks})", table.rows)
    return connection


@pytest.mark.parametrize(
    ("header", "names"),
    [
        (["City", "Year", "city", ""], ["City", "Year", "city_3", "_4"]),
        (["City_3", "City", "City"], ["City_3", "City", "City_3_3"]),
        (["_2", ""], ["_2", "_2_2"]),
        (["", "_1"], ["_1_1", "_1"]),
        (["City", "City", "city_2"], ["City", "City_2_2", "city_2"]),
        (["É", "é"], ["É", "é_2"]),
    ],
)
def test_names_are_distinct_and_those_of_the_table_stay(header, names):
    assert column_names(header) == names


def test_sqlite_finds_what_the_engine_finds():
    rng, executed, rows = random.Random(0), 0, 0
    for _ in range(400):
        table = random_table(rng)
        query = random_query(rng, table)
        try:
            expected = execute_sql(table, query, as_written=True)
        except ExecutionError:
            continue
        with contextlib.closing(stored(table)) as connection:
            found = [cell for (cell,) in connection.execute(statement(table, query))]
        # The engine orders texts in lower case, SQLite by their bytes.
        if query.aggregator in (1, 2) and table.types[query.select] == "text":
            continue
        assert found == expected, statement(table, query)
        executed += 1
        rows += bool(query.conditions) and expected not in ([], [None], [0])
    assert executed > 300 and rows > 50


@pytest.mark.parametrize(("value", "text"), [("inf", "9e999"), ("-inf", "-9e999")])
def test_sqlite_understands_numbers_without_end(value, text):
    table = Table("t", ("no",), ("real",), ((1.0,), (2.0,)))
    asked = statement(table, Query(0, 0, (Condition(0, 2, value),)))
    assert asked.endswith(f"< {text}")
    connection = stored(table)
    assert [cell for (cell,) in connection.execute(asked)] == ([1, 2] if value == "inf" else [])
    connection.close()
