"""Where do objectives differ on DROP: on answers that a count would give?

Many questions of DROP ask to count ("How many field goals were kicked?"). No equation means that;
their answers are small, and equations reach a small number by accident, so that all of Z is
spurious. This command splits the scores of finished runs by the answer::

    python -m experiments.paper.drop_answers --data built/drop --runs runs/drop --against MML

The first kind, whole numbers from 0 to 9, is what NAQANet counts to (Dua et al., 2019). It has
differences of small numbers, too, which an equation does mean.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardem_jax.analysis.finished_runs import FinishedRun, read_runs, rows, table
from hardem_jax.cli.command import run_command
from hardem_jax.errors import InputError
from hardem_jax.training.fingerprint import flatten

if TYPE_CHECKING:
    from hardem_jax.equations import models as tasks

KINDS = ("0 to 9", "other whole", "not whole")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DropAnswers:
    """Tabulate exact match on DROP by the kind of the answer.

    Attributes:
        data: folder of the build with the questions.
        runs: folders of runs, folders that ``compare`` wrote, or files of ``experiments.tabulate``.
        split: of ``data``, on which the runs were scored.
        against: the row from which differences are taken.
    """

    data: Path
    runs: tuple[Path, ...]
    split: str = "dev"
    against: str | None = None

    def run(self) -> None:
        from hardem_jax.equations import models as tasks

        data = tasks.NumericQuestions.open(self.data, self.split)
        kinds = {question.id: kind_of(question.golds) for question in data.questions}
        found = rows(
            by_kind(_checked(run, data), [kinds.get(id) for id in data.scored_ids()])
            for source in self.runs
            for run in read_runs(source)
        )
        set_sizes = {question.id: len(question.equations) for question in data.questions}
        for kind in KINDS:
            # As they are scored: a repeated question counts each time.
            sizes = [set_sizes[id] for id in data.scored_ids() if kinds.get(id) == kind]
            middle = f", |Z| median {np.median(sizes):g}" if sizes else ""
            print(f"{kind}: {len(sizes)} questions{middle}")
        print(table(found, against=self.against), end="")


def kind_of(golds: Sequence[Mapping[str, Any]]) -> str:
    """The kind, one of `KINDS`, of the first official answer.

    Example:
        >>> [kind_of([{"number": text}]) for text in ("9", "1,200", "2.5")]
        ['0 to 9', 'other whole', 'not whole']
    """
    number = float(golds[0]["number"].replace(",", ""))
    if not number.is_integer():
        return "not whole"
    return "0 to 9" if 0 <= number <= 9 else "other whole"


def by_kind(run: FinishedRun, kinds: Sequence[str | None]) -> FinishedRun:
    """The run with the exact match of each kind as a metric; questions of no kind are left out."""
    scores = run.by_question["em"]
    of_kinds = {
        kind: [score for score, own in zip(scores, kinds, strict=True) if own == kind]
        for kind in KINDS
    }
    return dataclasses.replace(run, by_question={kind: x for kind, x in of_kinds.items() if x})


def _checked(run: FinishedRun, data: tasks.NumericQuestions) -> FinishedRun:
    """The run; an `InputError` if it was not scored on these questions."""
    place = f"{run.objective}, seed {run.seed}"
    found, expected = flatten(run.settings).get("contents of dev.content"), data.meta["content"]
    if found != expected:
        raise InputError(f"{place}: expected scores of {expected} ({data.place}), found {found}")
    if "em" not in run.by_question:
        raise InputError(f"{place}: expected em of every question, found none")
    count, expected = len(run.by_question["em"]), len(data.scored_ids())
    if count != expected:
        raise InputError(f"{place}: expected scores of {expected} questions, found {count}")
    return run


if __name__ == "__main__":
    run_command(DropAnswers, prog="python -m experiments.paper.drop_answers")
