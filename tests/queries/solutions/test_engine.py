"""Both engines: the official semantics by SQLite, and the same without it."""

import datetime
import gc
import json
import math
import random
import sqlite3
import weakref

import numpy as np
import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.errors import InputError
from hardem_jax.queries.records import plain_value
from hardem_jax.queries.solutions.engine import TypedTable, execute_sql
from hardem_jax.queries.solutions.types import Condition, Query
from hardem_jax.queries.solutions.values import (
    COMPENSATED_SUMS,
    ExecutionError,
    bound_value,
    official_number,
    sum_like_sqlite,
    text_addend,
)
from hardem_jax.tables.jsonl import read_table
from hardem_jax.tables.table import Table
from tests.queries.solutions.official import official

NONE, MAX, MIN, COUNT, SUM, AVG = range(6)
EQUAL, ABOVE, BELOW = range(3)

CELLS = (
    None, "", " ", "7", "7.0", "07", "+7", " 7", "7 ", "7e2", "-7.5", ".5", "5.", "1,234", "12 km",
    "ann", "ANN", "Ärger", "ärger", "ann\x00b", "0x10", "inf", "nan", "é", "\U0001f600", "\uffff",
    "'; drop table t; --", '"col0"', "9223372036854775807", "9223372036854775808", "1e400",
    7, 0, -3, 2**53 + 1, 2**62, 7.0, 0.1, 0.2, 0.30000000000000004, 1e300, -1e300, 1e16, -0.0,
    float("inf"), float("-inf"), float("nan"), True,
)  # fmt: skip


def outcome(execute, table, query):
    """What an engine makes of a query, so that only equal outcomes are equal: types, too."""
    try:
        # 0.0 and -0.0 are one number to SQLite, which keeps either.
        return [repr(0.0 if cell == 0.0 and isinstance(cell, float) else cell)
                for cell in execute(table, query)]  # fmt: skip
    except ExecutionError:
        return "no result"


def random_query(rng, table, others=CELLS[1:]):
    """Any query: columns may repeat, values are mostly of the column, or else any other."""
    columns = range(len(table.types))
    conditions = []
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        column = rng.choice(columns)
        cells = [row[column] for row in table.rows if row[column] is not None]
        value = rng.choice(cells if cells and rng.random() < 0.7 else others)
        value = str(value).upper() if rng.random() < 0.3 else value
        conditions.append(Condition(column, rng.randrange(3), value))
    return Query(rng.choice(columns), rng.randrange(6), tuple(conditions))


def both(table, query):
    """The result of either engine, which has to be the same."""
    found = execute_sql(table, query)
    assert outcome(official, table, query) == outcome(execute_sql, table, query)
    return found


def column_of(kind, *cells):
    return Table("1-1", ("name",), (kind,), tuple((cell,) for cell in cells))


def random_table(rng, cells=CELLS):
    width, length = rng.randrange(1, 5), rng.randrange(9)
    # A few kinds of cells for each table, so that some are equal.
    some = rng.sample(cells, min(len(cells), rng.randrange(1, 12)))
    rows = tuple(tuple(rng.choice(some) for _ in range(width)) for _ in range(length))
    types = tuple(rng.choice(("text", "real")) for _ in range(width))
    return Table("1-1", tuple(map(str, range(width))), types, rows)


@pytest.mark.parametrize("seed", range(4))
def test_engines_agree_on_cells_of_all_kinds(seed):
    rng = random.Random(seed)
    for _ in range(500):
        table = random_table(rng)
        for _ in range(8):
            query = random_query(rng, table)
            expected = outcome(official, table, query)
            assert expected == outcome(execute_sql, table, query), (table, query)


@pytest.mark.slow
def test_vectors_of_the_official_engine(shared_dir):
    tables = {}
    for split in ("train", "dev"):
        text = (shared_dir / f"data/wikisql/{split}.tables.jsonl").read_text("utf-8")
        for line in text.split("\n")[:-1]:
            table = read_table(json.loads(line), split, lower=True, skips=ExclusionCounts())
            tables[split, table.id] = table
    vectors = (shared_dir / "vectors/wikisql_execution.jsonl").read_text("utf-8").split("\n")[:-1]
    assert len(vectors) == 6000
    for record in map(json.loads, vectors):
        sql = record["sql"]
        conditions = tuple(Condition(*condition) for condition in sql["conds"])
        query = Query(sql["sel"], sql["agg"], conditions)
        table = tables[record["split"], record["table_id"]]
        found = official(table, query)
        assert [*map(repr, execute_sql(table, query))] == [*map(repr, found)], record
        if COMPENSATED_SUMS:  # they lose less to rounding than the recorded ones
            for one, other in zip(found, record["result"], strict=True):
                assert type(one) is type(other), record
                assert one == other or math.isclose(one, other, rel_tol=1e-12), record
        else:
            assert [*map(repr, found)] == [*map(repr, record["result"])], record


@pytest.mark.parametrize(
    ("kind", "cells", "aggregator", "expected"),
    [
        ("text", ["3", "5"], SUM, 8),  # integers, since each of the texts is one
        ("text", ["3 km", "about 5"], SUM, 3.0), ("text", ["3", None, "4"], AVG, 7 / 2),
        ("text", ["b", "é", "a"], MAX, "é"), ("real", [9.0, "n/a", None], MAX, "n/a"),
        ("real", ["12", 3], SUM, 15.0),  # stored as numbers
        ("text", [12.0, 3], MIN, "12.0"),  # stored as text
        ("real", [None], AVG, None), ("real", [math.inf, -math.inf], SUM, None),
        ("real", [math.nan], COUNT, 0),  # NaN is NULL
    ],
)  # fmt: skip
def test_aggregates(kind, cells, aggregator, expected):
    [found] = both(column_of(kind, *cells), Query(0, aggregator))
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("kind", "cells", "operator", "value", "expected"),
    [
        ("text", ["Ann", "Bo"], EQUAL, "aNN", ["ann"]), ("real", [-0.0, 1.0], EQUAL, 0, [0.0]),
        ("text", ["7", "7.0"], EQUAL, 7, ["7"]), ("text", ["10", "9", None], ABOVE, "5", ["9"]),
        ("real", [1234.0], EQUAL, "1,234", [1234.0]), ("real", [12.0], EQUAL, "1,2", [12.0]),
        ("real", [1000.0], EQUAL, "1e3", [1000.0]),
        ("real", [-2.0, 2.0], EQUAL, "-2 m", [2.0]),  # the second alternative has no sign
        ("real", [-2.5, 2.5], EQUAL, "-2.5 m", [-2.5]),
        ("real", [96.0, 97.0], ABOVE, "no. 96", [97.0]),
        ("real", [1.0, "n/a", None], ABOVE, 5, ["n/a"]),
        ("real", [float(2**53)], EQUAL, 2**53 + 1, []), ("real", [1.0], ABOVE, "nan", []),
    ],
)  # fmt: skip
def test_conditions(kind, cells, operator, value, expected):
    query = Query(0, NONE, (Condition(0, operator, value),))
    assert both(column_of(kind, *cells), query) == expected


def test_two_conditions_on_a_column_share_the_last_value():
    table = column_of("real", 4.0, 5.0, 7.0)
    between = Query(0, NONE, (Condition(0, ABOVE, 3), Condition(0, BELOW, 6)))
    assert both(table, between) == []  # above 6 and below 6
    assert both(table, Query(0, NONE, (Condition(0, ABOVE, 3), Condition(0, ABOVE, 6)))) == [7.0]
    # A value that is lost still has to be a number.
    lost = Query(0, NONE, (Condition(0, ABOVE, "many"), Condition(0, ABOVE, 6)))
    assert outcome(official, table, lost) == outcome(execute_sql, table, lost) == "no result"


LARGE = ("text", str(2**62), str(2**62))


@pytest.mark.parametrize(
    ("column", "query", "message"),
    [
        (("real", 7.0), Query(0, NONE, (Condition(0, EQUAL, "many"),)), "a number .* found 'many'"),
        (("real", 7.0), Query(0, NONE, (Condition(0, EQUAL, "snan"),)), "a number .* found 'snan'"),
        (("real", 7.0), Query(0, NONE, (Condition(0, EQUAL, 2**63),)), "a 64-bit integer, found"),
        (("text", "a"), Query(0, NONE, (Condition(0, EQUAL, "\ud800"),)), "expected Unicode text"),
        (("real", 7.0), Query(1, NONE), "no column 1, there are 1"),
        (("real", 7.0), Query(-1, NONE), "no column -1"),
        (("real", 7.0), Query(0, 6), "no aggregator 6"),
        (("real", 7.0), Query(0, NONE, (Condition(0, 3, "7"),)), "no operator 3"),
        (("real", 7.0), Query(0, NONE, (Condition(2, EQUAL, "7"),)), "no column 2"),
        (LARGE, Query(0, SUM), "."),
        (("text", "\ud800"), Query(0, NONE), "SQLite cannot store a cell"),
        (("text", 2**63), Query(0, NONE), "SQLite cannot store a cell"),
    ],
)
def test_what_has_no_result(column, query, message):
    error = InputError if "store" in message else ExecutionError
    for execute in (official, execute_sql):
        with pytest.raises(error, match=message):
            execute(column_of(*column), query)


def test_an_average_may_be_beyond_64_bits_in_sum():
    assert both(column_of(*LARGE), Query(0, AVG)) == [float(2**62)]
    # The bound on the rounding of sums, too.
    assert TypedTable(column_of("real", 2**63 - 1, 7)).sums[1] > 2.0**12


def test_nothing_is_executed_as_text():
    nasty = "x'); DROP TABLE stored0; --"
    table = Table(nasty, (nasty, 'a" b'), ("text", "text"), ((nasty.lower(), "1"), ("y", "2")))
    for value in (nasty, "' OR 1=1 --", "x' OR 'x'='x", '" OR ""="'):
        query = Query(1, NONE, (Condition(0, EQUAL, value),))
        expected = ["1"] if value == nasty else []
        assert official(table, query) == execute_sql(table, query) == expected
    assert official(table, Query(0, COUNT)) == [2]


def test_equal_tables_with_other_cells_stay_apart():
    one, other = column_of("text", 1), column_of("text", 1.0)
    assert one == other
    for _ in range(2):
        assert official(one, Query(0, NONE)) == execute_sql(one, Query(0, NONE)) == ["1"]
        assert official(other, Query(0, NONE)) == execute_sql(other, Query(0, NONE)) == ["1.0"]


def test_many_tables_are_not_kept():
    tables = [column_of("real", float(n)) for n in range(300)]
    alive = [weakref.ref(table) for table in tables]
    for _ in range(2):
        assert [execute_sql(t, Query(0, MAX)) for t in tables] == [[n] for n in range(300)]
    del tables
    gc.collect()
    assert sum(table() is not None for table in alive) == 256


def test_addends_are_those_of_sqlite():
    texts = [cell for cell in CELLS if isinstance(cell, str)]
    texts += [a + b for a in ("", " ", "-", "\t", "\x0b", "\u3000") for b in ("3", "3.25e2x", ".")]
    connection = sqlite3.connect(":memory:")
    for text in texts:
        [expected] = connection.execute("SELECT sum(?)", (text,)).fetchone()
        found = text_addend(text)
        assert found == expected and type(found) is type(expected), text
    connection.close()


@pytest.mark.parametrize("seed", range(3))
def test_sums_are_those_of_this_sqlite(seed):
    rng = random.Random(seed)
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE t (x)")
    for _ in range(500):
        addends = [_addend(rng) for _ in range(rng.randrange(1, 12))]
        connection.execute("DELETE FROM t")
        connection.executemany("INSERT INTO t VALUES (?)", [(addend,) for addend in addends])
        for name, average in (("sum", False), ("avg", True)):
            try:
                [expected] = connection.execute(f"SELECT {name}(x) FROM t").fetchone()
            except sqlite3.Error:
                with pytest.raises(ExecutionError):
                    sum_like_sqlite(addends, average)
                continue
            found = sum_like_sqlite(addends, average)
            assert (None if found != found else found) == expected, addends
            assert found != found or type(found) is type(expected)
    connection.close()


def _addend(rng):
    kind = rng.random()
    if kind < 0.1:
        return rng.randrange(-(2**63), 2**63)
    if kind < 0.2:
        return rng.randrange(-(2**54), 2**54)
    if kind < 0.5:
        return rng.randrange(-1000, 1000)
    if kind < 0.95:
        return round(rng.uniform(-1000, 1000), rng.randrange(4))
    return rng.choice([math.inf, -math.inf, 1e308, -1e308, 1e-20])


@pytest.mark.parametrize(
    ("addends", "plain", "compensated"),
    [
        ([0.1, 0.2, 0.3], 0.1 + 0.2 + 0.3, 0.6),
        ([1e100, 1.0, -1e100], 0.0, 1.0),
        # Of integers that float64 does not hold, SQLite 3.43 keeps what is below 2^14 apart.
        ([2**53 + 1, 0.5, -(2**53)], 0.0, 1.5),
        ([2**62 + 1, 0.5, -(2**62)], 0.0, 1.5),
        ([-(2**62) - 1, 0.5, 2**62], 0.0, -0.5),
        ([1, 2], 3, 3),
    ],
)
def test_both_ways_to_sum(addends, plain, compensated):
    assert sum_like_sqlite(addends, compensated=False) == plain
    assert sum_like_sqlite(addends, compensated=True) == compensated
    assert sum_like_sqlite(addends, True, compensated=True) == compensated / len(addends)


def test_overflow_in_both_ways_to_sum():
    large = [2**63 - 1, 1]
    for addends, compensated in ((large, False), (large, True), ([*large, 0.5], False)):
        with pytest.raises(ExecutionError, match="expected a 64-bit sum"):
            sum_like_sqlite(addends, compensated=compensated)
    for addends, compensated in (([0.5, *large], False), ([*large, 0.5], True)):
        assert sum_like_sqlite(addends, compensated=compensated) == 2.0**63


def test_numbers_of_values():
    expected = {"1,234": 1234, "5 km": 5, "1_0": 10, "-.5 x": -0.5, "٣": 3, "2.": 2, "1.2.3": 1.2}
    assert {text: official_number(text) for text in expected} == expected
    assert bound_value("ABC", "text") == "abc" and bound_value(3, "real") == 3


def test_cells_can_be_shown_as_they_were_written():
    rows = (("Ann B", 7, "1,200"), ("bo", 9, "90"), ("Cy", None, "DNF"))
    table = Table("1-1", ("Player", "No.", "Points"), ("text", "real", "text"), rows)

    def written(*query):
        return execute_sql(table, Query(*query), as_written=True)

    assert written(0, NONE) == ["Ann B", "bo", "Cy"]
    assert written(0, NONE, (Condition(0, EQUAL, "ANN b"),)) == ["Ann B"]
    assert written(0, MAX) == ["Cy"] and written(0, MIN) == ["Ann B"]
    assert written(2, NONE) == ["1,200", "90", "DNF"]
    assert written(1, SUM) == [16.0] and written(0, COUNT) == [3]
    assert written(1, MAX, (Condition(0, EQUAL, "cy"),)) == [None]
    assert written(0, NONE, (Condition(0, EQUAL, "nobody"),)) == []


def test_numpy_cells_and_values_are_those_of_python():
    table = column_of("real", np.int64(7), np.float32(0.5), np.bool_(True), np.float64("nan"))
    assert both(table, Query(0, NONE)) == [7.0, 0.5, 1.0, None]
    assert both(table, Query(0, NONE, (Condition(0, EQUAL, np.int64(7)),))) == [7.0]
    assert both(column_of("text", np.str_("Ann")), Query(0, NONE)) == ["ann"]
    for cells in ([-0.0, -0.0], [-0.0, None], [np.float64(-0.0)]):  # there is no negative zero
        for aggregator in (NONE, MAX):
            assert str(both(column_of("real", *cells), Query(0, aggregator))[0]) == "0.0"
    assert str(plain_value("-0")) == "0.0"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (("player", ("text",), (("ann",),)), "header: expected a list of strings, found the str"),
        ((("player",), "text", (("ann",),)), "types: expected a list of strings"),
        ((("player",), ("text",), "ann"), "rows: expected a list of rows, found the string 'ann'"),
        ((("a", "b"), ("text", "text"), ("xy",)), "row: expected a list of cells, found the str"),
        ((("player",), ("text",), None), "rows: expected a list of rows, found None"),
        ((("player",), ("text",), ((b"ann",),)), "found bytes b'ann'"),
        ((("day",), ("text",), ((datetime.date(2004, 5, 1),),)), "found date datetime"),
        ((("day",), ("real",), ((np.datetime64(7, "ns"),),)), "found datetime64"),
        ((("lap",), ("real",), ((np.timedelta64(7, "ns"),),)), "found timedelta64"),
        (((None,), ("text",), (("ann",),)), "header: expected a list of strings, found None in it"),
    ],
)
def test_a_table_is_made_of_lists_of_cells(fields, message):
    with pytest.raises(TypeError, match=f"table 1-1: .*{message}"):
        Table("1-1", *fields)
