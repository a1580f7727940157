"""Reader for WikiSQL, the step from queries to answers, and the official database."""

import contextlib
import json
import sqlite3
from typing import Any

import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.errors import InputError
from hardem_jax.queries.readers import read_answers, read_wikisql
from hardem_jax.queries.solutions.engine import execute_sql
from hardem_jax.queries.solutions.types import AGGREGATORS, OPERATORS, Condition, Query
from hardem_jax.queries.solutions.values import bound_value

TABLE = {
    "id": "1-1",
    "header": ["Player", "No."],
    "types": ["text", "real"],
    "rows": [["Ann Ä", 7.0], ["Bo", 42], ["Cy", None]],
}


def line(conditions: Any = ((1, 0, 42),), select: Any = 0, aggregator: Any = 0, **changes):
    sql = {"sel": select, "agg": aggregator, "conds": [list(each) for each in conditions]}
    record = {"phase": 1, "table_id": "1-1", "question": "Who wears 42?", "sql": sql} | changes
    return {key: value for key, value in record.items() if value is not ...}


@pytest.fixture
def folder(tmp_path):
    """Writes questions and tables of the split "dev" into a folder."""

    def run(*lines, tables=(TABLE,)):
        for name, records in ("dev.jsonl", lines), ("dev.tables.jsonl", tables):
            text = "".join(json.dumps(record) + "\n" for record in records)
            (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path

    return run


def read(folder, reader=read_wikisql):
    skips = ExclusionCounts()
    return list(reader(folder, "dev", skips=skips)), skips


def test_reads_an_example(folder):
    (example,), skips = read(folder(line(conditions=[(1, 0, "42"), (0, 2, "Cy")], aggregator=3)))
    assert (example.id, example.question) == ("dev-0", "Who wears 42?")
    assert example.table.header == ("Player", "No.")  # only cells are in lower case
    assert example.table.rows == (("ann ä", 7.0), ("bo", 42), ("cy", None))
    assert example.query == Query(0, 3, (Condition(1, 0, "42"), Condition(0, 2, "Cy")))
    assert skips.total == 0 and skips.warnings_as_dict() == {}


def test_columns_are_as_exact_as_those_of_the_official_database(folder):
    rows = [["ann", 2**53 + 1], ["bo", 2**53]]
    lines = line(conditions=[(1, 0, str(2**53))]), line(conditions=[], select=1, aggregator=1)
    examples, _ = read(folder(*lines, tables=[TABLE | {"rows": rows}]))
    found = [execute_sql(example.table, example.query) for example in examples]
    assert found == [["ann", "bo"], [2.0**53]]
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE t (col0 text, col1 real)")
        database.executemany("INSERT INTO t VALUES (?, ?)", rows)
        known = database.execute("SELECT col0 FROM t WHERE col1 = ?", (float(2**53),))
        assert [name for (name,) in known] == found[0]


RAGGED = TABLE | {"rows": [["Bo"], ["Cy", 1, 2]]}


def test_poor_tables_are_fitted_and_those_that_are_missing_named(folder):
    examples, skips = read(folder(line(), line(table_id="1-9"), line(), tables=[RAGGED]))
    assert examples[0].table.rows == (("bo", None), ("cy", 1)) and len(examples) == 2
    assert skips.warnings_as_dict() == {"table with rows of different lengths, padded": 1}
    assert skips.ids("no such table") == ("dev-1: 1-9",)


@pytest.mark.parametrize(
    ("bad", "tables", "message"),
    [
        (line(sql={}), [TABLE], "dev.jsonl: line 2: 'sel': expected a position, .*, found null"),
        (line([(1, 0)]), [TABLE], r"dev.jsonl: line 2: 'conds': expected column.* found \[1, 0\]"),
        (line(), [TABLE, TABLE], "tables.jsonl: line 2: expected a new table, found 1-1"),
        (line(), [TABLE | {"types": ["text"]}], "line 1 .1-1.: table 1-1: 2 names, 1 types"),
    ],
)
def test_another_layout_is_an_error(folder, bad, tables, message):
    with pytest.raises(InputError, match=message) as caught:
        read(folder(line(), bad, tables=tables))
    assert "\n" not in str(caught.value)


def test_queries_become_answers(folder):
    lines = [
        line(),
        line(conditions=[(0, 0, "BO")], select=1),
        line(conditions=[], aggregator=3),
        line(conditions=[(0, 0, "Dee")], aggregator=1),
        line(conditions=[(0, 0, "Dee")]),
        line(conditions=[(1, 0, "no number")]),
        line(sql=...),
        line(conditions=[(1, 1, 5), (1, 2, 10)]),  # one value for both, as officially
    ]
    questions, skips = read(folder(*lines), read_answers)
    assert [(q.id, q.answer) for q in questions] == [
        ("dev-0", ("bo",)),
        ("dev-1", (42.0,)),
        ("dev-2", (3,)),
        ("dev-3", (None,)),
        ("dev-4", ()),
        ("dev-7", ()),
    ]
    assert all(question.match == "execution" for question in questions)
    assert skips.as_dict() == {"query cannot be executed": 1, "no query given": 1}
    assert skips.ids("query cannot be executed") == ("dev-5",)
    assert skips.warnings_as_dict() == {"answer is empty": 3}


@pytest.mark.parametrize(("split", "count"), [("train", 2376), ("dev", 451)])
def test_answers_are_those_of_the_official_database(shared_dir, split, count):
    folder, skips = shared_dir / "data/wikisql", ExclusionCounts()
    questions = list(read_answers(folder, split, skips=skips))
    assert len(questions) == count and skips.total == 0
    examples = read_wikisql(folder, split, skips=skips)
    with contextlib.closing(sqlite3.connect(folder / f"{split}.db")) as database:
        for question, example in zip(questions, examples, strict=True):
            assert question.id == example.id and question.table == example.table
            table, query = example.table, example.query
            assert query is not None
            selected = f"col{query.select}"
            if query.aggregator:
                selected = f"{AGGREGATORS[query.aggregator]}({selected})"
            tests = ["1", *(f"col{c.column} {OPERATORS[c.operator]} ?" for c in query.conditions)]
            bound = [bound_value(c.value, table.types[c.column]) for c in query.conditions]
            name = f"table_{table.id.replace('-', '_')}"
            asked = f"SELECT {selected} FROM {name} WHERE {' AND '.join(tests)}"
            expected = [cell for (cell,) in database.execute(asked, bound)]
            assert list(question.answer) == expected
            assert list(map(type, question.answer)) == list(map(type, expected))
