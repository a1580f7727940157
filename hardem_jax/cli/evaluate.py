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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rich.console import Console
from rich.table import Table

from hardem_jax.analysis.comparison import score_text
from hardem_jax.buckets.names import shown
from hardem_jax.checksums import MANIFEST, has_checksums
from hardem_jax.cli.command import peak_mib
from hardem_jax.cli.devices import OnDevices
from hardem_jax.data.files import check_writable, file_digest, write_json, write_text
from hardem_jax.data.json_stream import read_text
from hardem_jax.errors import InputError, require
from hardem_jax.progress import counted
from hardem_jax.registry import task_type
from hardem_jax.task.run_config import check_run
from hardem_jax.task.scoring import count_by_size
from hardem_jax.training.fingerprint import compared, may_change

if TYPE_CHECKING:
    from hardem_jax.task.base import Questions, Task
    from hardem_jax.task.trained import Progress

#: What questions are named by in the official files of SQuAD, TriviaQA and DROP.
_ID_KEYS = ("id", "QuestionId", "query_id")

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
    the checkpoint that they belong to. The digest covers these three, so a different evaluation
    gets a different file.

    Attributes:
        run_dir: folder of the run.
        data: prepared split.
        checkpoint: "best" or "last".
        predictions: write the answers here, as JSON.
        by_question: write the official scores of every question here, as a JSON object: "ids", and
            under "scores" a list for each score that all of them have.
        questions: also score the questions in this file on their own: ids, one per line or in JSON,
            or an official file of SQuAD, TriviaQA or DROP. Each counts as often as the file has it,
            and 0 if the split lacks it.
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
    questions: Path | None = may_change("identified by contents", default=None)
    batch_size: int = may_change("scores change by rounding at most", default=32)
    packed_tokens: int | None = may_change("scores change by rounding at most", default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "batch_size", "packed_tokens", at_least=1)

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
        """What a task writes in addition to scores and predictions."""
        del data, answers, scores

    def outputs(self) -> tuple[Path, ...]:
        """Files to write besides the scores."""
        fields = (field for field in dataclasses.fields(self) if _IS_WRITTEN in field.metadata)
        paths = (getattr(self, field.name) for field in fields)
        return tuple(path for path in paths if path is not None)

    def progress(self, name: str, total: int, unit: str) -> Progress:
        """A bar on stderr for the split of this name, or a line if that is not a terminal."""
        from hardem_jax.training.devices.distributed import is_primary

        if not is_primary():
            return iter
        if not Console(stderr=True).is_terminal:
            print(f"{name}: reading {total} {unit}", file=sys.stderr, flush=True)
            return iter
        return functools.partial(counted, label=f"{name}, {unit}", total=total)

    def run(self) -> None:
        from hardem_jax.task.trained import Trained
        from hardem_jax.training.devices.distributed import is_primary

        mesh = self.mesh()
        evaluation = self._evaluation()
        for output in self.outputs():
            check_writable(output)
        ids = None if self.questions is None else read_ids(self.questions)
        data = self.open()
        if data.scored:
            check_writable(self._scores_file(evaluation))
            if ids is not None:
                chosen_scores(ids, data.scored_ids(), {})  # refuses a file of other questions
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
        counts = self._print_result(trained.task, name, data, scores)
        by_question = trained.task.by_question(data, answers) if data.scored else {}
        if data.scored:
            content = {**evaluation, "counts": counts, "scores": scores}
            content["split"] |= {"path": shown(self.data.resolve())}
            if ids is not None:
                chosen = chosen_scores(ids, data.scored_ids(), by_question)
                content["chosen"] = self._chosen(chosen)
            write_json(file, content)
            print(f"scores: {shown(file)}")
        if self.predictions is not None:
            write_text(self.predictions, self.predictions_text(data, answers))
        if self.by_question is not None:
            by_name = {name: values.tolist() for name, values in by_question.items()}
            write_json(self.by_question, {"ids": data.scored_ids(), "scores": by_name})
        self.report(data, answers, scores)

    def _scores_file(self, evaluation: Mapping[str, Any]) -> Path:
        digest = hashlib.sha256(json.dumps(evaluation, sort_keys=True).encode()).hexdigest()[:8]
        return self.run_dir / f"scores-{evaluation['split']['name']}-{digest}.json"

    def _print_result(
        self, task: Task, name: str, data: Questions, scores: Mapping[str, float]
    ) -> dict[str, Any]:
        """Prints scores and what the split left out; returns the counts of its questions."""
        ids = data.scored_ids()
        lost = [data.left_out[id] for id in ids[data.count :]]
        if data.scored:
            sizes = count_by_size(scores, data.set_sizes() or ())
            of = {score: f"{count} questions" for score, count in sizes.items()}
            of |= task.SHARES
            every = {score: value for score, value in scores.items() if score not in of}
            self._print(f"{name}: {len(ids)} questions", every)
            some = {score: value for score, value in scores.items() if score in of}
            if some:
                self._print(f"{name}: % of what the last column names", some, of)
        else:
            print(f"{name}: answers to {data.count} questions; no scores, for it has no golds")
        reasons = dict(collections.Counter(lost).most_common())
        if reasons:
            why = "; ".join(f"{reason} ({count})" for reason, count in reasons.items())
            count = " and count 0" if data.scored else ""
            print(f"{len(lost)} of them were left out of the split{count}: {why}")
        print(f"peak memory: {peak_mib():.0f} MiB")
        return {"questions": len(ids), "left out": len(lost), "reasons": reasons}

    def _chosen(self, chosen: dict[str, Any]) -> dict[str, Any]:
        """The same; prints the scores of the questions that were asked for."""
        missing = f", {chosen['missing']} of them not in the split" if chosen["missing"] else ""
        title = f"{Path(str(self.questions)).name}: {chosen['questions']} questions{missing}"
        self._print(title, chosen["scores"])
        return chosen

    def _check_without_golds(self) -> None:
        for flag, value in {"by-question": self.by_question, "questions": self.questions}.items():
            if value is not None:
                raise InputError(f"--{flag}: expected golds, found none in {self.data}")
        if not self.outputs():
            expected = "golds, or a file for the answers (--predictions)"
            raise InputError(f"{self.data}: expected {expected}, found none")

    @staticmethod
    def _print(
        title: str, scores: Mapping[str, float], of: Mapping[str, str] | None = None
    ) -> None:
        """Prints a table of scores; without ``of``, all are of the questions in the title."""
        # A title is wrapped at the width of its table.
        table = Table("metric", title=title, min_width=len(title))
        table.add_column("%", justify="right")
        if of:
            table.add_column("of", justify="right")
        for metric, value in scores.items():
            share = [of[metric]] if of else []
            table.add_row(metric, score_text(metric, value), *share)
        Console().print(table)

    def _evaluation(self) -> dict[str, Any]:
        """What the scores depend on: options, checkpoint, split."""
        name, digest = self.split_and_digest()
        check_run(self.run_dir)
        options = {name: value for name, value in compared(self).items() if name != "type"}
        if self.questions is not None:
            options["questions"] = file_digest(self.questions)
        return {
            "options": options,
            "checkpoint": checkpoint_identity(self.run_dir, self.checkpoint),
            "split": {"name": name, "digest": digest},
        }

    def split_and_digest(self) -> tuple[str, str]:
        """Name of the split, and a digest of what it holds."""
        manifest, meta = self.data / MANIFEST, self.data / "meta.json"
        if not os.path.isfile(meta):
            raise InputError(f"{self.data}: expected a prepared split, found no meta.json")
        record = manifest if has_checksums(self.data) else meta
        return self.data.absolute().name, file_digest(record)


def read_ids(file: Path) -> list[str]:
    """Ids of questions, in order, each as often as the file has it.

    One id per line; a JSON list of ids, or an object with ids as keys, such as predictions; or any
    JSON, or JSON lines, with questions under `_ID_KEYS` at any depth, as in the official files.
    """
    text = read_text(file)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ids = lines
    if text.lstrip()[:1] in ("[", "{"):
        try:
            content = json.loads(text)
        except ValueError:
            content = [_parsed(line, file) for line in lines]
        ids = [*_nested_ids(content)] or [id for id in content if isinstance(id, str)]
    if not ids:
        raise InputError(f"{file}: expected ids of questions, found none")
    return ids


def _parsed(line: str, file: Path) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise InputError(f"{file}: expected JSON or JSON lines, found {error}") from error


def _nested_ids(content: Any) -> Iterator[str]:
    if isinstance(content, Mapping):
        yield from (content[key] for key in _ID_KEYS if isinstance(content.get(key), str))
        content = content.values()
    elif not isinstance(content, list):
        return
    for part in content:
        yield from _nested_ids(part)


def chosen_scores(
    ids: Sequence[str], scored: Sequence[str], by_question: Mapping[str, Any]
) -> dict[str, Any]:
    """Mean scores of some questions, each as often as it comes; one that has no score counts 0.

    Of an id that was scored several times, the mean counts.

    Example:
        >>> chosen_scores(["b", "x", "b", "x"], ["a", "b"], {"em": [0.0, 100.0]})
        {'questions': 4, 'missing': 2, 'scores': {'em': 50.0}}
    """
    wanted, places = collections.Counter(ids), collections.Counter(scored)
    missing = sum(id not in places for id in ids)
    if missing == len(ids):
        raise InputError(f"--questions: expected ids of the split, found {ids[0]!r} and others")
    weights = [wanted[id] / places[id] for id in scored]
    scores = {
        name: float(sum(w * value for w, value in zip(weights, values, strict=True))) / len(ids)
        for name, values in by_question.items()
    }
    return {"questions": len(ids), "missing": missing, "scores": scores}


def checkpoint_identity(run_dir: Path, checkpoint: str) -> dict[str, Any]:
    """What scores are told apart by: name and step of a checkpoint.

    The step, under "number", is None if the checkpoint is missing, which loading reports.
    """
    from hardem_jax.training.checkpoints.run import newest_step  # imports jax

    return {"name": checkpoint, "number": newest_step(run_dir / checkpoint)}
