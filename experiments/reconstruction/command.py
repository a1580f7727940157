"""Which query explains the question? ``python -m experiments.reconstruction --help``.

Trains a reconstructor q(question | query) on the Z of a build, without annotated queries, and
scores all queries of Z with it (Shao et al., 2021)::

    python -m experiments.reconstruction train --data built/wikisql --gold wikisql \
        --out scores.npz
    python -m experiments.reconstruction measure --data built/wikisql \
        --gold wikisql --scores scores.npz
    python -m experiments.wikisql train --z-scores scores.npz --data built/wikisql ... \
        objective:mutual-information

q is trained in two phases. In the first, on queries drawn from a given posterior over Z: uniform,
or ``--prior``, scores such as a parser's log P(z | x). In the second by EM: it maximises
log sum_z p(z) q(x | z), whose E-step trusts the queries that q finds likely. A question is scored
by a model that was not trained on it (``--folds``), for one that was knows it by heart.

With ``--gold`` it prints how much of the weight the annotated query gets, whichever words a query
has to explain (`hardem_jax.data.inputs.reconstruction`). ``measure`` compares files of scores, one
a seed, with what needs no model: the first of Z, and the queries with the fewest conditions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.reconstruction.shares import RULES, measured, rule_shares, shares_by_question
from experiments.report import Report, table
from experiments.solution_sets.sql import Answered, annotations
from hardem_jax.analysis.statistics import difference, interval
from hardem_jax.cli.command import run_command
from hardem_jax.data.examples import QueryQuestion
from hardem_jax.data.files import check_writable
from hardem_jax.data.inputs.reconstruction import Explain
from hardem_jax.data.scores import SolutionScores, write_scores
from hardem_jax.errors import InputError, require
from hardem_jax.lazy import LazyModule

if TYPE_CHECKING:
    from experiments.reconstruction import reconstructor
    from hardem_jax.tasks.tables import queries
else:  # imports jax, which help does not need
    reconstructor = LazyModule("experiments.reconstruction.reconstructor")
    queries = LazyModule("hardem_jax.tasks.tables.queries")

MEASURED = {
    "taken": "name",
    "is the annotated query, %": "share",
    "more than drawn": "more",
}
COLUMNS = {
    "trained on": "name",
    "explains": "explain",
    "questions": "questions",
    "drawn %": ("drawn", 100, 1),
    "weight %": ("weight", 100, 1),
    "largest %": ("largest", 100, 1),
    "drawn, all %": ("drawn, all", 100, 1),
    "largest, all %": ("largest, all", 100, 1),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reconstruction:
    """Train a reconstructor on Z, score Z, and measure the weight of the annotated query.

    Attributes:
        data: folder of a build of ``experiments.wikisql prepare``.
        split: of the build.
        gold: official files with the annotated queries, to measure with; None for none.
        gold_split: official name of the split.
        prior: scores of the queries, see `hardem_jax.data.scores`; None for a uniform posterior.
        epochs: over the questions, on queries drawn from that posterior.
        em_epochs: then, by EM.
        draws: queries of a question in a step of EM.
        max_solutions: questions with more queries are left out, and their queries score alike.
        folds: a question is scored by a model trained on the other parts; 1 trains on all.
        batch_size: questions in a step.
        learning_rate: its peak in each phase.
        width: of the model.
        layers: of the model.
        min_count: words that occur less often are unknown.
        seed: of everything drawn.
        out: write the scores of the last phase here.
        explain: what a query has to explain in these scores: all words of the question, or those
            that are in no value of Z ("context").
        report: write the figures here, as JSON.
    """

    data: Path
    split: str = "train"
    gold: Path | None = None
    gold_split: str = "train"
    prior: Path | None = None
    epochs: int = 8
    em_epochs: int = 2
    draws: int = 4
    max_solutions: int = 4096
    folds: int = 2
    batch_size: int = 32
    learning_rate: float = 2e-3
    width: int = 64
    layers: int = 2
    min_count: int = 4
    seed: int = 0
    out: Path | None = None
    explain: Explain = "context"
    report: Path | None = None

    def __post_init__(self) -> None:
        counts = "epochs", "draws", "max_solutions", "folds", "batch_size", "width", "layers"
        require(self, *counts, "min_count", at_least=1)
        require(self, "em_epochs", at_least=0)
        require(self, "learning_rate", above=0, below=1)
        require(self, "seed", at_least=0, below=2**32)

    def run(self) -> None:
        report = Report(self, self.report)
        if self.out is not None:
            check_writable(self.out)
        data = queries.TableQuestions.open(self.data, self.split).with_scores(self.prior)
        data = data.with_golds(self.gold, self.gold_split)
        questions = [question for question in data.questions if self._takes(question)]
        if len(questions) < self.folds:
            raise InputError(
                f"--folds: expected at most the {len(questions)} questions with 1 to "
                f"{self.max_solutions} solutions, found {self.folds}"
            )
        model = reconstructor.Reconstructor(self, data, questions)
        found: dict[tuple[str, Explain], dict[str, np.ndarray]] = {}
        for fold in range(self.folds):
            for phase, scores in model.fit_and_score(fold):
                for explain, by_id in scores.items():
                    found.setdefault((phase, explain), {}).update(by_id)
        if self.out is not None:
            scores = {q.id: np.zeros(len(q.queries), np.float32) for q in data.questions}
            scores |= found[model.phases[-1].name, self.explain]
            write_scores(self.out, scores, content=data.meta["content"])
        annotated = _annotated(data, questions)
        rows = [
            {"name": phase, "explain": explain, **measured(scores, annotated)}
            for (phase, explain), scores in found.items()
        ]
        by_question = {
            f"{phase}, {explain}": shares_by_question(scores, annotated)
            for (phase, explain), scores in found.items()
        }
        title = "Share of the annotated query, mean over questions with several solutions"
        content = {"rows": rows, "by question": by_question}
        report.write(content, table(title, rows, COLUMNS))

    def _takes(self, question: QueryQuestion) -> bool:
        scores, count = question.log_weights, len(question.queries)
        possible = scores is None or bool((scores > -np.inf).any())
        return 1 <= count <= self.max_solutions and possible


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measure:
    """Measure how often files of scores tell the annotated query from the others.

    Attributes:
        data: folder of a build of ``experiments.wikisql prepare``.
        gold: official files with the annotated queries.
        scores: files of the split, one a seed.
        split: of the build.
        gold_split: official name of the split.
        max_solutions: questions with more queries are left out.
        report: write the figures here, as JSON.
    """

    data: Path
    gold: Path
    scores: tuple[Path, ...]
    split: str = "train"
    gold_split: str = "train"
    max_solutions: int = 4096
    report: Path | None = None

    def __post_init__(self) -> None:
        require(self, "max_solutions", at_least=2)
        if not self.scores:
            raise InputError("scores: expected at least one file, found none")

    def run(self) -> None:
        report = Report(self, self.report)
        data = queries.TableQuestions.open(self.data, self.split).with_golds(
            self.gold, self.gold_split
        )
        files = [SolutionScores.read(file, content=data.meta["content"]) for file in self.scores]
        sizes = range(2, self.max_solutions + 1)
        questions = [question for question in data.questions if len(question.queries) in sizes]
        annotated = _annotated(data, questions)
        questions = [q for q in questions if q.id in annotated and annotated[q.id].any()]
        if not questions:
            raise InputError(f"{self.data}: expected questions with several queries, found none")
        # [rule, seed, question]
        shares = 100 * np.array(
            [
                [
                    list(rule_shares(annotated[q.id], file.of(q.id, len(q.queries)), q.queries))
                    for q in questions
                ]
                for file in files
            ]
        ).transpose(2, 0, 1)
        drawn, rows = shares[RULES.index("drawn")], []
        for name, found in zip(RULES, shares, strict=True):
            mean, more = interval(found), difference(found, drawn)
            rows.append({"name": name, "share": str(mean), "more": str(more)})
        means = dict(zip(RULES, shares.mean(2).tolist(), strict=True))
        title = f"{len(questions)} questions with several queries, {len(files)} seeds"
        report.write({"rows": rows, "by seed": means}, table(title, rows, MEASURED))


def _annotated(
    data: queries.TableQuestions, questions: Sequence[QueryQuestion]
) -> dict[str, np.ndarray]:
    """Question id -> ``[Z]`` bool, the annotated query, of the questions that have one."""
    golds: Mapping[str, Any] = data.golds or {}
    return {
        question.id: annotations(
            Answered(
                question.question,
                data.tables[question.table_id],
                golds[question.id],
                list(question.answer),
            ),
            question.queries,
        )
        for question in questions
        if question.id in golds
    }


COMMANDS = {"train": Reconstruction, "measure": Measure}


def main(argv: Sequence[str] | None = None) -> None:
    prog = "python -m experiments.reconstruction"
    run_command(COMMANDS, prog=prog, argv=argv)


if __name__ == "__main__":
    main()
