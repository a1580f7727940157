"""Scores of queries that need no model: ``python -m experiments.solution_sets.signals --help``.

Writes a second signal beside the answer for every query in the Z of a build::

    python -m experiments.solution_sets.signals --data built/wikisql --signal agreement \
        --out scores.npz
    python -m experiments.wikisql train --z-scores scores.npz --data built/wikisql ... \
        objective:mml

``agreement`` is the log of how far a query's results agree with those of the others on perturbed
tables (Lee, Kim and Jung, EMNLP 2023). ``fewest-conditions`` leaves out every query that has more
conditions than another query of its Z. ``experiments.reconstruction measure`` says how often a
signal tells the annotated query from the others, and ``experiments.reconstruction train`` has a
signal that is learned.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from rich.progress import track

from experiments.solution_sets.agreement import results
from hardem_jax.cli.command import run_command
from hardem_jax.data.examples import QueryQuestion
from hardem_jax.data.files import check_writable
from hardem_jax.data.scores import write_scores
from hardem_jax.errors import require
from hardem_jax.lazy import LazyModule
from hardem_jax.solutions.agreement import Perturbation, agreement, perturbed
from hardem_jax.solutions.sql.types import MAX_CONDITIONS, Table

if TYPE_CHECKING:
    from hardem_jax.tasks.tables import queries
else:  # imports jax, which help does not need
    queries = LazyModule("hardem_jax.tasks.tables.queries")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Signals:
    """Score the queries in every Z of a build, without a model and without annotated queries.

    Attributes:
        data: folder of a build of ``experiments.wikisql prepare``.
        out: write the scores here, a ``.npz`` file.
        signal: agreement on perturbed tables, or the fewest conditions.
        split: of the build.
        how: columns are shuffled ("permute") or drawn anew ("resample"), or whole rows are drawn.
        tables: perturbed tables for each question.
        power: of the agreement; 4 makes a weight of 0.5 one of 0.06.
        max_solutions: queries of questions with more queries get the same agreement.
        seed: of the perturbations.
    """

    data: Path
    out: Path
    signal: Literal["agreement", "fewest-conditions"]
    split: str = "train"
    how: Perturbation = "permute"
    tables: int = 10
    power: float = 1.0
    max_solutions: int = 4096
    seed: int = 0

    def __post_init__(self) -> None:
        require(self, "tables", "max_solutions", at_least=1)
        require(self, "power", above=0)
        require(self, "seed", at_least=0, below=2**32)

    def run(self) -> None:
        check_writable(self.out)
        data = queries.TableQuestions.open(self.data, self.split)
        rng = np.random.default_rng(self.seed)
        scores = {
            question.id: self._scores(question, data.tables[question.table_id], rng)
            for question in track(data.questions, transient=True)
        }
        write_scores(self.out, scores, content=data.meta["content"])

    def _scores(
        self, question: QueryQuestion, table: Table, rng: np.random.Generator
    ) -> np.ndarray:
        if self.signal == "fewest-conditions":
            return fewest_conditions(question.queries)
        if not 1 < len(question.queries) <= self.max_solutions:
            return np.zeros(len(question.queries))
        tables = [perturbed(table, self.how, rng) for _ in range(self.tables)]
        found = [results(one, question.question, question.queries) for one in tables]
        return self.power * np.log(agreement(found))


def fewest_conditions(queries: np.ndarray) -> np.ndarray:
    """0 for the queries that have the fewest conditions in Z, -inf for the others.

    Args:
        queries: ``[Z, 15]`` int, rows of `Query`.

    Example:
        >>> queries = np.zeros((3, 15), int)
        >>> queries[:, 2] = 1, 1, 2
        >>> print(fewest_conditions(queries))
        [  0.   0. -inf]
    """
    counts = queries[:, 2]
    return np.where(counts == counts.min(initial=MAX_CONDITIONS), 0.0, -np.inf)


def main(argv: Sequence[str] | None = None) -> None:
    run_command(Signals, prog="python -m experiments.solution_sets.signals", argv=argv)


if __name__ == "__main__":
    main()
