"""What the commands of `experiments.span_qa` do: data, model and scores of a run of a reader."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from flax import nnx
from jax.sharding import Mesh

from experiments.compare import ShownAnswer
from experiments.devices import placing
from experiments.encoder import check_lengths
from experiments.reader import TrainedReader, new_reader
from experiments.runs import Scored, TaskRun, TrainingData
from hardem_jax.data.batching.grouped import GroupedPlan
from hardem_jax.data.batching.padding import Chosen
from hardem_jax.data.inputs.windows import pad_windows
from hardem_jax.data.prepared.spans import PreparedSplit, Question, all_windows
from hardem_jax.errors import InputError
from hardem_jax.objectives import Objective
from hardem_jax.tasks.shared import Progress
from hardem_jax.tasks.span_qa import METRICS, Answer, SpanQA, evaluate, make_loss, metric_names

if TYPE_CHECKING:
    from experiments.span_qa import Compare, Evaluate, SpanSetting


def start(setting: SpanSetting, objective: Objective, mesh: Mesh) -> TaskRun:
    """See `Setting.start`."""
    splits, dev = [PreparedSplit(folder) for folder in setting.data], PreparedSplit(setting.dev)
    _check_tokenizers(splits, dev)
    reader = new_reader(setting.model, dev.tokenizer, seed=setting.loop.seed)
    check_lengths(setting.model, reader.encoder.config, setting.batches.buckets)
    graphdef, params = nnx.split(reader, nnx.Param)
    training, about = _training(setting, splits, dev.tokenizer.pad_id, mesh)
    task = SpanQA(
        graphdef,
        setting.inference_on(mesh),
        batches=setting.batches,
        pad_id=dev.tokenizer.pad_id,
        place=placing(mesh),
    )
    subset = Subset(dev, setting.dev_questions, setting.inference.num_documents)
    if not subset.questions:
        raise InputError(f"{setting.dev}: expected questions to evaluate on, found none")

    def save(run_dir: Path) -> dict[str, Any]:
        dev.tokenizer.save(run_dir)
        bert = dataclasses.asdict(reader.encoder.config)
        return {"bert": bert, "windows": dev.meta["windows"]}

    return TaskRun(
        loss_fn=make_loss(graphdef, objective, setting.latent, negatives=training.plan.negatives),
        params=params,
        training=training,
        evaluate=lambda params: subset.evaluate(task, params)[0],
        metric_names=metric_names(subset.questions, metric=subset.metric),
        data={
            "data": json.dumps([split.meta for split in splits], sort_keys=True),
            "dev": json.dumps(dev.meta, sort_keys=True),
        },
        about=f"{about}; {len(subset.questions)} questions to evaluate on",
        save=save,
    )


def _training(
    setting: SpanSetting, splits: Sequence[PreparedSplit], pad_id: int, mesh: Mesh
) -> tuple[TrainingData, str]:
    """Batches for this process, and a line about them."""
    windows, places = all_windows(splits)
    pad = functools.partial(
        pad_windows, num_solutions=setting.batches.num_solutions(windows.sizes), pad_id=pad_id
    )
    if setting.latent.scope == "window":
        training = setting.training_data(windows, windows.sizes, pad, mesh)
    else:
        plan = GroupedPlan(
            windows.sizes,
            places,
            setting.batches,
            scope=setting.latent.scope,
            group_size=setting.latent.group_size,
            num_steps=setting.loop.num_steps,
            seed=setting.loop.seed,
            num_devices=mesh.size,
        )
        training = TrainingData.of(windows, plan, pad)
    num_questions = sum(len(split.questions) for split in splits)
    num_positives = int((windows.sizes[:, 1] > 0).sum())
    about = (
        f"{num_questions} questions, {num_positives} windows with and "
        f"{len(windows) - num_positives} without a mention; "
        f"{training.plan.steps_per_epoch} steps per epoch"
    )
    return training, about


class Subset:
    """The first questions of a split with their windows.

    Args:
        split: a prepared split.
        count: number of questions; None for all, and then those that were left out count 0.
        num_documents: windows of the first so many documents of each question; None for all.
    """

    def __init__(
        self, split: PreparedSplit, count: int | None = None, num_documents: int | None = None
    ):
        self.metric: str = split.meta["metric"]
        chosen = list(split.questions)[:count]
        self.questions: dict[str, Question] = {i: split.questions[i] for i in chosen}
        self.left_out: dict[str, str] = split.left_out if count is None else {}
        windows, question, document = split.windows(), split.places[:, 0], split.places[:, 1]
        wanted = question < len(chosen)
        if num_documents is not None:
            wanted &= document < num_documents
        self._windows = Chosen(windows, np.flatnonzero(wanted))
        self._sizes = windows.sizes[wanted]

    @property
    def num_windows(self) -> int:
        """Windows to read."""
        return len(self._sizes)

    def evaluate(
        self, task: SpanQA, params: Any, progress: Progress = iter
    ) -> tuple[dict[str, float], dict[str, Answer]]:
        """See `tasks.span_qa.evaluate`."""
        return evaluate(
            task,
            params,
            self._windows,
            self._sizes,
            self.questions,
            metric=self.metric,
            left_out=self.left_out,
            progress=progress,
        )


def scores_on_train(command: Compare, run_dir: Path) -> dict[str, float]:
    """Scores of a run on the first training questions, by split."""
    scores = {}
    if command.train_questions:
        trained = TrainedReader(run_dir, "last", batch_size=command.inference.batch_size)
        for split in map(PreparedSplit, command.data):
            subset = Subset(split, command.train_questions, command.inference.num_documents)
            on_train, _ = subset.evaluate(trained.task, trained.params)
            scores |= {f"{split.folder.name}: {m}": value for m, value in on_train.items()}
    return scores


def shown_answers(command: Compare, run_dir: Path, count: int) -> list[ShownAnswer]:
    """See `CompareCommand.answers`."""
    subset = Subset(PreparedSplit(command.dev), count, command.inference.num_documents)
    trained = TrainedReader(run_dir, "last", batch_size=command.inference.batch_size)
    _, answers = subset.evaluate(trained.task, trained.params)
    shown = []
    for question in subset.questions.values():
        text = answers[question.id].text if question.id in answers else ""
        golds = {question.id: question.golds}
        right = METRICS[subset.metric].score({question.id: text}, golds)["em"] > 0
        shown.append(ShownAnswer(question.question, question.golds[0], text, right))
    return shown


def score(command: Evaluate, mesh: Mesh) -> Scored:
    """See `EvaluateCommand.score`."""
    split = PreparedSplit(command.data)
    trained = TrainedReader(
        command.run_dir,
        command.checkpoint,
        batch_size=command.batch_size,
        mesh=mesh,
        num_documents=command.num_documents,
        sweep=command.sweep,
        **({} if command.scope is None else {"scope": command.scope, "joint": False}),
    )
    if trained.tokenizer.fingerprint != split.tokenizer.fingerprint:
        raise InputError(f"{command.data}: prepared with another tokenizer than {command.run_dir}")
    subset = Subset(split, num_documents=command.num_documents)
    progress = command.progress(subset.num_windows, "windows")
    scores, answers = subset.evaluate(trained.task, trained.params, progress)
    predictions = command.predictions_text(subset.questions, answers)
    return Scored(len(subset.questions), subset.left_out, scores, predictions)


def _check_tokenizers(splits: list[PreparedSplit], dev: PreparedSplit) -> None:
    for split in splits:
        if split.tokenizer.fingerprint != dev.tokenizer.fingerprint:
            raise InputError(f"{dev.folder}: prepared with another tokenizer than {split.folder}")
