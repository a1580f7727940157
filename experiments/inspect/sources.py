"""Where questions come from, and what runs say about them."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardem_jax.cli.evaluate import checkpoint_identity
from hardem_jax.cli.train import TrainCommand
from hardem_jax.cli.watching import recorded_views
from hardem_jax.data.exclusions import ExclusionCounts, reasons
from hardem_jax.data.json_stream import read_json_object
from hardem_jax.data.tokenizer import load_tokenizer
from hardem_jax.documents.prepared import prepare_split
from hardem_jax.errors import InputError, offered
from hardem_jax.objectives import label
from hardem_jax.registry import check_task, task_module, task_type, tasks
from hardem_jax.settings import from_json
from hardem_jax.show.record import Choose, Record, View, everything
from hardem_jax.task.run_config import RunConfig, check_run


@dataclasses.dataclass(frozen=True)
class Source:
    """Questions to look at.

    ``task`` is "documents" where no tokenizer has cut them; ``data`` are questions as models read
    them, ``left_out`` the reason of the others of the source file, ``counted`` those reasons that
    scores count as wrong, and ``asked`` the texts of some of them: a build keeps those without Z.
    """

    task: str
    title: str
    data: Any
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    counted: frozenset[str] = frozenset()
    asked: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def questions(self) -> Sequence[Any]:
        return self.data.questions

    def record(self, index: int, choose: Choose = everything) -> Record:
        """A question with those of Z that ``choose`` chooses."""
        return task_module(self.task, "show").question_record(self.data, index, choose)


@dataclasses.dataclass(frozen=True)
class Said:
    """What a run says about a question at one moment; only a view where it was recorded."""

    view: View
    answer: str | None = None
    correct: bool | None = None


@dataclasses.dataclass(frozen=True)
class RunViews:
    """What a run says: step -> checkpoint, or "" if recorded; step -> index of a question."""

    name: str
    folder: Path
    moments: dict[int, str]
    said: dict[int, dict[int, Said]]


def run_folders(source: Path) -> list[Path]:
    """The runs of a folder: itself, those that ``compare`` wrote into it, or none."""
    if os.path.isfile(source / "config.json"):
        return [source]
    if not os.path.isfile(source / "comparison.json"):
        files = (source.glob(f"*/{name}") for name in ("comparison.json", "metrics.jsonl"))
        if runs := [file.parent for found in files for file in sorted(found)]:
            raise InputError(
                f"{source}: expected one run or a comparison, found a folder of runs; "
                f"name one of them, such as {runs[0]}"
            )
        folder = source.absolute()
        if folder.name in ("best", "last") and os.path.isfile(folder.parent / "config.json"):
            raise InputError(f"{source}: expected a run, found the checkpoint {folder.name} of one")
        return []
    found = [file.parent for file in sorted(source.glob("*/config.json"))]
    found = [folder for folder in found if any((folder / n).is_dir() for n in ("best", "last"))]
    if not found:
        raise InputError(f"{source}: expected runs with checkpoints, found none")
    return found


def open_source(
    path: Path, *, data: Path | None, split: str | None, count: int, scratch: Path
) -> Source:
    """The first questions of a run's split, of ``data`` in its place, or of the folder of data.
    Where a build of documents is cut for a run, its windows are read from ``scratch``."""
    if not os.path.isdir(path):
        near = offered(path, "best", "last", "comparison.json", "meta.json")
        expected = "a run, a comparison, a split or a build"
        raise InputError(f"{path}: expected {expected}, found nothing{near}")
    if os.path.isfile(path / "config.json"):
        task, questions, place, split = _data_of_run(path, data, split, count, scratch)
    else:
        if data is not None:
            raise InputError(f"{path}: expected a run to ask about --data, found none")
        task, questions = _open_data(path, split)
        place = path
    if not len(questions.questions):
        raise InputError(f"{place}: expected questions, found none")
    title, left_out, asked = Path(place).absolute().name, questions.left_out, {}
    if "data set" in questions.meta:  # a build, whose folder is named after a version
        title = f"{questions.meta['data set']} {split or 'dev'}"
        left_out, asked = _lacking(place, split or "dev", count)
    counted = frozenset(questions.left_out.values())
    return Source(task, title, questions.first(count), left_out, counted, asked)


def _data_of_run(
    run_dir: Path, data: Path | None, split: str | None, count: int, scratch: Path
) -> tuple[str, Any, Path, str | None]:
    """Task, questions, their place and their split of a build."""
    task, setting = _setting(run_dir)
    place = _place_of(run_dir, setting) if data is None else data
    changes: dict[str, Any] = {"dev": place}
    if data is not None and hasattr(setting, "gold"):
        changes["gold"] = None  # annotations of the run's own split
    cut = task == "spans" and data is not None and not os.path.isfile(data / "meta.json")
    if split is not None and not cut:
        if not hasattr(setting, "dev_split"):
            raise InputError(f"--split: expected a run on builds, found one of {task}")
        changes["dev_split"] = split
    setting = dataclasses.replace(setting, **changes)
    if cut:
        return task, _cut(run_dir, place, split or "dev", count, scratch), place, split
    try:
        questions = setting.open_dev(None)
    except InputError as error:
        hint = "; --data names the data of a run that lie elsewhere now"
        raise InputError(f"{error}{hint if data is None else ''}") from error
    return task, questions, place, getattr(setting, "dev_split", None)


def _place_of(run_dir: Path, setting: TrainCommand) -> Path:
    """The split that a run was evaluated on, as it is seen from here. A relative path starts where
    the run's command was given, which is known while the run's folder ends as ``--out`` did."""
    place, out = Path(setting.dev), Path(setting.out)
    if os.path.exists(place) or place.is_absolute() or out.is_absolute():
        return place
    here, end = run_dir.absolute().parts, out.parts
    if here[-len(end) :] != end:
        return place
    found = Path(*here[: -len(end)], place)
    return found if os.path.exists(found) else place


def _cut(run_dir: Path, folder: Path, split: str, count: int, scratch: Path) -> Any:
    """The documents of a build in windows, as a run reads them."""
    from hardem_jax.data.built import open_build
    from hardem_jax.documents.questions import ReadingQuestions
    from hardem_jax.spans.task import SpanTask

    build = open_build(folder)
    if build.kind != "documents":
        raise InputError(f"--data: {folder}: expected documents, found a build for {build.kind}")
    task, exclusions = SpanTask.restore(RunConfig(run_dir, SpanTask.NAME)), ExclusionCounts()
    prepare_split(
        itertools.islice(iter(build.examples(split)), count),
        scratch / "windows",
        tokenizer=load_tokenizer(run_dir),
        config=task.windows,
        metric=build.meta["metric"],
        sources={"build": build.meta["fingerprint"], "split": split},
        exclusions=exclusions,
        keep_without_mention=True,
    )
    cut = ReadingQuestions.open(scratch / "windows")
    left_out = {**_left_out(build, split), **cut.left_out}
    meta = {**cut.meta, "data set": build.meta["data set"]}
    cut = dataclasses.replace(cut, left_out=left_out, place=str(folder), meta=meta)
    return cut.from_documents(task.inference.num_documents)


def _left_out(build: Any, split: str) -> dict[str, str]:
    index = build.index(split)
    return reasons(index["left_out"], set(index["kept"]))


def _lacking(folder: Path, split: str, count: int) -> tuple[dict[str, str], dict[str, str]]:
    """The reason why a build leaves out each question, and texts of those it has a record of. Only
    questions among the first ``count`` have a text."""
    from hardem_jax.data.built import open_build

    build = open_build(folder)
    left_out = _left_out(build, split)
    first = set(itertools.islice(left_out, count))
    records = build.records(split)
    skipped = (records[place] for place in build.index(split)["skipped"])
    return left_out, {r["id"]: r["question"] for r in skipped if r["id"] in first}


def views_of_run(
    run_dir: Path, source: Source, checkpoints: Sequence[str], batch_size: int
) -> RunViews:
    """Asks the checkpoints of a run, and reads what it recorded of watched questions."""
    task, setting = _setting(run_dir)
    if task != source.task:
        raise InputError(f"{run_dir}: expected a run of {source.task}, found one of {task}")
    places = {question.id: index for index, question in enumerate(source.questions)}
    moments: dict[int, str] = {}
    said: dict[int, dict[int, Said]] = {}
    for id, steps in recorded_views(run_dir).items():
        for step, view in steps.items():
            # Rows without an id are named after a file that others may be called, too.
            if id in places and source.questions[places[id]].question == view.question:
                moments[step] = ""
                said.setdefault(step, {})[places[id]] = Said(view)
    asked: dict[int, list[str]] = {}
    for name in checkpoints:
        if (step := checkpoint_identity(run_dir, name)["number"]) is not None:
            asked.setdefault(step, []).append(name)
    if not asked:
        raise InputError(f"{run_dir}: expected a checkpoint {' or '.join(checkpoints)}, found none")
    for step, (name, *_) in asked.items():
        said.setdefault(step, {}).update(_ask(run_dir, setting, source, name, batch_size))
    moments |= {step: ", ".join(names) for step, names in asked.items()}
    ordered = dict(sorted(moments.items()))
    return RunViews(label(setting.objective), run_dir.absolute(), ordered, said)


def _ask(
    run_dir: Path, setting: TrainCommand, source: Source, checkpoint: str, batch_size: int
) -> dict[int, Said]:
    from hardem_jax.task.trained import Trained

    data = source.data
    trained = Trained(task_type(source.task), run_dir, checkpoint, batch_size=batch_size)
    trained.task.check(data, trained.model, str(run_dir))
    inputs = trained.model.inputs(data)
    readings = list(trained.reader.read(trained.params, inputs))
    views = setting.views(trained.task, data, inputs, readings)
    if not data.scored:
        return {index: Said(view) for index, view in enumerate(views)}
    shown = trained.task.shown(data, trained.task.score(data, iter(readings))[1])
    return {
        index: Said(view, one.answer, one.correct)
        for index, (view, one) in enumerate(zip(views, shown, strict=True))
    }


def _setting(run_dir: Path) -> tuple[str, TrainCommand]:
    """Task and flags of a run."""
    check_run(run_dir)
    file = run_dir / "config.json"
    content = read_json_object(file)
    flags = content.get("flags")
    if not isinstance(flags, dict) or flags.get("type") != "Train":
        raise InputError(f"{file}: expected a run that train wrote, found another")
    task = check_task(content.get("task"), file)
    kind = task_module(task, "commands").Train
    # A module's own `train` may have more flags, as `paper.set_sizes` has.
    known = {"type", *(field.name for field in dataclasses.fields(kind))}
    return task, from_json(kind, {x: flags[x] for x in flags if x in known}, str(file))


def _open_data(folder: Path, split: str | None) -> tuple[str, Any]:
    """Name of the task and the questions of a prepared split or a build."""
    if os.path.isfile(folder / "meta.json"):
        if split is not None:
            raise InputError(f"--split: expected a build, found the prepared split {folder}")
        # Its format is named after its task.
        task = str(read_json_object(folder / "meta.json").get("format")).partition(" ")[0]
        task = task if task in tasks() else "spans"
        return task, task_type(task).QUESTIONS.open(folder)
    from hardem_jax.data.built import open_build
    from hardem_jax.task.base import Questions

    build, split = open_build(folder), split or "dev"
    if build.kind != "documents":
        check_task(build.kind, build.folder)
        return build.kind, task_type(build.kind).QUESTIONS.open(build.folder, split)
    return build.kind, Questions(  # which lack windows
        questions=build.examples(split),
        left_out=_left_out(build, split),
        place=str(build.folder),
        meta={"data set": build.meta["data set"]},
    )
