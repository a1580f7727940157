"""Train, evaluate and predict for span reading, whatever layout the questions came in.

The modules `experiments.triviaqa` and `experiments.squad_layout` add their own
``prepare`` and share everything here; what all tasks share is in `experiments.runs`.
"""

import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from flax import nnx
from jax.sharding import Mesh
from rich.console import Console

from experiments.compare import CompareCommand, ShownAnswer
from experiments.reader import ReaderConfig, TrainedReader, new_reader
from experiments.runs import EvaluateCommand, Scored, Setting, TaskRun, TrainCommand
from hardem_jax.analysis.release_2019 import ReleasedMML
from hardem_jax.data.batches import BatchConfig
from hardem_jax.data.examples import Document, ExclusionCounts, ReadingExample
from hardem_jax.data.prepared import Concatenated, PreparedSplit, Question, prepare_split
from hardem_jax.data.tokenizer import load_tokenizer
from hardem_jax.data.windows import WindowConfig, make_windows, pad_windows
from hardem_jax.errors import InputError
from hardem_jax.objectives import MML, FirstOnly, HardEM, Objective
from hardem_jax.tasks.span_qa import METRICS, Answer, InferenceConfig, SpanQA, evaluate, make_loss
from hardem_jax.training.loop import LoopConfig
from hardem_jax.training.mesh import place_batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanSetting(Setting):
    """Everything about a run of a reader but its objective.

    Attributes:
        data: prepared training splits; their windows are mixed.
        dev: prepared split to evaluate on.
    """

    data: tuple[Path, ...]
    dev: Path
    model: ReaderConfig = ReaderConfig()
    batches: BatchConfig = BatchConfig()
    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="f1")
    inference: InferenceConfig = InferenceConfig()

    def start(self, objective: Objective, mesh: Mesh) -> TaskRun:
        splits, dev = [PreparedSplit(folder) for folder in self.data], PreparedSplit(self.dev)
        _check_tokenizers(splits, dev)
        positives = Concatenated([split.positives for split in splits])
        negatives = Concatenated([split.negatives for split in splits])
        reader = new_reader(self.model, dev.tokenizer, seed=self.loop.seed)
        graphdef, params = nnx.split(reader, nnx.Param)
        batches, steps_per_epoch = self.batches_of(
            positives,
            positives.sizes,
            functools.partial(
                pad_windows,
                num_solutions=self.batches.num_solutions(positives.sizes),
                pad_id=dev.tokenizer.pad_id,
            ),
            negatives=negatives,
            negative_lengths=negatives.sizes[:, 0],
        )
        task = SpanQA(
            graphdef,
            self.inference,
            batches=self.batches,
            pad_id=dev.tokenizer.pad_id,
            place=lambda batch: place_batch(batch, mesh),
        )
        subset = Subset(dev, self.dev_questions)

        def save(run_dir: Path) -> dict[str, Any]:
            dev.tokenizer.save(run_dir)
            bert = dataclasses.asdict(reader.encoder.config)
            return {"bert": bert, "windows": dev.meta["windows"]}

        return TaskRun(
            loss_fn=make_loss(graphdef, objective),
            params=params,
            batches=batches,
            evaluate=lambda params: subset.evaluate(task, params)[0],
            data={
                "data": json.dumps([split.meta for split in splits], sort_keys=True),
                "dev": json.dumps(dev.meta, sort_keys=True),
            },
            about=(
                f"{sum(len(split.questions) for split in splits)} questions, {len(positives)} "
                f"windows with and {len(negatives)} without a mention; {steps_per_epoch} steps "
                f"per epoch; {len(subset.questions)} questions to evaluate on"
            ),
            save=save,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(SpanSetting, TrainCommand):
    """Train a reader, or continue the run in ``out`` where it stopped.

    Attributes:
        objective: which mentions are trusted.
    """

    objective: HardEM | MML | FirstOnly | ReleasedMML = HardEM()


class Subset:
    """The first questions of a split with all of their windows.

    Args:
        split: a prepared split.
        count: number of questions; None for all.
    """

    def __init__(self, split: PreparedSplit, count: int | None = None):
        self.metric: str = split.meta["metric"]
        chosen = list(split.questions)[:count]
        self.questions: dict[str, Question] = {i: split.questions[i] for i in chosen}
        self._windows = split.windows()
        self._sizes = self._windows.sizes
        if count is not None:
            # Dev splits are small enough to hold the part that is read again and again.
            self._windows = [w for w in self._windows if w.example_id in self.questions]
            self._sizes = np.array([[w.num_tokens, len(w.solutions)] for w in self._windows])

    def evaluate(self, task: SpanQA, params: Any) -> tuple[dict[str, float], dict[str, Answer]]:
        """See `tasks.span_qa.evaluate`."""
        return evaluate(
            task, params, self._windows, self._sizes, self.questions, metric=self.metric
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
    train_questions: int = 0

    def objectives(self) -> dict[str, Objective]:
        return {**super().objectives(), "MML as released in 2019": ReleasedMML()}

    def more_scores(self, run_dir: Path) -> dict[str, float]:
        scores = {}
        if self.train_questions:
            trained = TrainedReader(run_dir, "last", batch_size=self.inference.batch_size)
            for split in map(PreparedSplit, self.data):
                subset = Subset(split, self.train_questions)
                on_train, _ = subset.evaluate(trained.task, trained.params)
                scores |= {f"{split.folder.name}: {m}": value for m, value in on_train.items()}
        return scores

    def answers(self, run_dir: Path, count: int) -> list[ShownAnswer]:
        subset = Subset(PreparedSplit(self.dev), count)
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
        predictions: write the answers here, as the JSON object that official evaluators read.
    """

    predictions: Path | None = None

    def score(self) -> Scored:
        split = PreparedSplit(self.data)
        trained = TrainedReader(self.run_dir, self.checkpoint, batch_size=self.batch_size)
        if trained.tokenizer.fingerprint != split.tokenizer.fingerprint:
            raise InputError(f"{self.data}: prepared with another tokenizer than {self.run_dir}")
        scores, answers = Subset(split).evaluate(trained.task, trained.params)
        texts = {example_id: answer.text for example_id, answer in answers.items()}
        return Scored(len(split.questions), scores, texts)


@dataclasses.dataclass(frozen=True)
class Predict:
    """Ask a trained reader a question about documents of your own.

    Attributes:
        run_dir: folder of the run.
        document: text files to read the answer from.
        question: the question.
        checkpoint: "best" or "last".
        top: answers to print.
    """

    run_dir: Path
    document: tuple[Path, ...]
    question: str
    checkpoint: Literal["best", "last"] = "best"
    top: int = 5

    def run(self) -> None:
        if not self.question.strip():
            raise InputError("--question: expected a question, found nothing but blanks")
        documents = tuple(Document(str(path), _read_text(path)) for path in self.document)
        if not documents:
            raise InputError("--document: expected at least one file, found none")
        example = ReadingExample("question", self.question, documents, aliases=(), golds=())
        trained = TrainedReader(self.run_dir, self.checkpoint, batch_size=8)
        windows = make_windows(example, trained.tokenizer, trained.windows)
        sizes = np.array([[window.num_tokens, 0] for window in windows])
        readings = [r for _, _, r in trained.task.read(trained.params, windows, sizes)]
        console = Console(highlight=False, soft_wrap=True)
        for answer in trained.task.answers(readings)[: self.top]:
            document, start, end = answer.span
            text = documents[document].text
            before, after = text[max(0, start - 60) : start], text[end : end + 60]
            console.print(f"{answer.probability:6.1%}  {answer.text}", style="bold", markup=False)
            place = f"{documents[document].id}, characters {start}-{end}"
            context = " ".join(f"...{before}[{answer.text}]{after}...".split())
            console.print(f"        {context}  ({place})", markup=False)


def prepare(
    examples: Iterator[ReadingExample],
    out: Path,
    *,
    tokenizer: str,
    windows: WindowConfig,
    metric: str,
    sources: Mapping[str, str],
    exclusions: ExclusionCounts,
    for_training: bool,
) -> None:
    """Prepare a split and print its summary; the shared half of every ``prepare`` command."""
    meta = prepare_split(
        examples,
        out,
        tokenizer=load_tokenizer(tokenizer),
        config=windows,
        metric=metric,
        sources=sources,
        exclusions=exclusions,
        keep_without_mention=not for_training,
    )
    for name, count in meta["counts"].items():
        print(f"{count:>9}  {name}")
    sizes = meta["solutions per question"]
    print(f"|Z| per question: mean {sizes['mean']}, median {sizes['median']}, max {sizes['max']}")
    print(exclusions)
    if for_training and not meta["counts"]["windows with a mention"]:
        raise InputError(f"{out}: no question has a mention of its answer; nothing to train on")


def _check_tokenizers(splits: list[PreparedSplit], dev: PreparedSplit) -> None:
    for split in splits:
        if split.tokenizer.fingerprint != dev.tokenizer.fingerprint:
            raise InputError(f"{dev.folder}: prepared with another tokenizer than {split.folder}")


def _read_text(path: Path) -> str:
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise InputError(f"{path}: expected a text file, found {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: expected UTF-8 text, found byte {error.object[error.start]:#04x} at offset "
            f"{error.start}"
        ) from error
    if not text.strip():
        raise InputError(f"{path}: expected text, found an empty document")
    return text
