"""Reader for WikiSQL in its official layout, and the step that turns queries into answers.

    {split}.jsonl         {"phase": 1, "table_id": "1-10015132-11", "question": "Who wears 42?",
                           "sql": {"sel": 0, "agg": 0, "conds": [[1, 0, "42"]]}}
    {split}.tables.jsonl  {"id": "1-10015132-11", "header": [...], "types": ["text", "real", ...],
                           "rows": [[...], ...]}
    {split}.db            the same tables for SQLite, texts in lower case

The files hold no answers: they are defined as what the official engine returns for the annotated
query (Zhong et al., 2017). Weak supervision (Min et al., 2019, section 5.3) has only the answers,
so `read_answers` executes each query once, and the builder drops the query.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardem_jax.data.exclusions import EMPTY_QUESTION, ExclusionCounts
from hardem_jax.data.json_fields import check_kind, get_field, get_id, json_type
from hardem_jax.data.json_stream import PathLike, iter_json_lines
from hardem_jax.errors import InputError
from hardem_jax.queries.examples import AnnotatedQuestion, WikiSqlExample
from hardem_jax.queries.solutions.engine import execute_sql
from hardem_jax.queries.solutions.types import Condition, Query
from hardem_jax.queries.solutions.values import ExecutionError, check_query, sql_types
from hardem_jax.tables.jsonl import read_table
from hardem_jax.tables.table import Table

# Reasons of `ExclusionCounts`, for questions left out:
NO_TABLE = "no such table"
NO_QUERY = "no query given"
OUTSIDE_TABLE = "query for columns or operators that there are not"
NOT_EXECUTED = "query cannot be executed"
# and warnings, for questions kept:
EMPTY_ANSWER = "answer is empty"


def read_wikisql(
    folder: PathLike, split: str, *, skips: ExclusionCounts
) -> Iterator[WikiSqlExample]:
    """Streams the questions of a split; its tables are in memory.

    Args:
        folder: holds ``{split}.jsonl`` and ``{split}.tables.jsonl``.
        split: "train", "dev" or "test".
        skips: counts what is left out, by id. Left out: empty question, no such table, query that
            refers to columns or operators that do not exist. Warned of: table with rows of
            different lengths, by its own id.

    Raises:
        InputError: a file is missing or not in this layout, or two tables have one id.

    Example:
        >>> import json, tempfile
        >>> table = {"id": "1-1", "header": ["Player", "No."], "types": ["text", "real"],
        ...          "rows": [["Ann", 7], ["Bo", 42]]}
        >>> line = {"table_id": "1-1", "question": "Who wears 42?",
        ...         "sql": {"sel": 0, "agg": 0, "conds": [[1, 0, 42]]}}
        >>> skips = ExclusionCounts()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "dev.tables.jsonl").write_text(json.dumps(table))
        ...     _ = Path(folder, "dev.jsonl").write_text(json.dumps(line))
        ...     (example,) = read_wikisql(folder, "dev", skips=skips)
        >>> example.id, example.table.rows[1], example.query.text(example.table.header)
        ('dev-0', ('bo', 42), 'SELECT Player WHERE No. = 42')
    """
    tables = _read_tables(Path(folder, f"{split}.tables.jsonl"), skips)
    file = Path(folder, f"{split}.jsonl")
    for number, record in iter_json_lines(file):
        id = f"{split}-{number - 1}"
        place = f"{file}: line {number}"
        question = get_field(record, "question", str, place) or ""
        table_id = get_id(record, "table_id", place)
        query = _query(record, place)
        if not question.strip():
            skips.add(EMPTY_QUESTION, id)
        elif table_id not in tables:
            skips.add(NO_TABLE, id, str(table_id))
        else:
            try:
                if query is not None:
                    check_query(tables[table_id], query)
            except ExecutionError:
                skips.add(OUTSIDE_TABLE, id)
            else:
                yield WikiSqlExample(id, question, tables[table_id], query)


def read_answers(
    folder: PathLike, split: str, *, skips: ExclusionCounts
) -> Iterator[AnnotatedQuestion]:
    """Streams the questions with their answers: each annotated query is executed once.

    The answer is exactly the official engine's result, also a number, NULL or nothing.

    Args:
        folder: see `read_wikisql`.
        split: see `read_wikisql`.
        skips: as in `read_wikisql`; also left out: no query given, query cannot be executed.
            Warned of, with the question kept: the answer is empty: no row meets the conditions, or
            the query aggregates over no rows. Some queries in the official files are like this.

    Raises:
        InputError: see `read_wikisql`.
    """
    for example in read_wikisql(folder, split, skips=skips):
        if example.query is None:
            skips.add(NO_QUERY, example.id)
            continue
        try:
            answer = execute_sql(example.table, example.query)
        except ExecutionError:
            skips.add(NOT_EXECUTED, example.id)
            continue
        if answer in ([], [None]):
            skips.warn(EMPTY_ANSWER, example.id)
        yield AnnotatedQuestion(
            example.id, example.question, example.table, tuple(answer), query=example.query
        )


def _read_tables(file: Path, skips: ExclusionCounts) -> dict[str, Table]:
    tables: dict[str, Table] = {}
    for number, record in iter_json_lines(file):
        table = read_table(record, f"{file}: line {number}", lower=True, skips=skips)
        if sql_types(table) != table.types:  # the official databases have float64 throughout
            rows = [
                [
                    float(cell) if kind == "real" and isinstance(cell, int) else cell
                    for cell, kind in zip(row, table.types, strict=True)
                ]
                for row in table.rows
            ]
            table = dataclasses.replace(table, rows=rows)
        if table.id in tables:
            raise InputError(f"{file}: line {number}: expected a new table, found {table.id} again")
        tables[table.id] = table
    return tables


def _query(record: dict[str, Any], place: str) -> Query | None:
    sql = get_field(record, "sql", dict, place)
    if sql is None:
        return None
    select, aggregator = (_position(sql.get(key), f"{place}: {key!r}") for key in ("sel", "agg"))
    conditions = get_field(sql, "conds", list, place) or []
    return Query(select, aggregator, tuple(_condition(each, place) for each in conditions))


def _condition(triple: Any, place: str) -> Condition:
    place = f"{place}: 'conds'"
    if not isinstance(triple, list) or len(triple) != 3:
        raise InputError(f"{place}: expected column, operator and value, found {triple!r}")
    column, operator, value = triple
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise InputError(f"{place}: expected a string or a number, found {json_type(value)}")
    if isinstance(value, str):
        check_kind(value, str, f"{place}: expected the value to be")
    return Condition(_position(column, place), _position(operator, place), value)


def _position(value: Any, place: str) -> int:
    return check_kind(value, int, f"{place}: expected a position, which is")
