"""Size of Z on WikiSQL: ``python -m experiments.solution_sets.sql --help``.

The paper (Min et al., 2019) reports a mean |Z| of 346.1 and a median of 5 on WikiSQL, but not which
spans may be values, nor which conditions may be combined. Every reading of it is a row here.
``--queries`` compares `execute_sql` with SQLite on random queries.
"""

import dataclasses
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from experiments.report import Report, table
from experiments.solution_sets.sql_queries import compare_engines
from hardem_jax.cli.command import run_command
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.json_config import to_json
from hardem_jax.data.readers.wikisql import read_wikisql
from hardem_jax.errors import InputError, require
from hardem_jax.solutions.sql.columns import typed_table
from hardem_jax.solutions.sql.enumeration import (
    Cell,
    Condition,
    ExecutionError,
    OfficialEngine,
    Query,
    SqlRules,
    Table,
    enumerate_sql,
    split_words,
)

PAPER = {"name": "paper", "mean": 346.1, "median": 5}
COLUMNS = {
    "queries": "name",
    "covered %": ("covered", 100, 1),
    "annotated %": ("annotated", 100, 1),
    "first %": ("first", 100, 1),
    "drawn %": ("drawn", 100, 1),
    "mean": ("mean", 1, 1),
    "median": "median",
    "largest": "max",
    "cut": "cut",
}

VARIANTS = {
    "default: < > on numbers, whole ones, a column once": SqlRules(),
    "... no condition that all rows meet": SqlRules(vacuous_conditions=False),
    "... no MAX, MIN, SUM, AVG of one row": SqlRules(aggregates_of_one_row=False),
    "... also MAX, MIN, SUM, AVG of text": SqlRules(aggregates_on_text=True),
    "... of text, but not of one row": SqlRules(
        aggregates_of_one_row=False, aggregates_on_text=True
    ),
    "... of text, no condition that all rows meet": SqlRules(
        vacuous_conditions=False, aggregates_on_text=True
    ),
    "... one span for each value": SqlRules(distinct_values=True),
    "... columns shared": SqlRules(shared_columns=True),
    "... sane semantics": SqlRules(semantics="sane"),
    "... at most two conditions": SqlRules(max_conditions=2),
    "pieces of numbers, too": SqlRules(numbers="exact"),
    "... also MAX, MIN, SUM, AVG of text ": SqlRules(numbers="exact", aggregates_on_text=True),
    "... no condition that all rows meet ": SqlRules(numbers="exact", vacuous_conditions=False),
    "all spans with a digit, one for each value": SqlRules(
        numbers="official", distinct_values=True, cap=4096
    ),
    "< > on text, one span for each value, cap": SqlRules(
        ranges_on_text=True, distinct_values=True, cap=4096, max_combinations=2**18
    ),
}


@dataclasses.dataclass(frozen=True)
class Sql:
    """Count the queries in Z, and compare two engines.

    Attributes:
        folder: WikiSQL in the official layout.
        split: whose questions.
        queries: random queries that both engines execute.
        seed: of the queries.
        out: write the figures here, as JSON.
    """

    folder: Path
    split: str = "train"
    queries: int = 0
    seed: int = 0
    out: Path | None = None

    def __post_init__(self) -> None:
        require(self, "queries", at_least=0)
        require(self, "seed", at_least=0, below=2**32)

    def run(self) -> None:
        report, skips = Report(self, self.out), ExclusionCounts()
        questions = answered(self.folder, self.split, skips)
        rows = [
            {"name": name, **measure(rules, questions)}
            for name, rules in track(VARIANTS.items(), transient=True)
        ]
        content: dict[str, Any] = {"left_out": skips.as_dict(), "rows": rows}
        content["questions"] = len(questions)
        title = f"Z of {len(questions)} questions; of those with a solution, mean and median"
        shown: list[Any] = [skips, table(title, [*rows, PAPER], COLUMNS)]
        if self.queries:
            pairs = [(question.table, question.question) for question in questions]
            content["engines"] = engines = compare_engines(pairs, self.queries, self.seed)
            shown.append(
                f"{engines['queries']} random queries, {engines['trivial']} of them without a row: "
                f"{engines['different']} different results"
            )
            shown += engines["differences"]
        report.write(content, *shown)


@dataclasses.dataclass(frozen=True)
class Answered:
    """A question with its answer, and the annotated query to look for in Z."""

    question: str
    table: Table
    query: Query
    answer: list[Cell]


def answered(folder: Path, split: str, skips: ExclusionCounts) -> list[Answered]:
    """The questions whose annotated query the official engine can execute.

    Raises:
        InputError: if there are none.
    """
    questions: list[Answered] = []
    with OfficialEngine() as engine:
        for example in read_wikisql(folder, split, skips=skips):
            if example.query is None:
                continue
            try:
                answer = engine.execute(example.table, example.query)
            except ExecutionError:
                continue
            questions.append(Answered(example.question, example.table, example.query, answer))
    if not questions:
        raise InputError(f"--folder: expected questions with a query, found none in {folder}")
    return questions


def measure(rules: SqlRules, questions: Sequence[Answered]) -> dict[str, Any]:
    """Coverage and size of Z, and how often the annotated query is in it, its first or drawn.

    "first" and "drawn" are of the questions with a Z: the share whose first query is the annotated
    one, and the probability that a query drawn from Z is.
    """
    found = [enumerate_sql(q.table, q.question, q.answer, rules) for q in questions]
    sizes = [solutions.size for solutions in found if solutions.size]
    annotated = [
        annotations(question, solutions.queries)
        for question, solutions in zip(questions, found, strict=True)
    ]
    covered = [places for places in annotated if len(places)]
    return {
        "rules": to_json(rules),
        "covered": len(sizes) / len(questions),
        "annotated": sum(places.any() for places in annotated) / len(questions),
        "first": statistics.mean(float(places[0]) for places in covered) if covered else None,
        "drawn": statistics.mean(places.mean() for places in covered) if covered else None,
        "mean": statistics.mean(sizes) if sizes else None,
        "median": statistics.median(sizes) if sizes else None,
        "max": max(sizes, default=None),
        "cut": sum(solutions.cut > 0 for solutions in found),
        "fewer_conditions": sum(s.max_conditions < rules.max_conditions for s in found),
    }


def annotations(question: Answered, queries: np.ndarray) -> np.ndarray:
    """``[Z]`` bool: which queries mean what the annotated one does, as the engine binds values."""
    query, columns_of = question.query, typed_table(question.table).columns
    columns = sorted(condition.column for condition in query.conditions)
    same = (queries[:, :3] == (query.select, query.aggregator, len(columns))).all(1)
    same &= (queries[:, 3 : 3 + 4 * len(columns) : 4] == columns).all(1)
    words = split_words(question.question)

    def meaning(conditions: Sequence[Condition]) -> set[tuple[int, int, Cell]]:
        return {(c.column, c.operator, columns_of[c.column].bind(c.value)) for c in conditions}

    wanted = meaning(query.conditions)
    for place in np.flatnonzero(same):
        found = Query.from_row(queries[place], question.question, words)
        same[place] = meaning(found.conditions) == wanted
    return same


def main(argv: Sequence[str] | None = None) -> None:
    run_command(Sql, prog="python -m experiments.solution_sets.sql", argv=argv)


if __name__ == "__main__":
    main()
