"""Random queries, and whether both SQL engines give the same results for them."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hardem_jax.solutions.sql.enumeration import (
    AGGREGATORS,
    MAX_CONDITIONS,
    OPERATORS,
    Condition,
    ExecutionError,
    OfficialEngine,
    Query,
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
        ``queries``, ``different``, the first few ``differences``, and how many of the results were
        ``trivial`` (none, NULL or 0).
    """
    rng = random.Random(seed)
    texts: dict[int, tuple[Table, list[str]]] = {}
    for table, question in questions:
        texts.setdefault(id(table), (table, []))[1].extend(spans_of(question))
    totals: Counter[str] = Counter()
    differences: list[str] = []
    with OfficialEngine() as engine:
        for place, (table, spans) in enumerate(texts.values()):
            share = number * (place + 1) // len(texts) - number * place // len(texts)
            queries = [random_query(rng, table, spans) for _ in range(share)]
            expected = [outcome(engine.execute, table, query) for query in queries]
            found = [outcome(execute_sql, table, query) for query in queries]
            totals["queries"] += share
            totals["trivial"] += sum(r in ((), ("None",), ("0",), ("no result",)) for r in expected)
            for query, one, other in zip(queries, expected, found, strict=True):
                if one != other:
                    totals["different"] += 1
                    differences.append(f"table {table.id}: {query}: SQLite {one}, ours {other}")
    counted = {name: totals[name] for name in ("queries", "different", "trivial")}
    return counted | {"differences": differences[:10]}
