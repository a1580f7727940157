"""How fast Z is found: ``python -m experiments.benchmark.data.solution_sets --help``.

Equations of DROP, queries of WikiSQL and spans of NarrativeQA, by the default rules, next to what
they replace: SQLite executing all of Z_tot, and the ROUGE package scoring one span after another.
Both would take years or hours, so they are timed on a sample and extrapolated.
"""

import concurrent.futures
import dataclasses
import itertools
import multiprocessing
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.progress import track

from experiments.benchmark.measure import timed
from experiments.report import Report, table
from experiments.solution_sets import equations, rouge, sql
from experiments.solution_sets.sql import Answered
from hardem_jax.cli.command import run_command
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.readers.narrativeqa import add_rouge_mentions
from hardem_jax.data.solve import numeric_question
from hardem_jax.errors import InputError, require
from hardem_jax.solutions.equations.enumeration import EquationRules
from hardem_jax.solutions.equations.numbers import NumberConfig
from hardem_jax.solutions.rouge.search import RougeRules
from hardem_jax.solutions.sql.columns import typed_table
from hardem_jax.solutions.sql.conditions import find_conditions, number_spans
from hardem_jax.solutions.sql.enumeration import (
    AGGREGATORS,
    OPERATORS,
    OfficialEngine,
    Query,
    SqlRules,
    Table,
    enumerate_sql,
    split_words,
)

# Numeric questions of DROP's whole training set.
FULL_NUMERIC = 46_973
# Queries that SQLite executes of a question's Z_tot.
SAMPLED_QUERIES = 200


@dataclasses.dataclass(frozen=True)
class SolutionSets:
    """Measure how fast solution sets are found; data sets that are not given are left out.

    Attributes:
        drop: files of DROP.
        wikisql: folder of WikiSQL; its training split is used.
        narrativeqa: folder of NarrativeQA; all of its questions are used.
        processes: for queries and spans.
        sample: questions, about, whose Z_tot is timed in SQLite.
        check: questions, each span of which is timed on its own.
        out: write the figures here, as JSON.
    """

    drop: tuple[Path, ...] = ()
    wikisql: Path | None = None
    narrativeqa: Path | None = None
    processes: int = 2
    sample: int = 100
    check: int = 4
    out: Path | None = None

    def __post_init__(self) -> None:
        require(self, "processes", "sample", "check", at_least=1)

    def run(self) -> None:
        if not (self.drop or self.wikisql or self.narrativeqa):
            raise InputError("--drop, --wikisql, --narrativeqa: expected one of them, found none")
        report, rows = Report(self, self.out), []
        if self.drop:
            rows += time_equations(self.drop)
        if self.wikisql:
            rows += time_queries(self.wikisql, self.processes, self.sample)
        if self.narrativeqa:
            rows += time_spans(self.narrativeqa, self.processes, self.check)
        columns = {
            "Z": "name",
            "questions": "questions",
            "s": ("wall_s", 1, 3),
            "CPU s": ("cpu_s", 1, 3),
            "questions/s, by\nCPU s if given": ("speed", 1, 2),
            "times as long": ("times", 1, 0),
        }
        speeds = [
            {**row, "speed": row["questions"] / row.get("cpu_s", row["wall_s"])} for row in rows
        ]
        report.write({"results": rows}, table("Finding Z", speeds, columns))


def time_equations(files: Sequence[Path]) -> list[dict[str, Any]]:
    """One process, whose CPU time is what it would take on a core of its own."""
    examples = equations.read_all(files, ExclusionCounts())
    rules, numbers = EquationRules(), NumberConfig()
    times = timed(lambda _: [numeric_question(example, numbers, rules) for example in examples])
    full = {name: seconds * FULL_NUMERIC / len(examples) for name, seconds in times.items()}
    return [
        {"name": "equations", "questions": len(examples), **times},
        {"name": "equations of all of DROP, extrapolated", "questions": FULL_NUMERIC, **full},
    ]


def time_queries(folder: Path, processes: int, sample: int) -> list[dict[str, Any]]:
    """One process, several without the time that they take to start, and SQLite."""
    questions = sql.answered(folder, "train", ExclusionCounts())
    times = timed(lambda _: _enumerate_all(questions))
    rows: list[dict[str, Any]] = [{"name": "queries", "questions": len(questions), **times}]
    # Neighbours share tables, and no process should get all of the hard ones.
    size = max(1, len(questions) // (16 * processes))
    parts = [questions[start : start + size] for start in range(0, len(questions), size)]
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=spawn) as pool:
        list(pool.map(_enumerate_all, parts))  # starts the processes
        wall = timed(lambda _: list(pool.map(_enumerate_all, parts)))["wall_s"]
    name = f"queries, {processes} processes"
    rows.append({"name": name, "questions": len(questions), "wall_s": wall})
    return rows + time_sqlite(questions, sample)


def _enumerate_all(questions: Sequence[Answered]) -> None:
    for question in questions:
        enumerate_sql(question.table, question.question, question.answer)


def time_sqlite(questions: Sequence[Answered], sample: int) -> list[dict[str, Any]]:
    """Executing Z_tot by SQLite, from a sample of it, and enumeration of the same questions.

    The questions are all those on some tables, drawn at random, since what is made of a table, here
    as by SQLite, serves all questions on it. SQLite has its tables before its time begins.
    """
    rng = random.Random(0)
    groups = [list(group) for _, group in itertools.groupby(questions, key=lambda q: id(q.table))]
    rng.shuffle(groups)
    chosen: list[Answered] = []
    for group in groups:
        if len(chosen) < sample:
            table = dataclasses.replace(group[0].table)  # new, so that nothing is known of it
            chosen += [dataclasses.replace(question, table=table) for question in group]
    ours = timed(lambda _: _enumerate_all(chosen))
    rows = [{"name": "queries of a sample", "questions": len(chosen), **ours}]
    for name, conditions_of in {
        "the same by SQLite, all of Z_tot, extrapolated": all_conditions,
        "the same by SQLite, conditions that hold for a row, extrapolated": holding_conditions,
    }.items():
        seconds = sum(_sqlite_seconds(rng, q, conditions_of) for q in track(chosen, transient=True))
        row = {"name": name, "questions": len(chosen), "wall_s": seconds}
        rows.append(row | {"times": seconds / ours["wall_s"]})
    return rows


def _sqlite_seconds(
    rng: random.Random, question: Answered, conditions_of: Callable[..., "list[Span]"]
) -> float:
    """Seconds that SQLite takes for all queries with some of the conditions, extrapolated."""
    conditions = conditions_of(question.table, question.question, SqlRules())
    queries, total = sample_queries(rng, question.table, question.question, conditions)
    with OfficialEngine() as engine:
        engine.execute(question.table, Query(0, 0))  # stores the table
        times = timed(lambda _: [engine.execute(question.table, query) for query in queries])
    return times["wall_s"] * total / len(queries)


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
    rng: random.Random, table: Table, question: str, conditions: Sequence[Span]
) -> tuple[list[Query], int]:
    """Queries drawn evenly from all with some of the conditions, and how many there are in all."""
    counts = count_sets(conditions, SqlRules().max_conditions)
    words = split_words(question)
    queries = []
    for size in rng.choices(range(len(counts)), counts, k=SAMPLED_QUERIES):
        row = [rng.randrange(len(table.types)), rng.randrange(len(AGGREGATORS)), size]
        for condition in _draw(rng, conditions, size):
            row += condition
        queries.append(Query.from_row(row, question, words))
    return queries, sum(counts) * len(table.types) * len(AGGREGATORS)


def _draw(rng: random.Random, conditions: Sequence[Span], size: int) -> list[Span]:
    """``size`` conditions on different columns, in the order of Z."""
    while size:
        chosen = sorted(rng.choices(conditions, k=size))
        if len({condition[0] for condition in chosen}) == size:
            return chosen
    return []


def time_spans(folder: Path, processes: int, check: int) -> list[dict[str, Any]]:
    """The search in several processes, starting them included, and scoring each span on its own."""
    examples = rouge.read_all(folder, ExclusionCounts())
    chosen = random.Random(0).sample(examples, min(check, len(examples)))
    rows = []
    for scorer in rouge.SCORERS:
        rules = RougeRules(scorer)
        wall = timed(lambda _, r=rules: list(add_rouge_mentions(examples, r, processes)))["wall_s"]
        alone = timed(lambda _, s=scorer: [rouge.score_all(example, s) for example in chosen])
        alone_s = alone["wall_s"] / len(chosen) * len(examples) / processes
        name = f"spans by {scorer}, {processes} processes"
        rows.append({"name": name, "questions": len(examples), "wall_s": wall})
        name = "the same span by span, extrapolated"
        row = {"name": name, "questions": len(examples), "wall_s": alone_s}
        rows.append(row | {"times": alone_s / wall})
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    run_command(SolutionSets, prog="python -m experiments.benchmark.data.solution_sets", argv=argv)


if __name__ == "__main__":
    main()
