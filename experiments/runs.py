"""What training and evaluating share, whatever the task.

A task's experiment module says how its data and model become a `TaskRun` (`Setting.start`) and
how a trained model is scored (`Evaluate.score`); everything else about a run is here. A run
folder holds ``config.json`` (every flag, and what the task needs to find its model again), the
files of the model's vocabulary, ``metrics.jsonl`` and the checkpoints ``best`` and ``last``.
"""

from __future__ import annotations

import abc
import collections
import dataclasses
import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from rich.console import Console
from rich.table import Table

from experiments.cli import flags, peak_mib
from experiments.devices import OnDevices, say, whole_rows
from hardem_jax import __version__
from hardem_jax.checksums import MANIFEST, has_checksums, verify_checksums, write_checksums
from hardem_jax.data.batching.padding import Batch, BatchConfig, Pad
from hardem_jax.data.batching.plans import Plan, TrainingPlan, example_batches, training_batches
from hardem_jax.data.files import check_writable, file_digest, write_json, write_text
from hardem_jax.data.json_fields import kind_of
from hardem_jax.data.json_stream import read_json_object
from hardem_jax.errors import InputError, require
from hardem_jax.locks import LOCK_FILE
from hardem_jax.objectives import Objective
from hardem_jax.retrieval.progress import counted
from hardem_jax.training.config import LoopConfig, OptimizerConfig
from hardem_jax.training.fingerprint import may_change, settings_of
from hardem_jax.training.writers import METRICS_FILE

if TYPE_CHECKING:
    import grain
    from jax.sharding import Mesh

    from hardem_jax.tasks.shared import Progress
    from hardem_jax.training.step import LossFn

# Commands are parsed with this module: jax is imported by what runs them.
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """What this process reads in training.

    Attributes:
        plan: which inputs make up which step.
        batches: an endless data set.
        examples: a batch of padding for each of their shapes.
    """

    plan: Plan
    batches: grain.IterDataset
    examples: Sequence[Batch]

    @classmethod
    def of(cls, inputs: Sequence[Any], plan: Plan, pad: Pad) -> TrainingData:
        """The batches that ``pad`` makes of inputs by index, as the plan says."""
        import jax

        shard = jax.process_index(), jax.process_count()
        batches = training_batches(inputs, plan, pad=pad, shard=shard)
        return cls(plan, batches, example_batches(plan, pad=pad, shard=shard))


@dataclasses.dataclass(frozen=True)
class TaskRun:
    """A task with its data and its model, ready for the training loop.

    Attributes:
        loss_fn: see `training.step.LossFn`.
        params: initial parameters.
        training: see `TrainingData`.
        evaluate: parameters -> metrics of the split to evaluate on.
        metric_names: all that `evaluate` may return.
        data: what identifies the data, by name; a run is not continued on other data.
        about: one line about data and steps, for people.
        save: writes the model's vocabulary into a run folder; returns what else its
            ``config.json`` must hold.
    """

    loss_fn: LossFn
    params: Any
    training: TrainingData
    evaluate: Callable[[Any], Mapping[str, float]]
    metric_names: Collection[str]
    data: Mapping[str, str]
    about: str
    save: Callable[[Path], dict[str, Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting(OnDevices, abc.ABC):
    """Everything about a run but its objective; tasks add their ``data`` and ``dev``.

    Attributes:
        out: folder to write.
        model: the model.
        optimizer: AdamW and its schedule.
        batches: shapes of the batches.
        loop: steps, evaluations, checkpoints.
        inference: how answers are read off.
        dev_questions: evaluate on the first N questions only; None for all.
    """

    out: Path = may_change("a run may be moved")
    model: Any
    optimizer: OptimizerConfig = OptimizerConfig()
    batches: BatchConfig
    loop: LoopConfig
    inference: Any
    dev_questions: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "dev_questions", at_least=1)

    @abc.abstractmethod
    def start(self, objective: Objective, mesh: Mesh) -> TaskRun:
        """The run's data and model.

        Raises:
            InputError: if they do not fit one another.
        """

    def inference_on(self, mesh: Mesh) -> Any:
        """``inference`` with a batch size that divides by the devices."""
        return dataclasses.replace(
            self.inference, batch_size=whole_rows(self.inference.batch_size, mesh)
        )

    def training_data(
        self, inputs: Sequence[Any], sizes: np.ndarray, pad: Pad, mesh: Mesh
    ) -> TrainingData:
        """Shuffled batches of inputs with a solution, each with inputs without one beside it.

        Args:
            inputs: what ``pad`` takes, by index.
            sizes: ``[N, 2]`` int, tokens and solutions of each.
            pad: makes a batch.
            mesh: the devices that share a batch.

        Raises:
            InputError: if the batches are to be packed, but the model reads no wordpieces.
        """
        if self.batches.packed_tokens and "token_ids" not in pad([None], 1):
            raise InputError("--batches.packed-tokens: only BERT reads packed rows")
        plan = TrainingPlan(
            sizes,
            self.batches,
            num_steps=self.loop.num_steps,
            seed=self.loop.seed,
            num_devices=mesh.size,
        )
        return TrainingData.of(inputs, plan, pad)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainCommand(Setting):
    """Train a model, or continue the run in ``out`` where it stopped.

    Attributes:
        objective: which solutions are trusted.
    """

    objective: Any

    def settings(self, data: Mapping[str, str]) -> dict[str, str]:
        """All that has to be the same when the run is resumed, as text by dotted name.

        Args:
            data: see `TaskRun`.
        """
        return settings_of(self) | {f"contents of {name}": text for name, text in data.items()}

    def run(self) -> None:
        import jax

        from hardem_jax.training.loop import train

        mesh = self.mesh()
        parts = self.batches.accumulate * jax.process_count()
        if self.batches.batch_size % parts:
            raise InputError(
                f"--batches.batch-size: {self.batches.batch_size} items do not divide into "
                f"{self.batches.accumulate} parts of {jax.process_count()} processes"
            )
        task = self.start(self.objective, mesh)
        say(f"{task.about}; {self.objective}")
        settings = self.settings(task.data)

        def describe() -> None:
            content = {"version": __version__, "flags": flags(self), "settings": settings}
            write_json(self.out / "config.json", content | task.save(self.out))
            # Of the files that stay as they are; checkpoints have checksums of their own.
            changing = (LOCK_FILE, METRICS_FILE)
            files = (file for file in self.out.iterdir() if file.name not in changing)
            write_checksums(self.out, files)

        result = train(
            loss_fn=task.loss_fn,
            params=task.params,
            optimizer=self.optimizer,
            batches=iter(task.training.batches),
            accumulate=self.batches.accumulate,
            examples=task.training.examples,
            evaluate=task.evaluate,
            metric_names=task.metric_names,
            config=self.loop,
            directory=self.out,
            mesh=mesh,
            fingerprint=settings,
            on_new_run=describe,
        )
        say(f"best {self.loop.monitor} {result.best_metric} at step {result.best_step}")


@dataclasses.dataclass(frozen=True)
class Scored:
    """A trained model on a split.

    Attributes:
        num_questions: read with the model, one that the data set repeats as often as it does.
        left_out: id and reason of every other question of the data set; they count 0.
        scores: by name, in percent.
        predictions: content of the file of predictions.
    """

    num_questions: int
    left_out: Mapping[str, str]
    scores: Mapping[str, float]
    predictions: str

    @property
    def counts(self) -> dict[str, Any]:
        """Questions of the data set, how many were left out, and why."""
        return {
            "questions": self.num_questions + len(self.left_out),
            "left out": len(self.left_out),
            "reasons": dict(collections.Counter(self.left_out.values()).most_common()),
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateCommand(OnDevices, abc.ABC):
    """Score a trained model with the official metric.

    Questions that were left out when the split was prepared count 0. Scores go to
    ``scores-<split>-<digest>.json`` in the run's folder, together with the options, the split and
    the checkpoint that they belong to. The digest is of these three, so that another evaluation
    has another file.

    Attributes:
        run_dir: folder of the run.
        data: prepared split.
        checkpoint: "best" or "last".
        predictions: write the answers here, as JSON.
        batch_size: inputs read at once, rounded up to a multiple of the devices.
    """

    #: Options that scores do not depend on, but for rounding. All others tell evaluations apart.
    IMMATERIAL: ClassVar[frozenset[str]] = frozenset(
        {"run_dir", "data", "predictions", "batch_size", "num_devices", "fsdp", "distributed"}
    )

    run_dir: Path
    data: Path
    checkpoint: Literal["best", "last"] = "best"
    predictions: Path | None = None
    batch_size: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "batch_size", at_least=1)

    @abc.abstractmethod
    def score(self, mesh: Mesh) -> Scored:
        """Read the split with the run's model on these devices."""

    def outputs(self) -> tuple[Path, ...]:
        """Files to write besides the scores."""
        return () if self.predictions is None else (self.predictions,)

    def progress(self, total: int, unit: str) -> Progress:
        """A bar on stderr, or a line where it is not a terminal."""
        from hardem_jax.training.devices.distributed import is_primary

        if not is_primary():
            return iter
        if not Console(stderr=True).is_terminal:
            print(f"{self.data.name}: reading {total} {unit}", file=sys.stderr, flush=True)
            return iter
        return functools.partial(counted, label=f"{self.data.name}, {unit}", total=total)

    def run(self) -> None:
        from hardem_jax.training.devices.distributed import is_primary

        mesh = self.mesh()
        evaluation = self._evaluation()
        digest = hashlib.sha256(json.dumps(evaluation, sort_keys=True).encode()).hexdigest()[:8]
        name = self.data.absolute().name
        file = self.run_dir / f"scores-{name}-{digest}.json"
        for output in (file, *self.outputs()):
            check_writable(output)
        scored = self.score(mesh)
        if not is_primary():
            return
        counts = scored.counts
        table = Table(title=f"{name}: {counts['questions']} questions")
        table.add_column("metric")
        table.add_column("%", justify="right")
        for metric, value in scored.scores.items():
            table.add_row(metric, f"{value:.1f}")
        Console().print(table)
        if scored.left_out:
            reasons = "; ".join(
                f"{reason} ({count})" for reason, count in counts["reasons"].items()
            )
            print(f"{counts['left out']} of them were left out of the split and count 0: {reasons}")
        print(f"peak memory: {peak_mib():.0f} MiB")
        evaluation["split"] |= {"path": str(self.data.resolve())}
        write_json(file, {**evaluation, "counts": counts, "scores": dict(scored.scores)})
        print(f"scores: {file}")
        if self.predictions is not None:
            write_text(self.predictions, scored.predictions)

    def _evaluation(self) -> dict[str, Any]:
        """What the scores depend on: options, checkpoint, split."""
        manifest, meta = self.data / MANIFEST, self.data / "meta.json"
        if not os.path.isfile(meta):
            raise InputError(f"{self.data}: expected a prepared split, found no meta.json")
        record = manifest if has_checksums(self.data) else meta
        check_run(self.run_dir)
        immaterial = self.IMMATERIAL | {"type"}
        return {
            "options": {n: value for n, value in flags(self).items() if n not in immaterial},
            "checkpoint": {"name": self.checkpoint, "number": self._number()},
            "split": {"name": self.data.absolute().name, "digest": file_digest(record)},
        }

    def _number(self) -> int | None:
        """The folder of the checkpoint; None if there is none, which loading it reports."""
        entries = (self.run_dir / self.checkpoint).glob("*")
        return max((int(entry.name) for entry in entries if entry.name.isdigit()), default=None)


#: What ``config.json`` holds for a task alone -> who writes it.
TASKS = {
    "windows": "span reading",
    "equation_model": "experiments.drop",
    "parser": "experiments.wikisql",
}


def check_run(run_dir: Path) -> None:
    """Checks that a folder holds a run whose configuration and vocabulary are whole.

    Raises:
        InputError: names what is missing or damaged.
    """
    if not os.path.isfile(run_dir / "config.json"):
        raise InputError(f"{run_dir}: expected the folder of a run, found no config.json in it")
    if has_checksums(run_dir):  # runs of version 0.1.0 have none
        verify_checksums(run_dir)


class RunConfig:
    """``config.json`` of a run.

    Args:
        run_dir: folder of the run.
        part: that the file must hold, a key of `TASKS`.

    Raises:
        InputError: if the folder holds no run or one of another task, or a file of it is damaged.
    """

    def __init__(self, run_dir: Path, part: str):
        check_run(run_dir)
        file = run_dir / "config.json"
        self.content = read_json_object(file)
        if part not in self.content:
            tasks = [task for key, task in TASKS.items() if key in self.content]
            found = f"a run of {tasks[0]}" if tasks else "a run of no task"
            raise InputError(f"{file}: expected a run of {TASKS[part]}, found {found}")
        version = self.content.get("version")
        self.place = f"{file} (of version {version})" if version else str(file)
        self.part = self._object(self.content, part)

    def flags(self, name: str, *kinds: type[Any]) -> Any:
        """A configuration among the flags, of one of these classes."""
        content = self._object(self._object(self.content, "flags"), name)
        named = [kind for kind in kinds if kind.__name__ == content.get("type")] or [kinds[0]]
        fields = {key: value for key, value in content.items() if key != "type"}
        return self.restore(named[0], fields, f"flags.{name}")

    def section(self, name: str, kind: type[T]) -> T:
        """A configuration that is not among the flags."""
        return self.restore(kind, self._object(self.content, name), name)

    def restore(self, kind: type[T], fields: Mapping[str, Any], name: str) -> T:
        """A configuration with these fields.

        Raises:
            InputError: one is unknown, missing, or out of place.
        """
        hints = get_type_hints(kind)
        known = {f.name: f for f in dataclasses.fields(cast(Any, kind))}
        for key in fields:
            if key not in known:
                raise InputError(
                    f"{self.place}: {name}.{key}: expected a field of {kind.__name__}, found one "
                    "that this version does not know"
                )
        for key, field in known.items():
            if key not in fields and field.default is field.default_factory:  # both are missing
                raise InputError(f"{self.place}: {name}.{key}: expected a value, found none")
        for key, value in fields.items():
            if not _fits(value, hints[key]):
                raise InputError(
                    f"{self.place}: {name}.{key}: expected {hints[key]}, found {value!r}"
                )
        values = {n: tuple(v) if isinstance(v, list) else v for n, v in fields.items()}
        try:
            return kind(**values)
        except InputError as error:
            raise InputError(f"{self.place}: {name}.{error}") from error

    def _object(self, content: Mapping[str, Any], name: str) -> dict[str, Any]:
        if not isinstance(value := content.get(name), dict):
            found = kind_of(value) if name in content else "nothing"
            raise InputError(f"{self.place}: expected an object under {name!r}, found {found}")
        return value


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value of JSON is what an annotation says; lists are tuples, paths are strings."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if hint is float:
        return type(value) in (int, float)
    if hint is Path:
        return type(value) is str
    if origin is Literal:
        # As runs of version 0.1 have it: "remat" was true or false.
        return type(value) is bool or value in arguments
    if origin is tuple:
        inner = arguments[:1] if arguments[-1:] == (...,) else arguments
        return isinstance(value, list) and all(
            _fits(item, inner[i % len(inner)]) for i, item in enumerate(value)
        )
    if arguments:
        return any(_fits(value, argument) for argument in arguments)
    return type(value) is hint
