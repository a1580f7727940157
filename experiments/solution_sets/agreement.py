"""The weight of annotated queries: ``python -m experiments.solution_sets.agreement --help``.

Weighs the queries of each Z of WikiSQL by how far their results on perturbed tables agree
(`hardem_jax.solutions.agreement`), and measures how much of the weight the annotated query gets,
and how much all queries that mean the same: those with its results on other perturbed tables.
Without weights these are the probabilities of a query drawn from Z.
"""

import dataclasses
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
from rich.progress import track

from experiments.report import Report, table
from experiments.solution_sets.sql import Answered, annotations, answered
from hardem_jax.cli.command import run_command
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.errors import require
from hardem_jax.solutions.agreement import Perturbation, agreement, perturbed
from hardem_jax.solutions.sql.enumeration import (
    ExecutionError,
    Query,
    SqlRules,
    Table,
    enumerate_sql,
    execute_sql,
    split_words,
)

RULES = {
    "default": SqlRules(),
    "also arithmetic on text": SqlRules(aggregates_on_text=True),
}
COLUMNS = {
    "queries": "name",
    "tables": "how",
    "questions": "questions",
    "annotated, drawn %": ("drawn", 100, 1),
    "weight %": ("weight", 100, 1),
    "weight^4 %": ("power", 100, 1),
    "largest %": ("largest", 100, 1),
    "meaning, drawn %": ("meaning, drawn", 100, 1),
    "weight % ": ("meaning, weight", 100, 1),
    "weight^4 % ": ("meaning, power", 100, 1),
    "largest % ": ("meaning, largest", 100, 1),
}
SHARES = "drawn", "weight", "power", "largest"


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Measure the weight of the annotated query under agreement on perturbed tables.

    Attributes:
        folder: WikiSQL in the official layout.
        split: whose questions.
        limit: questions, from the start of the split; None for all.
        tables: perturbed tables for each question; as many others say which queries mean the same.
        max_solutions: questions with more are left out.
        seed: of the perturbations.
        out: write the figures here, as JSON.
    """

    folder: Path
    split: str = "train"
    limit: int | None = None
    tables: int = 10
    max_solutions: int = 4096
    seed: int = 0
    out: Path | None = None

    def __post_init__(self) -> None:
        require(self, "limit", "tables", "max_solutions", at_least=1)
        require(self, "seed", at_least=0, below=2**32)

    def run(self) -> None:
        report, skips = Report(self, self.out), ExclusionCounts()
        questions = answered(self.folder, self.split, skips)[: self.limit]
        rows = [
            {"name": name, "how": how, **self._measure(rules, how, questions)}
            for name, rules in RULES.items()
            for how in get_args(Perturbation)
        ]
        title = "Share of the annotated query, mean over questions with several solutions"
        content = {"left_out": skips.as_dict(), "rows": rows}
        report.write(content, skips, table(title, rows, COLUMNS))

    def _measure(
        self, rules: SqlRules, how: Perturbation, questions: Sequence[Answered]
    ) -> dict[str, Any]:
        rng, others = np.random.default_rng(self.seed), np.random.default_rng([self.seed, 1])
        shares = []
        for question in track(questions, transient=True):
            z = enumerate_sql(question.table, question.question, question.answer, rules).queries
            is_annotated = annotations(question, z)
            if 1 < len(z) <= self.max_solutions and is_annotated.any():
                asked = question.table, question.question, z
                weights = agreement(perturbed_results(*asked, how, self.tables, rng))
                found = perturbed_results(*asked, how, self.tables, others)
                means_same = same_results(found, is_annotated)
                shares.append(shares_of(is_annotated, weights) + shares_of(means_same, weights))
        names = *SHARES, *(f"meaning, {name}" for name in SHARES)
        means = map(statistics.mean, zip(*shares, strict=True))
        return {"questions": len(shares), **dict(zip(names, means, strict=False))}


def perturbed_results(
    table: Table,
    question: str,
    z: np.ndarray,
    how: Perturbation,
    count: int,
    rng: np.random.Generator,
) -> list[list[tuple[str, ...] | None]]:
    """The `results` of queries on each of ``count`` perturbed tables."""
    return [results(perturbed(table, how, rng), question, z) for _ in range(count)]


def results(table: Table, question: str, z: np.ndarray) -> list[tuple[str, ...] | None]:
    """The results of queries on a table, cells in no order; None where there is none."""
    words, found = split_words(question), []
    for row in z:
        try:
            cells = execute_sql(table, Query.from_row(row, question, words))
            found.append(tuple(sorted(map(repr, cells))))
        except ExecutionError:
            found.append(None)
    return found


def same_results(
    found: Sequence[Sequence[tuple[str, ...] | None]], chosen: np.ndarray
) -> np.ndarray:
    """``[Z]`` bool: the solutions that have the results of a chosen one on every table.

    Args:
        found: the results of Z on each table.
        chosen: ``[Z]`` bool, with at least one True.

    Example:
        >>> found = [[("a",), ("a",), None], [("b",), ("b",), ("b",)]]
        >>> print(same_results(found, np.array([True, False, False])))
        [ True  True False]
    """
    by_solution = list(zip(*found, strict=True))
    wanted = {by_solution[place] for place in np.flatnonzero(chosen)}
    return np.array([results in wanted for results in by_solution])


def shares_of(chosen: np.ndarray, weights: np.ndarray) -> tuple[float, float, float, float]:
    """The share of some solutions under no weights, weights, their 4th power, the largest only.

    Example:
        >>> shares_of(np.array([True, False, False]), np.array([0.5, 0.5, 0.25]))
        (0.3333333333333333, 0.4, 0.48484848484848486, 0.5)
    """
    largest = np.isclose(weights, weights.max())
    options = np.ones(len(weights)), weights, weights**4, largest
    drawn, weight, power, top = (float(w[chosen].sum() / w.sum()) for w in options)
    return drawn, weight, power, top


def main(argv: Sequence[str] | None = None) -> None:
    run_command(Agreement, prog="python -m experiments.solution_sets.agreement", argv=argv)


if __name__ == "__main__":
    main()
