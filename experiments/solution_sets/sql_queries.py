"""Queries to measure with: at random from anywhere, and at random from a question's Z_tot."""

import math
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hardem_jax.solutions.sql.columns import typed_table
from hardem_jax.solutions.sql.conditions import find_conditions, number_spans
from hardem_jax.solutions.sql.enumeration import (
    AGGREGATORS,
    MAX_CONDITIONS,
    OPERATORS,
    Condition,
    ExecutionError,
    OfficialEngine,
    Query,
    SqlRules,
    Table,
    execute_sql,
    split_words,
)

_MARKS = ("", " ", "-", "+", ".", "1e3", "0x1f", "nan", "inf", "1_000", "'; DROP TABLE t; --", "é")


def random_query(rng: random.Random, table: Table, texts: Sequence[str]) -> Query:
    """Any query on a table: columns may repeat, values come from everywhere.

    Args:
        rng: source of chance.
        table: with columns.
        texts: values that need not be in the table, such as spans of its questions.
    """
    columns = range(len(table.types))
    conditions = []
    for _ in range(rng.choices(range(MAX_CONDITIONS + 1), (1, 6, 3, 1))[0]):
        column = rng.choice(columns)
        value = _random_value(rng, table, column, texts)
        conditions.append(Condition(column, rng.randrange(len(OPERATORS)), value))
    return Query(rng.choice(columns), rng.randrange(len(AGGREGATORS)), tuple(conditions))


def _random_value(rng: random.Random, table: Table, column: int, texts: Sequence[str]):
    kind = rng.random()
    if table.rows and kind < 0.7:
        # Mostly of this column, or else hardly a row is left.
        place = column if kind < 0.6 else rng.randrange(len(table.types))
        cell = rng.choice(table.rows)[place]
        if cell is not None:
            return _disguised(rng, cell)
    if texts and kind < 0.9:
        return rng.choice(texts)
    return rng.choice(_MARKS) if kind < 0.95 else _random_number(rng)


def _disguised(rng: random.Random, cell: str | float | int) -> str | float | int:
    """The cell, or what a question may say instead."""
    kind = rng.random()
    if kind < 0.6:
        return cell
    if kind < 0.8:
        return str(cell).upper()
    return f"{cell:,}" if not isinstance(cell, str) and math.isfinite(cell) else f"{cell} or so"


def _random_number(rng: random.Random) -> float | int:
    kind = rng.random()
    if kind < 0.4:
        return rng.randrange(-3, 3000)
    return round(rng.uniform(-3, 3000), rng.randrange(4)) if kind < 0.9 else rng.choice(_EXTREMES)


_EXTREMES = (float("inf"), float("-inf"), float("nan"), 2**53 + 1, -(2**63), 2**63, 1e300, -0.0)


def spans_of(question: str) -> list[str]:
    """The text of every span of words."""
    words = split_words(question).tolist()
    return [question[a:b] for i, (a, _) in enumerate(words) for _, b in words[i:]]


def outcome(execute, table: Table, query: Query) -> tuple[str, ...]:
    """What an engine makes of a query, so that only equal outcomes are equal: types, too."""
    try:
        # 0.0 and -0.0 are one number to SQLite, which keeps either.
        return tuple(repr(0.0 if cell == 0 and isinstance(cell, float) else cell)
                     for cell in execute(table, query))  # fmt: skip
    except ExecutionError:
        return ("no result",)


def compare_engines(
    questions: Sequence[tuple[Table, str]], number: int, seed: int
) -> dict[str, Any]:
    """Execute random queries with both engines.

    Args:
        questions: tables, and what is asked about them.
        number: of queries, about as many for each table.
        seed: of the queries.

    Returns:
        ``queries``, ``different``, the first few ``differences``, how many of the results were
        ``trivial`` (none, NULL or 0), and seconds of either engine.
    """
    rng = random.Random(seed)
    texts: dict[int, tuple[Table, list[str]]] = {}
    for table, question in questions:
        texts.setdefault(id(table), (table, []))[1].extend(spans_of(question))
    totals: Counter[str] = Counter()
    differences: list[str] = []
    official_s = ours_s = 0.0
    with OfficialEngine() as engine:
        for place, (table, spans) in enumerate(texts.values()):
            share = number * (place + 1) // len(texts) - number * place // len(texts)
            queries = [random_query(rng, table, spans) for _ in range(share)]
            begin = time.perf_counter()
            expected = [outcome(engine.execute, table, query) for query in queries]
            middle = time.perf_counter()
            found = [outcome(execute_sql, table, query) for query in queries]
            official_s, ours_s = official_s + middle - begin, ours_s + time.perf_counter() - middle
            totals["queries"] += share
            totals["trivial"] += sum(r in ((), ("None",), ("0",), ("no result",)) for r in expected)
            for query, one, other in zip(queries, expected, found, strict=True):
                if one != other:
                    totals["different"] += 1
                    differences.append(f"table {table.id}: {query}: SQLite {one}, ours {other}")
    return {name: totals[name] for name in ("queries", "different", "trivial")} | {
        "differences": differences[:10],
        "official_s": official_s,
        "ours_s": ours_s,
    }


Span = tuple[int, int, int, int]
"""A condition as in a row of Z: column, operator, first word, last word."""


def all_conditions(table: Table, question: str, rules: SqlRules) -> list[Span]:
    """The conditions of Z_tot, whether or not they hold for a row; < and > not on text."""
    words = split_words(question).tolist()
    spans = [(first, last) for first in range(len(words)) for last in range(first, len(words))]
    numbers = [span[:2] for span in number_spans(question, words, rules.numbers)]
    return [
        (column, operator, *span)
        for column, kind in enumerate(table.types)
        for operator in (range(len(OPERATORS)) if kind == "real" else (0,))
        for span in (numbers if kind == "real" else spans)
    ]


def holding_conditions(table: Table, question: str, rules: SqlRules) -> list[Span]:
    """Those of them that hold for some row, as whoever executes them one by one finds out first."""
    typed = typed_table(table, rules.semantics)
    found = find_conditions(typed, question, split_words(question), rules)
    return [condition[:4] for condition in found]


def count_sets(conditions: Sequence[Span], max_conditions: int) -> list[int]:
    """At k, the number of sets of k conditions on different columns.

    Example:
        >>> count_sets([(0, 0, 2, 2), (0, 0, 3, 3), (1, 0, 2, 2)], 2)
        [1, 3, 2]
    """
    counts = [1] + [0] * max_conditions
    for number in Counter(condition[0] for condition in conditions).values():
        for size in range(max_conditions, 0, -1):
            counts[size] += counts[size - 1] * number
    return counts


def sample_queries(
    rng: random.Random,
    table: Table,
    question: str,
    conditions: Sequence[Span],
    max_conditions: int,
    number: int,
) -> tuple[list[Query], int]:
    """Queries drawn evenly from all with some of the conditions, and how many there are in all."""
    counts = count_sets(conditions, max_conditions)
    words = split_words(question)
    queries = []
    for size in rng.choices(range(len(counts)), counts, k=number):
        row = [rng.randrange(len(table.types)), rng.randrange(len(AGGREGATORS)), size]
        for condition in _draw(rng, conditions, size):
            row += condition
        queries.append(Query.from_row(row, question, words))
    return queries, sum(counts) * len(table.types) * len(AGGREGATORS)


def _draw(rng: random.Random, conditions: Sequence[Span], size: int) -> list[Span]:
    while size:
        chosen = sorted(rng.choices(conditions, k=size))
        if len({condition[0] for condition in chosen}) == size:
            return chosen
    return []


def execute_all(table: Table, queries: Sequence[Query]) -> float:
    """Seconds that SQLite takes, the table stored beforehand."""
    with OfficialEngine() as engine:
        engine.execute(table, Query(0, 0))
        begin = time.perf_counter()
        for query in queries:
            engine.execute(table, query)
        return time.perf_counter() - begin
