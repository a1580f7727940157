"""Where questions come from, and what runs say about them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.inspect.drawings import DRAWERS, Drawer
from hardem_jax.analysis.views import View
from hardem_jax.cli import equations, programs, queries, spans
from hardem_jax.cli.command import from_flags
from hardem_jax.cli.evaluate import checkpoint_identity
from hardem_jax.cli.train import TrainCommand
from hardem_jax.cli.watching import recorded_views
from hardem_jax.data.json_stream import read_json_object
from hardem_jax.errors import InputError
from hardem_jax.objectives import label
from hardem_jax.tasks.run_config import check_run

_TRAIN: dict[str, type[TrainCommand]] = {
    "spans": spans.Train,
    "equations": equations.Train,
    "queries": queries.Train,
    "programs": programs.Train,
}
#: Kind of a build -> name of its task.
_TASK_OF = {"numeric": "equations", "queries": "queries", "programs": "programs"}


@dataclasses.dataclass(frozen=True)
class Source:
    """Questions to look at.

    Attributes:
        task: name of the task, a key of `DRAWERS`.
        title: of the page.
        data: the questions as models read them.
        left_out: how many others the split has.
    """

    task: str
    title: str
    data: Any
    left_out: int

    @property
    def questions(self) -> Sequence[Any]:
        return self.data.questions

    def drawer(self) -> Drawer:
        return DRAWERS[self.task](self.data)


@dataclasses.dataclass(frozen=True)
class Said:
    """What a run says about a question at one moment.

    Attributes:
        view: its P(z | x) and its prediction.
        answer: the text of its answer; None where only `view` was recorded.
        correct: whether the metric accepts it; None likewise.
    """

    view: View
    answer: str | None = None
    correct: bool | None = None


@dataclasses.dataclass(frozen=True)
class RunViews:
    """What a run says.

    Attributes:
        name: its objective, and its folder where that is needed to tell runs apart.
        folder: name of its folder.
        moments: training step -> "best", "last", "best, last", or "" for a recorded evaluation.
        said: training step -> index of a question -> `Said`.
    """

    name: str
    folder: str
    moments: dict[int, str]
    said: dict[int, dict[int, Said]]


def run_folders(source: Path) -> list[Path]:
    """The runs of a folder: itself, those that ``compare`` wrote into it, or none."""
    if os.path.isfile(source / "config.json"):
        return [source]
    if not os.path.isfile(source / "comparison.json"):
        return []
    found = [file.parent for file in sorted(source.glob("*/config.json"))]
    found = [folder for folder in found if any((folder / n).is_dir() for n in ("best", "last"))]
    if not found:
        raise InputError(f"{source}: expected runs with checkpoints, found none")
    return found


def open_source(path: Path, *, data: Path | None, split: str | None, count: int) -> Source:
    """The first questions of a run's split, or of one that is given.

    Args:
        path: folder of a run, or of the data.
        data: in place of the run's split.
        split: of a build, in place of the run's.
        count: at most.

    Raises:
        InputError: there is nothing to open, or a file is damaged.
    """
    if not os.path.isdir(path):
        raise InputError(f"{path}: expected a run, a comparison, a split or a build, found nothing")
    if os.path.isfile(path / "config.json"):
        task, setting = _setting(path)
        changes: dict[str, Any] = {} if data is None else {"dev": data}
        if data is not None and hasattr(setting, "gold"):
            changes["gold"] = None  # annotations of the run's own split
        if split is not None:
            if not hasattr(setting, "dev_split"):
                raise InputError(f"--split: expected a run on builds, found one of {task}")
            changes["dev_split"] = split
        setting = dataclasses.replace(setting, **changes)
        try:
            questions, place = setting.open_dev(None), setting.dev
        except InputError as error:
            hint = "; --data names the data of a run that lie elsewhere now"
            raise InputError(f"{error}{hint if data is None else ''}") from error
        split = getattr(setting, "dev_split", None)
    else:
        if data is not None:
            raise InputError(f"{path}: expected a run to ask about --data, found none")
        task, questions = _open_data(path, split)
        place = path
    if not len(questions.questions):
        raise InputError(f"{place}: expected questions, found none")
    first = questions.first(count)
    title = Path(place).absolute().name
    if task != "spans":  # the folder of a build is named after a version
        title = f"{questions.meta['data set']} {split or 'dev'}"
    return Source(task, title, first, len(questions.left_out))


def views_of_run(
    run_dir: Path, source: Source, checkpoints: Sequence[str], batch_size: int
) -> RunViews:
    """Asks the checkpoints of a run, and reads what it recorded of watched questions.

    Raises:
        InputError: the run is of another task, was trained on data prepared in another way, or has
            none of these checkpoints.
    """
    task, setting = _setting(run_dir)
    if task != source.task:
        raise InputError(f"{run_dir}: expected a run of {source.task}, found one of {task}")
    places = {question.id: index for index, question in enumerate(source.questions)}
    moments: dict[int, str] = {}
    said: dict[int, dict[int, Said]] = {}
    for id, steps in recorded_views(run_dir).items():
        for step, view in steps.items():
            if id in places:
                moments[step] = ""
                said.setdefault(step, {})[places[id]] = Said(view)
    asked: dict[int, str] = {}
    for name in checkpoints:
        step = checkpoint_identity(run_dir, name)["number"]
        if step is None:
            continue
        if step in asked:
            asked[step] += f", {name}"
            continue
        asked[step] = name
        said.setdefault(step, {}).update(_ask(run_dir, setting, source, name, batch_size))
    if not asked:
        raise InputError(f"{run_dir}: expected a checkpoint {' or '.join(checkpoints)}, found none")
    moments |= asked
    name = label(setting.objective)
    ordered = dict(sorted(moments.items()))
    return RunViews(name, run_dir.absolute().name, ordered, said)


def _ask(
    run_dir: Path, setting: TrainCommand, source: Source, checkpoint: str, batch_size: int
) -> dict[int, Said]:
    from hardem_jax.tasks.base import Trained

    data = source.data
    trained = Trained(setting.kind(), run_dir, checkpoint, batch_size=batch_size)
    trained.task.check(data, trained.model, str(run_dir))
    inputs = trained.model.inputs(data)
    readings = list(trained.reader.read(trained.params, inputs))
    views = setting.views(trained.task, data, inputs, readings)
    answers = trained.task.score(data, iter(readings))[1]
    shown = trained.task.shown(data, answers)
    return {
        index: Said(view, one.answer, one.correct)
        for index, (view, one) in enumerate(zip(views, shown, strict=True))
    }


def _setting(run_dir: Path) -> tuple[str, TrainCommand]:
    """Task and flags of a run."""
    check_run(run_dir)
    file = run_dir / "config.json"
    content = read_json_object(file)
    task, flags = content.get("task"), content.get("flags")
    if task not in _TRAIN or not isinstance(flags, dict) or flags.get("type") != "Train":
        raise InputError(f"{file}: expected a run that train wrote, found another")
    return task, from_flags(_TRAIN[task], flags, str(file))


def _open_data(folder: Path, split: str | None) -> tuple[str, Any]:
    """Name of the task and the questions of a prepared split or a build."""
    if os.path.isfile(folder / "meta.json"):
        if split is not None:
            raise InputError(f"--split: expected a build, found the prepared split {folder}")
        from hardem_jax.tasks.spans import ReadingQuestions

        return "spans", ReadingQuestions.open(folder)
    from hardem_jax.data.builders.read import open_build

    build = open_build(folder)
    task = _TASK_OF.get(build.kind)
    if task is None:
        expected = "expected windows that prepare cut, or a build for equations, queries, programs"
        raise InputError(f"{folder}: {expected}, found a build for {build.kind}")
    kind = _kind(task)
    return task, kind.QUESTIONS.open(build.folder, split or "dev")


def _kind(task: str) -> Any:
    """The type of a task."""
    from hardem_jax.tasks.equations import EquationTask
    from hardem_jax.tasks.tables.programs import ProgramTask
    from hardem_jax.tasks.tables.queries import QueryTask

    kinds = (EquationTask, ProgramTask, QueryTask)
    return next(kind for kind in kinds if task == kind.NAME)
