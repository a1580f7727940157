"""Train, evaluate and predict for span reading, whatever layout the questions came in.

The modules `experiments.triviaqa` and `experiments.squad_layout` add their own
``prepare`` and share everything here. A run folder holds ``config.json`` (every flag, and the
shape of the model), ``tokenizer.json``, ``metrics.jsonl`` and the checkpoints
``best`` and ``last``: all that evaluating and predicting need.
"""

import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from flax import nnx
from rich.console import Console
from rich.table import Table

from experiments.cli import flags
from experiments.reader import (
    ReaderConfig,
    TrainedReader,
    has_begun,
    new_reader,
    save_run_config,
)
from hardem_jax.analysis.release_2019 import ReleasedMML
from hardem_jax.data.batches import BatchConfig, TrainingPlan, training_batches
from hardem_jax.data.examples import Document, ExclusionCounts, ReadingExample
from hardem_jax.data.prepared import Concatenated, PreparedSplit, Question, prepare_split
from hardem_jax.data.records import write_json
from hardem_jax.data.tokenizer import load_tokenizer
from hardem_jax.data.windows import WindowConfig, make_windows, pad_windows
from hardem_jax.errors import InputError
from hardem_jax.objectives import MML, FirstOnly, HardEM
from hardem_jax.tasks.span_qa import Answer, InferenceConfig, SpanQA, evaluate, make_loss
from hardem_jax.training.loop import LoopConfig, train
from hardem_jax.training.mesh import data_mesh, place_batch
from hardem_jax.training.optimizer import OptimizerConfig

Objectives = HardEM | MML | FirstOnly | ReleasedMML


@dataclasses.dataclass(frozen=True)
class Train:
    """Train a reader, or continue the run in ``out`` where it stopped.

    Attributes:
        data: prepared training splits; their windows are mixed.
        dev: prepared split to evaluate on.
        out: folder of the run.
        model: the reader.
        objective: which mentions are trusted.
        optimizer: AdamW and its schedule.
        batches: shapes of the batches.
        loop: steps, evaluations, checkpoints.
        inference: how answers are read off.
        num_devices: devices to use; None for all.
        dev_questions: evaluate on the first so many questions only; None for all.
    """

    data: tuple[Path, ...]
    dev: Path
    out: Path
    model: ReaderConfig = ReaderConfig()
    objective: Objectives = HardEM()
    optimizer: OptimizerConfig = OptimizerConfig()
    batches: BatchConfig = BatchConfig()
    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="f1")
    inference: InferenceConfig = InferenceConfig()
    num_devices: int | None = None
    dev_questions: int | None = None

    def run(self) -> None:
        mesh = data_mesh(self.num_devices)
        splits, dev = [PreparedSplit(folder) for folder in self.data], PreparedSplit(self.dev)
        _check_tokenizers(splits, dev)
        positives = Concatenated([split.positives for split in splits])
        negatives = Concatenated([split.negatives for split in splits])
        reader = new_reader(self.model, dev.tokenizer, seed=self.loop.seed)
        graphdef, params = nnx.split(reader, nnx.Param)
        if not has_begun(self.out):  # a run that goes on keeps what it was started with
            save_run_config(
                self.out,
                flags=flags(self),
                reader=reader,
                windows=dev.meta["windows"],
                tokenizer=dev.tokenizer,
            )
        plan = TrainingPlan(
            positives.sizes[:, 0],
            negatives.sizes[:, 0],
            self.batches,
            num_steps=self.loop.num_steps,
            seed=self.loop.seed,
        )
        batches = training_batches(
            positives,
            negatives,
            plan,
            pad=functools.partial(
                pad_windows,
                num_solutions=self.batches.num_solutions(positives.sizes),
                pad_id=dev.tokenizer.pad_id,
            ),
            shard=(jax.process_index(), jax.process_count()),
        )
        task = SpanQA(
            graphdef,
            self.inference,
            batches=self.batches,
            pad_id=dev.tokenizer.pad_id,
            place=lambda batch: place_batch(batch, mesh),
        )
        subset = Subset(dev, self.dev_questions)
        print(
            f"{sum(len(split.questions) for split in splits)} questions, {len(positives)} windows "
            f"with and {len(negatives)} without a mention; {plan.steps_per_epoch} steps per epoch; "
            f"{len(subset.questions)} questions to evaluate on; {self.objective}"
        )
        result = train(
            loss_fn=make_loss(graphdef, self.objective),
            params=params,
            optimizer=self.optimizer,
            batches=iter(batches),
            evaluate=lambda params: subset.evaluate(task, params)[0],
            config=self.loop,
            directory=self.out,
            mesh=mesh,
            fingerprint=self._fingerprint(splits, dev),
        )
        print(f"best {self.loop.monitor} {result.best_metric} at step {result.best_step}")

    def _fingerprint(self, splits: list[PreparedSplit], dev: PreparedSplit) -> dict[str, str]:
        """What must not change between stopping and continuing, by name."""
        return {
            "data": json.dumps([split.meta for split in splits], sort_keys=True),
            "dev": json.dumps(dev.meta, sort_keys=True),
            **{name: str(getattr(self, name)) for name in ("model", "objective", "batches")},
            **{name: str(getattr(self, name)) for name in ("inference", "dev_questions")},
        }


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


@dataclasses.dataclass(frozen=True)
class Evaluate:
    """Score a trained reader with the official metric.

    Attributes:
        run_dir: folder of the run.
        data: prepared split.
        checkpoint: "best" or "last".
        predictions: write the answers here, as the JSON object that official evaluators read.
        batch_size: windows read at once.
    """

    run_dir: Path
    data: Path
    checkpoint: Literal["best", "last"] = "best"
    predictions: Path | None = None
    batch_size: int = 32

    def run(self) -> None:
        split = PreparedSplit(self.data)
        trained = TrainedReader(self.run_dir, self.checkpoint, batch_size=self.batch_size)
        if trained.tokenizer.fingerprint != split.tokenizer.fingerprint:
            raise InputError(f"{self.data}: prepared with another tokenizer than {self.run_dir}")
        scores, answers = Subset(split).evaluate(trained.task, trained.params)
        table = Table(title=f"{self.data.name}: {len(split.questions)} questions")
        table.add_column("metric")
        table.add_column("%", justify="right")
        for name, value in scores.items():
            table.add_row(name, f"{value:.1f}")
        Console().print(table)
        write_json(self.run_dir / f"scores-{self.data.name}.json", scores)
        if self.predictions is not None:
            texts = {example_id: answer.text for example_id, answer in answers.items()}
            write_json(self.predictions, texts)


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
