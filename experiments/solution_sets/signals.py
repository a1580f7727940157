"""Scores of queries that need no model: ``python -m experiments.solution_sets.signals --help``.

Writes a second signal beside the answer for every query in the Z of a build::

    python -m experiments.solution_sets.signals agreement --data built/wikisql --out scores.npz
    python -m experiments.solution_sets.signals fewest-conditions --data built/wikisql \
        --out scores.npz
    python -m experiments.wikisql train --z-scores scores.npz --data built/wikisql ... \
        objective:mml

``experiments.reconstruction measure`` says how often a signal tells the annotated query from the
others, and ``experiments.reconstruction train`` has a signal that is learned.
"""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.progress import track

from experiments.solution_sets.agreement import perturbed_results
from hardem_jax.cli.command import run_command
from hardem_jax.data.examples import QueryQuestion
from hardem_jax.data.files import check_writable
from hardem_jax.data.scores import write_scores
from hardem_jax.errors import require
from hardem_jax.lazy import LazyModule
from hardem_jax.solutions.agreement import Perturbation, agreement
from hardem_jax.solutions.sql.types import MAX_CONDITIONS, Table

if TYPE_CHECKING:
    from hardem_jax.tasks.tables import queries
else:  # imports jax, which help does not need
    queries = LazyModule("hardem_jax.tasks.tables.queries")

#: A question and its table -> ``[Z]`` float, the log-scores of its queries.
Scorer = Callable[[QueryQuestion, Table], np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Signal(abc.ABC):
    """A log-score of each query in every Z of a build, without a model or annotated queries.

    Attributes:
        data: folder of a build of ``experiments.wikisql prepare``.
        out: write the scores here, a ``.npz`` file.
        split: of the build.
    """

    data: Path
    out: Path
    split: str = "train"

    @abc.abstractmethod
    def scorer(self) -> Scorer:
        """What scores the questions of a split, one after the other."""

    def run(self) -> None:
        check_writable(self.out)
        data = queries.TableQuestions.open(self.data, self.split)
        score = self.scorer()
        scores = {
            question.id: score(question, data.tables[question.table_id])
            for question in track(data.questions, transient=True)
        }
        write_scores(self.out, scores, content=data.meta["content"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgreementSignal(Signal):
    """Score each query by how far its results on perturbed tables agree with those of the others.

    The score is the log of that share (Lee, Kim and Jung, EMNLP 2023).

    Attributes:
        how: columns are shuffled ("permute") or drawn anew ("resample"), or whole rows are drawn.
        tables: perturbed tables for each question.
        power: of the agreement; 4 makes a weight of 0.5 one of 0.06.
        max_solutions: queries of questions with more queries all get the same score.
        seed: of the perturbations.
    """

    how: Perturbation = "permute"
    tables: int = 10
    power: float = 1.0
    max_solutions: int = 4096
    seed: int = 0

    def __post_init__(self) -> None:
        require(self, "tables", "max_solutions", at_least=1)
        require(self, "power", above=0)
        require(self, "seed", at_least=0, below=2**32)

    def scorer(self) -> Scorer:
        rng = np.random.default_rng(self.seed)

        def score(question: QueryQuestion, table: Table) -> np.ndarray:
            z = question.queries
            if not 1 < len(z) <= self.max_solutions:
                return np.zeros(len(z))
            found = perturbed_results(table, question.question, z, self.how, self.tables, rng)
            return self.power * np.log(agreement(found))

        return score


@dataclasses.dataclass(frozen=True, kw_only=True)
class FewestConditions(Signal):
    """Leave out every query that has more conditions than another query of its Z."""

    def scorer(self) -> Scorer:
        return lambda question, table: fewest_conditions(question.queries)


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


COMMANDS = {"agreement": AgreementSignal, "fewest-conditions": FewestConditions}


def main(argv: Sequence[str] | None = None) -> None:
    run_command(COMMANDS, prog="python -m experiments.solution_sets.signals", argv=argv)


if __name__ == "__main__":
    main()
