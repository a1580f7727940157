"""Train, evaluate and predict for span reading, whatever layout the questions came in.

The module of a data set adds its own ``prepare`` and shares everything here and in
`experiments.span_files`; what all tasks share is in `experiments.runs`.
"""

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from flax import nnx
from jax.sharding import Mesh

from experiments.compare import CompareCommand, ShownAnswer
from experiments.devices import placing
from experiments.reader import ReaderConfig, TrainedReader, new_reader
from experiments.runs import (
    EvaluateCommand,
    Scored,
    Setting,
    TaskRun,
    TrainCommand,
    TrainingData,
)
from hardem_jax.analysis.release_2019 import ReleasedMML
from hardem_jax.data.batches import BatchConfig, Chosen
from hardem_jax.data.grouped import GroupedPlan, Scope
from hardem_jax.data.prepared import PreparedSplit, Question, all_windows
from hardem_jax.data.records import json_text
from hardem_jax.data.windows import pad_windows
from hardem_jax.errors import InputError, require
from hardem_jax.objectives import MML, FirstOnly, HardEM, Objective
from hardem_jax.tasks.shared import Progress
from hardem_jax.tasks.span_qa import (
    METRICS,
    Answer,
    InferenceConfig,
    LatentConfig,
    SpanQA,
    evaluate,
    make_loss,
    metric_names,
)
from hardem_jax.training.fingerprint import may_change
from hardem_jax.training.loop import LoopConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanSetting(Setting):
    """Everything about a run of a reader but its objective.

    Attributes:
        data: prepared training splits; their windows are mixed.
        dev: prepared split to evaluate on.
        latent: what the latent variable ranges over in training; ``inference.scope`` says
            it for answers.
    """

    data: tuple[Path, ...] = may_change("identified by contents")
    dev: Path = may_change("identified by contents")
    model: ReaderConfig = ReaderConfig()
    batches: BatchConfig = BatchConfig()
    latent: LatentConfig = LatentConfig()
    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="f1")
    inference: InferenceConfig = InferenceConfig()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.data:
            raise InputError("data: expected at least one prepared split, found none")

    def start(self, objective: Objective, mesh: Mesh) -> TaskRun:
        splits, dev = [PreparedSplit(folder) for folder in self.data], PreparedSplit(self.dev)
        _check_tokenizers(splits, dev)
        reader = new_reader(self.model, dev.tokenizer, seed=self.loop.seed)
        self.model.check_lengths(reader.encoder.config, self.batches.buckets)
        graphdef, params = nnx.split(reader, nnx.Param)
        training, about = self._training(splits, dev.tokenizer.pad_id, mesh)
        task = SpanQA(
            graphdef,
            self.inference_on(mesh),
            batches=self.batches,
            pad_id=dev.tokenizer.pad_id,
            place=placing(mesh),
        )
        subset = Subset(dev, self.dev_questions, self.inference.num_documents)
        if not subset.questions:
            raise InputError(f"{self.dev}: expected questions to evaluate on, found none")

        def save(run_dir: Path) -> dict[str, Any]:
            dev.tokenizer.save(run_dir)
            bert = dataclasses.asdict(reader.encoder.config)
            return {"bert": bert, "windows": dev.meta["windows"]}

        return TaskRun(
            loss_fn=make_loss(graphdef, objective, self.latent, negatives=training.plan.negatives),
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
        self, splits: Sequence[PreparedSplit], pad_id: int, mesh: Mesh
    ) -> tuple[TrainingData, str]:
        """Batches for this process, and a line about them."""
        windows, places = all_windows(splits)
        pad = functools.partial(
            pad_windows, num_solutions=self.batches.num_solutions(windows.sizes), pad_id=pad_id
        )
        if self.latent.scope == "window":
            training = self.training_data(windows, windows.sizes, pad, mesh)
        else:
            plan = GroupedPlan(
                windows.sizes,
                places,
                self.batches,
                scope=self.latent.scope,
                group_size=self.latent.group_size,
                num_steps=self.loop.num_steps,
                seed=self.loop.seed,
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(SpanSetting, TrainCommand):
    """Train a reader, or continue the run in ``out`` where it stopped.

    Attributes:
        objective: which mentions are trusted.
    """

    objective: HardEM | MML | FirstOnly | ReleasedMML = HardEM()


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compare(SpanSetting, CompareCommand):
    """Train First-only, MML, hard EM and the released MML, and tabulate them.

    Attributes:
        train_questions: also score the first so many training questions after training (how
            often the likeliest mention is the annotated one); 0 for none.
    """

    TRAIN = Train
    CURVES = {"span_loss": "training loss over Z", "f1": "F1 (%)", "em": "exact match (%)"}

    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="f1", patience=None)
    objectives: tuple[Literal["first-only", "mml", "hard-em", "released-mml"], ...] = may_change(
        "each run has one", default=("first-only", "mml", "hard-em", "released-mml")
    )
    train_questions: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "train_questions", at_least=0)

    def more_scores(self, run_dir: Path) -> dict[str, float]:
        scores = {}
        if self.train_questions:
            trained = TrainedReader(run_dir, "last", batch_size=self.inference.batch_size)
            for split in map(PreparedSplit, self.data):
                subset = Subset(split, self.train_questions, self.inference.num_documents)
                on_train, _ = subset.evaluate(trained.task, trained.params)
                scores |= {f"{split.folder.name}: {m}": value for m, value in on_train.items()}
        return scores

    def answers(self, run_dir: Path, count: int) -> list[ShownAnswer]:
        subset = Subset(PreparedSplit(self.dev), count, self.inference.num_documents)
        trained = TrainedReader(run_dir, "last", batch_size=self.inference.batch_size)
        _, answers = subset.evaluate(trained.task, trained.params)
        shown = []
        for question in subset.questions.values():
            text = answers[question.id].text if question.id in answers else ""
            golds = {question.id: question.golds}
            right = METRICS[subset.metric].score({question.id: text}, golds)["em"] > 0
            shown.append(ShownAnswer(question.question, question.golds[0], text, right))
        return shown


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(EvaluateCommand):
    """Score a trained reader with the official metric.

    Attributes:
        predictions: write the answers here, as a JSON object from question id to answer, which
            the evaluators of SQuAD and TriviaQA read (TriviaQA's web domain has
            ``QuestionId--Filename`` for ids).
        scope: what spans compete in, see `InferenceConfig`; None for as the run has it.
        num_documents: read only the first so many documents of each question; None for all.
        sweep: also score answers from the first so many documents alone, for each number given.
    """

    predictions: Path | None = None
    scope: Scope | None = None
    num_documents: int | None = None
    sweep: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "num_documents", "sweep", at_least=1)

    def score(self, mesh: Mesh) -> Scored:
        split = PreparedSplit(self.data)
        trained = TrainedReader(
            self.run_dir,
            self.checkpoint,
            batch_size=self.batch_size,
            mesh=mesh,
            num_documents=self.num_documents,
            sweep=self.sweep,
            **({} if self.scope is None else {"scope": self.scope, "joint": False}),
        )
        if trained.tokenizer.fingerprint != split.tokenizer.fingerprint:
            raise InputError(f"{self.data}: prepared with another tokenizer than {self.run_dir}")
        subset = Subset(split, num_documents=self.num_documents)
        progress = self.progress(subset.num_windows, "windows")
        scores, answers = subset.evaluate(trained.task, trained.params, progress)
        predictions = self.predictions_text(subset.questions, answers)
        return Scored(len(subset.questions), subset.left_out, scores, predictions)

    def predictions_text(
        self, questions: Mapping[str, Question], answers: Mapping[str, Answer]
    ) -> str:
        """Content of the file of predictions."""
        del questions
        return json_text({example_id: answer.text for example_id, answer in answers.items()})


def _check_tokenizers(splits: list[PreparedSplit], dev: PreparedSplit) -> None:
    for split in splits:
        if split.tokenizer.fingerprint != dev.tokenizer.fingerprint:
            raise InputError(f"{dev.folder}: prepared with another tokenizer than {split.folder}")
