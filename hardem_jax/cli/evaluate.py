"""The command ``evaluate`` of every task."""

from __future__ import annotations

import abc
import collections
import dataclasses
import functools
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hardem_jax.analysis.comparison import score_text
from hardem_jax.buckets.names import shown
from hardem_jax.checksums import MANIFEST, has_checksums
from hardem_jax.cli.command import peak_mib
from hardem_jax.cli.train import OnDevices
from hardem_jax.data.files import check_writable, file_digest, kind_of, write_json, write_text
from hardem_jax.errors import InputError, offered, require
from hardem_jax.progress import counted
from hardem_jax.registry import task_type
from hardem_jax.task.run_config import check_run
from hardem_jax.training.fingerprint import compared, may_change

if TYPE_CHECKING:
    from hardem_jax.task.base import Questions, Task
    from hardem_jax.task.trained import Progress

_IS_WRITTEN = "is written"


def written() -> Any:
    """Declares a flag of a file to write, none by default."""
    return may_change("what is written", metadata={_IS_WRITTEN: True}, default=None)


# Parsing a command imports this module, so jax is imported only when one runs.


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateCommand(OnDevices, abc.ABC):
    """Score a trained model with the official metric.

    Questions that were left out when the split was prepared count 0. A split without golds, such
    as a test set whose answers are secret, gets no scores, only answers. Scores go to
    ``scores-<split>-<digest>.json`` in the run's folder, together with the options, the split and
    the checkpoint that they belong to. It covers these three, so other evaluations get other files.

    Attributes:
        run_dir: folder of the run.
        data: prepared split.
        checkpoint: "best" or "last".
        predictions: write the answers here, as JSON.
        by_question: write the official scores of every question here, as a JSON object: "ids", and
            under "scores" a list for each score that all of them have.
        batch_size: inputs read at once, rounded up to a multiple of the devices.
        packed_tokens: pack inputs into rows of this many tokens (readers and taggers on pretrained
            encoders); None does as the run's own evaluations do.
    """

    #: Name of the task.
    TASK: ClassVar[str]
    #: Flags in place of fields of the run's ``inference``; None leaves these as they are.
    INFERENCE: ClassVar[tuple[str, ...]] = ()

    run_dir: Path = may_change("identified by its checkpoint")
    data: Path = may_change("identified by contents")
    checkpoint: Literal["best", "last"] = "best"
    predictions: Path | None = written()
    by_question: Path | None = written()
    batch_size: int = may_change("scores change by rounding at most", default=32)
    packed_tokens: int | None = may_change("scores change by rounding at most", default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "batch_size", "packed_tokens", at_least=1)
        if len(set(files := self.outputs())) < len(files):
            raise InputError(f"{max(files, key=files.count)}: expected one output, found several")

    def open(self) -> Questions:
        """The questions of the split."""
        return task_type(self.TASK).QUESTIONS.open(self.data)

    def changes(self) -> dict[str, Any]:
        """What differs from the run, see `hardem_jax.task.trained.Trained`."""
        given = {name: getattr(self, name) for name in (*self.INFERENCE, "packed_tokens")}
        return {name: value for name, value in given.items() if value is not None}

    @abc.abstractmethod
    def predictions_text(self, data: Any, answers: Any) -> str:
        """Content of the file of predictions."""

    def report(self, data: Any, answers: Any, scores: Mapping[str, float]) -> None:
        """Writes, and says, what a task has in addition to scores and predictions."""
        del data, answers, scores

    def outputs(self) -> tuple[Path, ...]:
        """Files to write besides the scores."""
        fields = (field for field in dataclasses.fields(self) if _IS_WRITTEN in field.metadata)
        return tuple(filter(None, (getattr(self, field.name) for field in fields)))

    def progress(self, name: str, total: int, unit: str) -> Progress:
        """A bar on stderr for the split of this name, or a line if that is not a terminal."""
        from hardem_jax.training.distributed import is_primary

        if not is_primary():
            return iter
        if not Console(stderr=True).is_terminal:
            print(f"{name}: reading {total} {unit}", file=sys.stderr, flush=True)
            return iter
        return functools.partial(counted, label=f"{name}, {unit}", total=total)

    def run(self) -> None:
        from hardem_jax.task.trained import Trained
        from hardem_jax.training.distributed import is_primary

        mesh = self.mesh()
        evaluation = self._evaluation()
        for output in self.outputs():
            check_writable(output)
        data = self.open()
        if data.scored:
            check_writable(self._scores_file(evaluation))
        else:
            self._check_without_golds()
        changes: dict[str, Any] = self.changes() | {"batch_size": self.batch_size}
        trained = Trained(task_type(self.TASK), self.run_dir, self.checkpoint, mesh=mesh, **changes)
        # A run that is still training may have saved another one since.
        evaluation["checkpoint"]["number"] = trained.step
        file, name = self._scores_file(evaluation), evaluation["split"]["name"]
        scores, answers = trained.evaluate(data, functools.partial(self.progress, name))
        if not is_primary():
            return
        # Files come first: a reader of the tables that stops early (``| head``) ends the command.
        by_question = trained.task.by_question(data, answers) if data.scored else {}
        if data.scored:
            content = {**evaluation, "counts": _counts(data), "scores": scores}
            content["split"] |= {"path": shown(self.data.resolve())}
            write_json(file, content)
        if self.predictions is not None:
            write_text(self.predictions, self.predictions_text(data, answers))
        if self.by_question is not None:
            by_name = {name: values.tolist() for name, values in by_question.items()}
            write_json(self.by_question, {"ids": data.scored_ids(), "scores": by_name})
        self.report(data, answers, scores)
        self._print_result(trained.task, name, data, scores)
        if data.scored:
            print(f"scores: {shown(file)}")

    def _scores_file(self, evaluation: Mapping[str, Any]) -> Path:
        digest = hashlib.sha256(json.dumps(evaluation, sort_keys=True).encode()).hexdigest()[:8]
        return self.run_dir / f"scores-{evaluation['split']['name']}-{digest}.json"

    def _print_result(
        self, task: Task, name: str, data: Questions, scores: Mapping[str, float]
    ) -> None:
        """Prints scores and what the split left out."""
        from hardem_jax.task.base import places_by_size

        counts = _counts(data)
        if data.scored:
            places = places_by_size(scores, data.scored_sizes())
            of = {score: f"{len(own)} questions" for score, own in places.items()}
            of |= task.SHARES
            every = {score: value for score, value in scores.items() if score not in of}
            some = {score: value for score, value in scores.items() if score in of}
            _print_table(f"{name}: % of {counts['questions']} questions", every, {})
            if some:
                _print_table(f"{name}: % of what the last column names", some, of)
        else:
            print(f"{name}: answers to {data.count} questions; no scores, for it has no golds")
        if reasons := counts["reasons"]:
            why = "; ".join(f"{reason} ({count})" for reason, count in reasons.items())
            and_count = ", which count 0" if data.scored else ""
            print(f"{counts['left out']} left out of the split{and_count}: {why}")
        print(f"peak memory: {peak_mib():.0f} MiB")

    def _check_without_golds(self) -> None:
        if self.by_question is not None:
            raise InputError(f"--by-question: expected golds, found none in {self.data}")
        if not self.outputs():
            expected = "golds, or a file for the answers (--predictions)"
            raise InputError(f"{self.data}: expected {expected}, found none")

    def _evaluation(self) -> dict[str, Any]:
        """What the scores depend on: options, checkpoint, split."""
        name, digest = self.split_and_digest()
        check_run(self.run_dir)
        return {
            "options": {name: value for name, value in compared(self).items() if name != "type"},
            "checkpoint": checkpoint_identity(self.run_dir, self.checkpoint),
            "split": {"name": name, "digest": digest},
        }

    def split_and_digest(self) -> tuple[str, str]:
        """Name of the split, and a digest of what it holds."""
        manifest, meta = self.data / MANIFEST, self.data / "meta.json"
        if not os.path.isfile(meta):
            found = kind_of(self.data) or f"no meta.json{offered(self.data, 'meta.json')}"
            raise InputError(f"{self.data}: expected a prepared split, found {found}")
        record = manifest if has_checksums(self.data) else meta
        return self.data.absolute().name, file_digest(record)


def _counts(data: Questions) -> dict[str, Any]:
    """How many questions there are, and how many were left out, why."""
    ids = data.scored_ids()
    lost = [data.left_out[id] for id in ids[data.count :]]
    reasons = dict(collections.Counter(lost).most_common())
    return {"questions": len(ids), "left out": len(lost), "reasons": reasons}


def _print_table(title: str, scores: Mapping[str, float], of: Mapping[str, str]) -> None:
    """Prints scores; without ``of``, all are of the questions in the title."""
    # A title is wrapped at the width of its table.
    table = Table("metric", title=Text(title), min_width=len(title))
    for column in ("%", "of") if of else ("%",):
        table.add_column(column, justify="right")
    for metric, value in scores.items():
        table.add_row(metric, score_text(metric, value), *([of[metric]] if of else []))
    Console().print(table)


def checkpoint_identity(run_dir: Path, checkpoint: str) -> dict[str, Any]:
    """What scores are told apart by: name and step of a checkpoint. The step, under "number", is
    None if the checkpoint is missing, which loading reports."""
    from hardem_jax.training.checkpoints import newest_step  # imports jax

    return {"name": checkpoint, "number": newest_step(run_dir / checkpoint)}
