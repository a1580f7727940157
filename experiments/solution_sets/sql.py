"""Speed and size of Z on WikiSQL: ``python -m experiments.solution_sets.sql --help``.

The paper (Min et al., 2019) reports a mean |Z| of 346.1 and a median of 5 on WikiSQL, but not which
spans may be values, nor which conditions may be combined. Every reading of it is a row here. The
time that SQLite takes for all of Z_tot is measured on a sample, and both engines are compared on
random queries.
"""

import concurrent.futures
import dataclasses
import itertools
import multiprocessing
import os
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track
from rich.table import Table as Printed

from experiments.benchmark.measure import machine, machine_line, wide_console
from experiments.solution_sets.sql_queries import (
    all_conditions,
    compare_engines,
    execute_all,
    holding_conditions,
    sample_queries,
)
from hardem_jax.cli.command import flags, run_command
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.files import write_json
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

PAPER = (346.1, 5)
# Training questions of the whole data set.
FULL_QUESTIONS = 56_355

VARIANTS = {
    "default: < > on numbers, whole ones, a column once": SqlRules(),
    "... no condition that all rows meet": SqlRules(vacuous_conditions=False),
    "... no MAX, MIN, SUM, AVG of one row": SqlRules(aggregates_of_one_row=False),
    "... one span for each value": SqlRules(distinct_values=True),
    "... columns shared": SqlRules(shared_columns=True),
    "... sane semantics": SqlRules(semantics="sane"),
    "... at most two conditions": SqlRules(max_conditions=2),
    "pieces of numbers, too": SqlRules(numbers="exact"),
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
    """Measure how fast Z is enumerated, how large it is, and how SQLite compares.

    Attributes:
        folder: WikiSQL in the official layout.
        split: whose questions.
        processes: for the speed of the default rules.
        sample: questions, about, whose Z_tot is timed in SQLite.
        sample_queries: of each, as many as are executed.
        queries: random queries that both engines execute.
        seed: of samples and queries.
        out: write the figures here, as JSON.
    """

    folder: Path
    split: str = "train"
    processes: int = 2
    sample: int = 100
    sample_queries: int = 200
    queries: int = 0
    seed: int = 0
    out: Path | None = None

    def __post_init__(self) -> None:
        require(self, "processes", "sample", "sample_queries", at_least=1)
        require(self, "queries", at_least=0)
        require(self, "seed", at_least=0, below=2**32)

    def run(self) -> None:
        skips = ExclusionCounts()
        questions = answered(self.folder, self.split, skips)
        if not questions:
            raise InputError(
                f"--folder: expected questions with a query, found none in {self.folder}"
            )
        about = machine()
        content: dict[str, Any] = {"flags": flags(self), "machine": about}
        content |= {"left_out": skips.as_dict(), "questions": len(questions)}
        content["rows"] = [
            {"name": name, **measure(rules, questions)}
            for name, rules in track(VARIANTS.items(), transient=True)
        ]
        content["parallel"] = in_parallel(questions, self.processes)
        content["sqlite"] = beside_sqlite(questions, self.sample, self.sample_queries, self.seed)
        if self.queries:
            pairs = [(question.table, question.question) for question in questions]
            content["engines"] = compare_engines(pairs, self.queries, self.seed)
        about["load_average_after"] = list(os.getloadavg())
        if self.out is not None:
            write_json(self.out, content)
        console = wide_console()
        console.print(skips, highlight=False, markup=False)
        console.print(variants_table(content["rows"], len(questions)))
        for line in (*lines(content), machine_line(about)):
            console.print(line, highlight=False, markup=False)


@dataclasses.dataclass(frozen=True)
class Answered:
    """A question with its answer, and the annotated query to look for in Z."""

    question: str
    table: Table
    query: Query
    answer: list[Cell]


def answered(folder: Path, split: str, skips: ExclusionCounts) -> list[Answered]:
    """The questions whose annotated query the official engine can execute."""
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
    return questions


def measure(rules: SqlRules, questions: Sequence[Answered]) -> dict[str, Any]:
    """Size of Z, whether it holds the annotated query, and seconds it takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = [enumerate_sql(q.table, q.question, q.answer, rules) for q in questions]
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    sizes = [solutions.size for solutions in found if solutions.size]
    annotated = sum(
        annotation_in(question, solutions.queries)
        for question, solutions in zip(questions, found, strict=True)
    )
    return {
        "rules": flags(rules),
        "covered": len(sizes) / len(questions),
        "annotated": annotated / len(questions),
        "mean": statistics.mean(sizes) if sizes else None,
        "median": statistics.median(sizes) if sizes else None,
        "max": max(sizes, default=None),
        "cut": sum(solutions.cut > 0 for solutions in found),
        "fewer_conditions": sum(s.max_conditions < rules.max_conditions for s in found),
        "wall_s": wall,
        "cpu_s": cpu,
    }


def annotation_in(question: Answered, queries: np.ndarray) -> bool:
    """Whether a row of Z means what the annotated query does; values as the engine binds them."""
    query, columns_of = question.query, typed_table(question.table).columns
    columns = sorted(condition.column for condition in query.conditions)
    rows = queries[(queries[:, :3] == (query.select, query.aggregator, len(columns))).all(1)]
    rows = rows[(rows[:, 3 : 3 + 4 * len(columns) : 4] == columns).all(1)]
    words = split_words(question.question)

    def meaning(conditions: Sequence[Condition]) -> set[tuple[int, int, Cell]]:
        return {(c.column, c.operator, columns_of[c.column].bind(c.value)) for c in conditions}

    wanted = meaning(query.conditions)
    found = (Query.from_row(row, question.question, words).conditions for row in rows)
    return any(meaning(conditions) == wanted for conditions in found)


def in_parallel(questions: Sequence[Answered], processes: int) -> dict[str, Any]:
    """Questions per second of some processes, the default rules, starting up not included."""
    # Neighbours share tables, and no process should get all of the hard ones.
    size = max(1, len(questions) // (16 * processes))
    parts = [questions[start : start + size] for start in range(0, len(questions), size)]
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=spawn) as pool:
        list(pool.map(_enumerate_all, parts))  # starts the processes
        begin = time.perf_counter()
        total = sum(pool.map(_enumerate_all, parts))
        wall = time.perf_counter() - begin
    return {"processes": processes, "wall_s": wall, "solutions": total}


def _enumerate_all(questions: Sequence[Answered]) -> int:
    # Unpickled tables are new objects, so that nothing is known of them.
    return sum(enumerate_sql(q.table, q.question, q.answer).size for q in questions)


def beside_sqlite(
    questions: Sequence[Answered], number: int, queries: int, seed: int
) -> dict[str, Any]:
    """What executing queries by SQLite takes, from a sample of them, and what enumeration takes.

    The questions are all those on some tables, drawn at random, since what is made of a table, here
    as by SQLite, serves all questions on it. SQLite has its tables before its time begins.
    """
    rng, rules = random.Random(seed), SqlRules()
    groups = [list(group) for _, group in itertools.groupby(questions, key=lambda q: id(q.table))]
    rng.shuffle(groups)
    chosen: list[Answered] = []
    for group in groups:
        if len(chosen) < number:
            # A new table, so that nothing is known of it.
            table = dataclasses.replace(group[0].table)
            chosen += [dataclasses.replace(question, table=table) for question in group]
    begin = time.perf_counter()
    for question in chosen:
        enumerate_sql(question.table, question.question, question.answer, rules)
    found: dict[str, Any] = {"ours_s": time.perf_counter() - begin, "questions": len(chosen)}
    for name, conditions_of in (("all", all_conditions), ("holding", holding_conditions)):
        found[name] = totals = {"queries": 0, "executed": 0, "official_s": 0.0}
        for question in track(chosen, transient=True):
            conditions = conditions_of(question.table, question.question, rules)
            some, total = sample_queries(
                rng, question.table, question.question, conditions, rules.max_conditions, queries
            )
            totals["queries"] += total
            totals["executed"] += len(some)
            # Each question by itself, since queries of one table may be slower than another's.
            totals["official_s"] += execute_all(question.table, some) * total / len(some)
    return found


def variants_table(rows: Sequence[dict[str, Any]], questions: int) -> Printed:
    """A row for each variant, and the paper's."""
    table = Printed(title=f"Z of {questions} questions; of those with a solution, mean and median")
    table.add_column("queries")
    names = ("covered %", "annotated %", "mean", "median", "largest", "cut", "questions/CPU s")
    for name in names:
        table.add_column(name, justify="right")
    for row in rows:
        sizes = [
            f"{row[name]:.10g}" if row[name] is not None else "-" for name in ("median", "max")
        ]
        mean = f"{row['mean']:.1f}" if row["mean"] is not None else "-"
        shares = [f"{100 * row[name]:.1f}" for name in ("covered", "annotated")]
        cells = (*shares, mean, *sizes, str(row["cut"]), f"{questions / row['cpu_s']:.0f}")
        table.add_row(row["name"], *cells)
    table.add_section()
    table.add_row("paper", "", "", f"{PAPER[0]:.1f}", f"{PAPER[1]:g}", "", "", "")
    return table


def lines(content: dict[str, Any]) -> Iterator[str]:
    """What the table does not say, in sentences."""
    parallel, sqlite = content["parallel"], content["sqlite"]
    speed = content["questions"] / parallel["wall_s"]
    yield (
        f"default in {parallel['processes']} processes: {speed:.0f} questions/s; all "
        f"{FULL_QUESTIONS} training questions take {FULL_QUESTIONS / speed:.0f} s"
    )
    ours_ms = 1000 * sqlite["ours_s"] / sqlite["questions"]
    yield f"{sqlite['questions']} questions sampled: {ours_ms:.2f} ms each. What SQLite takes for"
    for name, which in (("all", "all of Z_tot"), ("holding", "conditions that hold for a row")):
        part = sqlite[name]
        yield (
            f"  {which}: {part['queries']} queries, {part['official_s']:.1f} s going by "
            f"{part['executed']} of them, {part['official_s'] / sqlite['ours_s']:.0f} times as long"
        )
    if engines := content.get("engines"):
        yield (
            f"{engines['queries']} random queries, {engines['trivial']} of them without a row: "
            f"{engines['different']} different results; SQLite {engines['official_s']:.0f} s, "
            f"ours {engines['ours_s']:.0f} s"
        )
        yield from engines["differences"]


def main(argv: Sequence[str] | None = None) -> None:
    run_command(Sql, prog="python -m experiments.solution_sets.sql", argv=argv)


if __name__ == "__main__":
    main()
