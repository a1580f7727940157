"""Do models choose the annotated program? (Min et al., 2019, section 6, for WikiTableQuestions).

The paper counts for WikiSQL how many correct answers come from the annotated query.
WikiTableQuestions has answers only, but SQUALL (Shi et al., 2020) annotates most of its questions
with SQL; `experiments.solution_sets.squall.search` says which programs count as the annotated one::

    python -m experiments.paper.annotated_programs --data built/programs \
        --squall annotations.jsonl.gz --runs runs/programs --against MML

Annotations serve this analysis only: nothing is trained on them. Columns of the table, in percent
of the questions whose annotated program is among the solutions that the models read:

- ``chosen``: the program that is answered with is the annotated one;
- ``annotated if right``: the same, of the correct answers;
- ``hit@1``, ``hit@5``: the most likely solution is the annotated program, or one of the first five.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from experiments.solution_sets.squall.search import Annotation
from experiments.solution_sets.squall.sql import read_squall
from hardem_jax.analysis.finished_runs import FinishedRun, read_runs, rows, run_folders, table
from hardem_jax.cli.command import run_command
from hardem_jax.data.files import write_text
from hardem_jax.errors import InputError, require
from hardem_jax.lazy import LazyModule

if TYPE_CHECKING:
    from hardem_jax.tasks import trained as of_run
    from hardem_jax.tasks.tables import programs as tasks
else:  # imports jax, which help does not need
    of_run = LazyModule("hardem_jax.tasks.trained")
    tasks = LazyModule("hardem_jax.tasks.tables.programs")

METRICS = ("chosen", "annotated if right", "hit@1", "hit@5")
#: Index of a question -> chosen, right, hit@1, hit@5; of questions whose annotation was read.
Found = Mapping[int, tuple[bool, bool, bool, bool]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnnotatedPrograms:
    """Compare what finished runs choose with SQUALL's annotations.

    Attributes:
        data: folder of the build with the questions.
        squall: SQUALL's annotations, a ``.jsonl.gz``.
        runs: folders of runs, or folders that ``compare`` wrote.
        split: of ``data``.
        questions: the first ones only; None for all.
        checkpoint: "best" or "last".
        batch_size: questions that are read together.
        against: the row from which differences are taken.
        save: write the runs to this file, one a line, as ``experiments.tabulate`` does.
    """

    data: Path
    squall: Path
    runs: tuple[Path, ...]
    split: str = "dev"
    questions: int | None = None
    checkpoint: Literal["best", "last"] = "last"
    batch_size: int = 32
    against: str | None = None
    save: Path | None = None

    def __post_init__(self) -> None:
        require(self, "questions", "batch_size", at_least=1)

    def run(self) -> None:
        data = tasks.ProgramQuestions.open(self.data, self.split).first(self.questions)
        annotations = dict(self._annotations(data))
        if not annotations:
            raise InputError(f"{self.squall}: expected annotations of {self.split}, found none")
        runs: list[FinishedRun] = []
        asked: set[int] = set()
        for folder in (folder for source in self.runs for folder in run_folders(source)):
            found = self._read(folder, data, annotations)
            if not found:
                raise InputError(f"{folder}: expected annotated programs in Z, found none")
            if asked and asked != found.keys():
                raise InputError(f"{folder}: expected a run that reads the same solutions")
            asked = set(found)
            [run] = read_runs(folder)
            runs.append(_with_scores(run, found))
        of_rows = rows(runs)
        if self.save is not None:
            lines = (run.line() for seeds in of_rows.values() for run in seeds.values())
            write_text(self.save, "".join(f"{line}\n" for line in lines))
        print(f"{len(asked)} questions whose annotated program is read, of {len(annotations)}")
        known = {name for run in runs for name in (*run.scores, *run.by_question)}
        metrics = [name for name in METRICS if name in known]
        print(table(of_rows, metrics, self.against), end="")

    def _annotations(self, data: tasks.ProgramQuestions) -> Iterator[tuple[int, Annotation]]:
        sql = dict(read_squall(self.squall))
        for index, question in enumerate(data.questions):
            if question.id in sql:
                asked_about = data.tables[question.table_id]
                links = tasks.links_of(question, asked_about, data.rules)
                yield index, Annotation(sql[question.id], asked_about, links)

    def _read(
        self, folder: Path, data: tasks.ProgramQuestions, annotations: Mapping[int, Annotation]
    ) -> Found:
        trained = of_run.Trained(
            tasks.ProgramTask, folder, self.checkpoint, batch_size=self.batch_size
        )
        trained.task.check(data, trained.model, str(folder))
        found = {}
        for index, reading in trained.reader.read(trained.params, trained.model.inputs(data)):
            annotation = annotations.get(index)
            if annotation is None or not annotation.is_in(reading.rows):
                continue
            question = data.questions[index]
            answer = trained.task.answer(question, data.tables[question.table_id], reading)
            ranked = reading.rows[np.argsort(-reading.solutions, kind="stable")]
            found[index] = (
                answer is not None and annotation.is_in(np.array([answer.row])),
                tasks.is_answer(question, answer),
                annotation.is_in(ranked[:1]),
                annotation.is_in(ranked[:5]),
            )
        return found


def _with_scores(run: FinishedRun, found: Found) -> FinishedRun:
    scores = 100.0 * np.array([found[index] for index in sorted(found)])
    chosen, right, first, five = scores.T
    by_question = {"chosen": chosen.tolist(), "hit@1": first.tolist(), "hit@5": five.tolist()}
    # None is right: there is nothing to take the mean of.
    if_right = {"annotated if right": float(chosen[right > 0].mean())} if right.any() else {}
    return dataclasses.replace(
        run,
        scores=dict(run.scores) | if_right,
        by_question=dict(run.by_question) | by_question,
    )


if __name__ == "__main__":
    run_command(AnnotatedPrograms, prog="python -m experiments.paper.annotated_programs")
