"""What a task is, and all of training and answering that does not depend on which task it is.

    training:  data -> Model.inputs -> Model.pad -> batch -> Task.loss -> objective
    at test:   ... batch -> Task.decode -> Task.reading -> Task.score

`start` makes the first line ready for the training loop, `Reader` is the second, and `Trained` is a
`Reader` with the parameters that a run folder holds.
"""

import abc
import dataclasses
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

import grain
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from hardem_jax import losses
from hardem_jax.data.batching.evaluation import evaluation_batches
from hardem_jax.data.batching.packing import PADDING
from hardem_jax.data.batching.padding import (
    Batch,
    BatchConfig,
    Inputs,
    Pad,
)
from hardem_jax.data.batching.plans import Plan, TrainingPlan, example_batches, training_batches
from hardem_jax.errors import InputError
from hardem_jax.models.encoders.packing import token_metrics
from hardem_jax.objectives import Objective
from hardem_jax.search.objectives import AnySearchObjective
from hardem_jax.tasks.run_config import RunConfig
from hardem_jax.tasks.z_visits import first_memory, visit_metrics
from hardem_jax.training.checkpoint import load_params
from hardem_jax.training.devices.mesh import make_place_fn, round_up_to_devices, with_shardings
from hardem_jax.training.step import LossFn
from hardem_jax.training.tree_paths import named_leaves

Array = jax.Array
#: Wraps an iterator whose items show how far an evaluation has come.
Progress = Callable[[Iterator[Any]], Iterator[Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Questions:
    """Questions with their Z, to train on or to answer. Tasks add what their models read.

    Attributes:
        questions: by index, in the order of the source.
        left_out: id -> reason, for every other question of the data set; each counts 0.
        scored: whether the golds are known, so that answers can be scored.
        place: the folder they come from, for messages.
        meta: what determined them, as JSON holds it; a run is not continued on other data.
    """

    questions: Sequence[Any]
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    scored: bool = True
    place: str = ""
    meta: Any = None

    @property
    def count(self) -> int:
        """Questions as the official metric counts them, without those left out."""
        return len(self.questions)

    def scored_ids(self) -> list[str]:
        """The id of each score of `Task.by_question`."""
        return [*(question.id for question in self.questions), *self.left_out]

    def set_sizes(self) -> Sequence[int] | None:
        """|Z| of each question; None if it is not known."""
        return None

    def first(self, count: int | None) -> Self:
        """The first ``count`` questions, none of them left out; all as they are if None."""
        if count is None:
            return self
        return self.select(range(min(count, len(self.questions))))

    def select(self, indices: Sequence[int]) -> Self:
        """The questions at these indices, none of them left out."""
        questions = [self.questions[index] for index in indices]
        return dataclasses.replace(self, questions=questions, left_out={})


@dataclasses.dataclass(frozen=True)
class Model(abc.ABC):
    """A module, and the way from questions to its batches.

    Attributes:
        graphdef: of an `nnx.Module` whose call on a batch gives a distribution over solutions.
        params: its values; shapes where a checkpoint holds the values.
    """

    graphdef: nnx.GraphDef
    params: Any

    @classmethod
    @abc.abstractmethod
    def start(cls, config: Any, data: Any, *, seed: int) -> Self:
        """A new model.

        Args:
            config: of the model.
            data: the `Questions` it will be trained on.
            seed: of the initial parameters.

        Raises:
            InputError: the model cannot express the data's Z, or a file that it needs is at fault.
        """

    @classmethod
    @abc.abstractmethod
    def restore(cls, config: Any, run: RunConfig) -> Self:
        """A run's model with shapes for parameters, from what `save` wrote and returned."""

    @abc.abstractmethod
    def inputs(self, data: Any) -> Inputs:
        """The questions as inputs, by index."""

    @abc.abstractmethod
    def pad(self, inputs: Any, num_solutions: int) -> Pad:
        """Makes batches of these inputs with room for ``num_solutions`` solutions."""

    @abc.abstractmethod
    def save(self, run_dir: Path) -> dict[str, Any]:
        """Writes the files that `restore` needs; returns what it needs of ``config.json``."""

    def check_lengths(self, buckets: Sequence[int]) -> None:
        """Raises `InputError` if inputs as long as the largest bucket do not fit the model."""
        del buckets  # models cut their inputs, unless they say otherwise


@dataclasses.dataclass(frozen=True)
class ShownAnswer:
    """What a model answers, for people, and whether the metric accepts it."""

    question: str
    gold: str
    answer: str
    correct: bool


D = TypeVar("D", bound=Questions)
R = TypeVar("R")
A = TypeVar("A")
TaskT = TypeVar("TaskT", bound="Task")


class Task(abc.ABC, Generic[D, R, A]):
    """What is particular to a task. D are its questions, R what is read of an input, A its answers.

    Implementations are frozen dataclasses of the options that do not belong to a model.

    Attributes:
        NAME: of the task in ``config.json`` and in messages.
        UNIT: what inputs are called in messages.
        QUESTIONS: the type of D.
        MODELS: type of a configuration -> the model it configures.
        ONLY_TRAINED: names of parts of the module that `trained` may add; no reader has them.
        PACKS: whether ``inference`` has ``packed_tokens``, the length of the rows that inputs are
            packed into; None pads them.
        inference: how answers are read off; has a ``batch_size``.
    """

    NAME: ClassVar[str]
    UNIT: ClassVar[str] = "questions"
    QUESTIONS: ClassVar[type[Questions]]
    MODELS: ClassVar[Mapping[type, type[Model]]]
    ONLY_TRAINED: ClassVar[tuple[str, ...]] = ()
    PACKS: ClassVar[bool] = False
    inference: Any

    @classmethod
    @abc.abstractmethod
    def restore(cls, run: RunConfig, **inference: Any) -> Self:
        """The task of a run, with these fields of ``inference`` in place of the run's."""

    @abc.abstractmethod
    def save(self, data: D) -> dict[str, Any]:
        """What `restore` needs of ``config.json`` beyond the flags."""

    @abc.abstractmethod
    def check(self, data: D, model: Any, other: str) -> None:
        """Raises `InputError` if the data were prepared in another way than those of ``other``."""

    def plan(self, data: D, inputs: Inputs, batches: BatchConfig, **options: Any) -> Plan:
        """Which inputs make up which step; ``options`` as for `TrainingPlan`."""
        del data
        return TrainingPlan(inputs.sizes, batches, **options)

    @abc.abstractmethod
    def loss(self, graphdef: nnx.GraphDef, objective: Objective, plan: Plan) -> LossFn:
        """The loss of a batch of the plan, see `make_loss`."""

    def searching(self, objective: AnySearchObjective, data: D) -> tuple[Self, D]:
        """This task for an objective that looks for solutions, and the data without theirs.

        Raises:
            InputError: P(z | x) cannot be searched, or not in this way.
        """
        del data
        raise InputError(
            f"objective: expected one over a given Z for {self.NAME}, found "
            f"{type(objective).__name__}, which searches"
        )

    def trained(self, model: Model) -> Model:
        """The model of a run: as it is, or with parameters that only the loss reads.

        Raises:
            InputError: it cannot be trained in this way.
        """
        return model

    def memory(self, num_inputs: int) -> Mapping[str, Any]:
        """What the loss remembers of each input, ``[num_inputs, ...]`` by name, before the run."""
        return first_memory(num_inputs)

    @abc.abstractmethod
    def decode(self, found: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
        """What to read off the distribution of a batch; traced, one row for each of the batch."""

    @abc.abstractmethod
    def reading(
        self, inputs: Any, index: int, out: Mapping[str, Any], entries: Mapping[str, Any]
    ) -> R:
        """What the model says about an input, from its rows of `decode` and of the batch."""

    @abc.abstractmethod
    def score(self, data: D, readings: Iterator[tuple[int, R]]) -> tuple[dict[str, float], A]:
        """Scores of a split in percent, and the answers to its questions.

        Args:
            data: the split.
            readings: index of an input and its reading, of all inputs, in any order.
        """

    @abc.abstractmethod
    def by_question(self, data: D, answers: A) -> dict[str, np.ndarray]:
        """The official scores of every question, to compare runs on the same questions.

        Args:
            data: the split.
            answers: to its questions, from `score`.

        Returns:
            Name -> ``[N]`` float64 in percent, whose mean is what `score` has under that name. In
            the order of the questions, as often as the official metric counts them; then those left
            out, 0 each.
        """

    @abc.abstractmethod
    def metric_names(self, data: D) -> Collection[str]:
        """The names of all scores that `score` may return for these questions."""

    @abc.abstractmethod
    def describe(self, data: D, inputs: Any) -> str:
        """How many questions there are, and what became of them as inputs, in a line."""

    @abc.abstractmethod
    def shown(self, data: D, answers: A) -> list[ShownAnswer]:
        """The answers for people, in the order of the questions."""


def make_loss(graphdef: nnx.GraphDef, objective: Objective, **log_prob: Any) -> LossFn:
    """The loss of a training batch as a function of the model's parameters.

    Args:
        graphdef: of a model whose call gives a distribution over solutions, from `nnx.split`.
        objective: decides which solutions are trusted.
        **log_prob: options of the distribution's ``log_prob``.

    Returns:
        ``loss(params, batch, *, step, key, dropout_key) -> (loss, metrics)``, both of float32
        scalars: the objective draws from ``key``, dropout from ``dropout_key``. In addition to the
        model's inputs, a batch has ``solutions`` and ``solutions_where``, ``[B, Z]`` bool, and
        where solutions have scores from outside ``log_weights``, ``[B, Z]`` float32. Among the
        metrics are those of `z_metrics` and `z_visits.visit_metrics`.
    """

    def loss(params: Any, batch: Mapping[str, Any], *, step: Array, key: Array, dropout_key: Array):
        model = nnx.merge(graphdef, params)
        distribution = model(batch, rngs=nnx.Rngs(dropout=dropout_key))
        where = batch["solutions_where"]
        log_probs = distribution.log_prob(batch["solutions"], **log_prob)
        rows = {"where": where}
        if "log_weights" in batch:
            rows["log_weights"] = batch["log_weights"]
        value, metrics = objective(log_probs, step=step, key=key, **rows)
        metrics |= z_metrics(log_probs, where)
        metrics |= visit_metrics(
            log_probs,
            where,
            true_solution=batch.get("true_solution"),
            memory=batch.get("memory"),
        )
        if "where" in batch:  # the encoder reads tokens
            metrics |= token_metrics(batch)
        return value, metrics

    return loss


def z_metrics(log_probs: Array, where: Array) -> dict[str, Array]:
    """What every training step reports about Z: means over its questions (or windows, or groups).

    Args:
        log_probs: ``[B, Z]``, log P of the solutions.
        where: ``[B, Z]`` bool, real solutions.

    Returns:
        ``items``, the number of rows with a solution, which the loss is the mean over; ``z_size``,
        their solutions; ``z_entropy``, the entropy of their posteriors in nats
        (`losses.posterior_entropy`).

    Example:
        >>> where = jnp.array([[True, True], [True, False], [False, False]])
        >>> found = z_metrics(jnp.zeros((3, 2)), where)
        >>> {name: round(float(value), 3) for name, value in found.items()}
        {'items': 2.0, 'z_size': 1.5, 'z_entropy': 0.347}
    """
    items = jnp.maximum(jnp.sum(jnp.any(where, axis=-1)), 1).astype(jnp.float32)
    entropy = losses.posterior_entropy(jax.lax.stop_gradient(log_probs), where=where)
    return {
        "items": items,
        "z_size": jnp.sum(where) / items,
        "z_entropy": jnp.sum(entropy) / items,
    }


@dataclasses.dataclass(frozen=True)
class Start:
    """A task with its data and its model, ready for the training loop.

    Attributes:
        loss_fn: see `training.step.LossFn`.
        params: initial parameters.
        memory: what the loss remembers of each input, see `training.state.TrainState`.
        params_per_token: of the encoder's layers; None without such an encoder.
        batches: endless, as this process reads them.
        examples: a batch of padding for each shape, see `example_batches`.
        evaluate: parameters -> scores of the split to evaluate on.
        metric_names: all that ``evaluate`` may return.
        task: of the run.
        dev: the split to evaluate on.
        read: parameters and questions -> the inputs that these make, and index and reading of each.
        data: what identifies the data, by name; a run is not continued on other data.
        about: one line about data and steps, for people.
        save: writes the model's vocabulary into a run folder; returns what else its
            ``config.json`` must hold.
    """

    loss_fn: LossFn
    params: Any
    memory: Mapping[str, Any]
    params_per_token: int | None
    batches: grain.IterDataset
    examples: Sequence[Batch]
    evaluate: Callable[[Any], Mapping[str, float]]
    metric_names: Collection[str]
    task: Any
    dev: Questions
    read: Callable[[Any, Any], tuple[Any, list[tuple[int, Any]]]]
    data: Mapping[str, str]
    about: str
    save: Callable[[Path], dict[str, Any]]


def start(
    task: Task[D, Any, Any],
    config: Any,
    data: D,
    dev: D,
    *,
    objective: Objective | AnySearchObjective,
    batches: BatchConfig,
    num_steps: int,
    seed: int,
    mesh: Mesh,
) -> Start:
    """Makes a new model, the batches it is trained on, and its evaluation.

    Args:
        task: the task.
        config: of the model, a type in ``task.MODELS``.
        data: to train on.
        dev: to evaluate on.
        objective: decides which solutions are trusted, or looks for them.
        batches: their shapes.
        num_steps: steps of the run.
        seed: of initial parameters and of the order of the data.
        mesh: devices that share a batch.

    Raises:
        InputError: data, model and batches do not fit one another.
    """
    if not len(data.questions):
        raise InputError(f"{data.place}: expected questions with a solution, found none")
    if not len(dev.questions):
        raise InputError(f"{dev.place}: expected questions to evaluate on, found none")
    if not dev.scored:
        raise InputError(f"{dev.place}: expected answers to evaluate by, found a split without")
    model = task.MODELS[type(config)].start(config, data, seed=seed)
    task.check(dev, model, data.place)
    if isinstance(objective, AnySearchObjective):
        task, data = task.searching(objective, data)
        model = task.trained(model)
    model.check_lengths(batches.buckets)
    inputs, dev_inputs = model.inputs(data), model.inputs(dev)
    pad = model.pad(inputs, batches.num_solutions(inputs.sizes))
    if batches.packed_tokens:
        _check_packs(pad, "--batches.packed-tokens")
    if _packed_tokens(task):
        _check_packs(pad, "--inference.packed-tokens")
    plan = task.plan(data, inputs, batches, num_steps=num_steps, seed=seed, num_devices=mesh.size)
    shard = jax.process_index(), jax.process_count()
    reader = Reader(task, model.graphdef, model.pad, batches=batches, mesh=mesh)

    def read(params: Any, questions: D) -> tuple[Inputs, list[tuple[int, Any]]]:
        own = model.inputs(questions)
        return own, list(reader.read(params, own))

    def save(run_dir: Path) -> dict[str, Any]:
        return {"task": task.NAME, "model": model.save(run_dir), **task.save(data)}

    return Start(
        loss_fn=task.loss(model.graphdef, cast(Objective, objective), plan),
        params=model.params,
        memory=task.memory(len(inputs)),
        params_per_token=_params_per_token(model.params),
        batches=training_batches(inputs, plan, pad=pad, shard=shard),
        examples=example_batches(plan, pad=pad, shard=shard),
        evaluate=lambda params: reader.evaluate(params, dev, dev_inputs)[0],
        metric_names=task.metric_names(dev),
        task=task,
        dev=dev,
        read=read,
        data={
            "data": json.dumps(data.meta, sort_keys=True),
            "dev": json.dumps(dev.meta, sort_keys=True),
        },
        about=(
            f"{task.describe(data, inputs)}; {plan.steps_per_epoch} steps per epoch; "
            f"to evaluate on: {task.describe(dev, dev_inputs)}"
        ),
        save=save,
    )


def _packed_tokens(task: Task) -> int | None:
    return task.inference.packed_tokens if task.PACKS else None


def _check_packs(pad: Pad, flag: str) -> None:
    if "token_ids" not in pad([None], 1):
        raise InputError(f"{flag}: only pretrained encoders read packed rows")


def _params_per_token(params: Any) -> int | None:
    layers = (x.size for name, x in named_leaves(params).items() if "encoder.layers." in name)
    return sum(layers) or None


class Reader(Generic[D, R, A]):
    """A model ready to answer: compiled once per shape, for any parameters of its shape.

    Shapes are those of the buckets; packed (``inference.packed_tokens``), one for all inputs.

    Args:
        task: what to read off the model, and how.
        graphdef: of the model.
        pad: see `Model.pad`.
        batches: buckets to pad to; a longer input adds a bucket. Its batch size and packing are
            those of training, and not used.
        mesh: devices that share a batch; None for the first.
    """

    def __init__(
        self,
        task: Task[D, R, A],
        graphdef: nnx.GraphDef,
        pad: Callable[[Any, int], Pad],
        *,
        batches: BatchConfig,
        mesh: Mesh | None = None,
    ):
        @jax.jit
        def decode(params: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
            return task.decode(nnx.merge(graphdef, params)(batch), batch)

        rows = round_up_to_devices(task.inference.batch_size, mesh)
        self.task = task
        self._decode = decode
        self._pad = pad
        self._batches = dataclasses.replace(
            batches, batch_size=rows, accumulate=1, packed_tokens=_packed_tokens(task)
        )
        self._num_devices = 1 if mesh is None else mesh.size
        self._place = make_place_fn(mesh)

    def read(self, params: Any, inputs: Inputs) -> Iterator[tuple[int, R]]:
        """Yields ``(index, reading)`` of every input, in the order of the batches.

        Raises:
            InputError: they are to be packed, and the model does not read tokens.
        """
        pad = self._pad(inputs, self._batches.num_solutions(inputs.sizes))
        lengths, config = inputs.sizes[:, 0], self._batches
        if config.packed_tokens:
            _check_packs(pad, "--packed-tokens")
        batches = evaluation_batches(
            inputs, lengths, config=config, pad=pad, num_devices=self._num_devices
        )
        for indices, arrays in batches:
            out = fetch(self._decode(params, self._place(arrays)))
            arrays.pop("packing", None)  # has rows of its own
            for row, index in enumerate(indices):
                if index == PADDING:
                    continue
                outputs, entries = ({n: x[row] for n, x in part.items()} for part in (out, arrays))
                yield int(index), self.task.reading(inputs, int(index), outputs, entries)

    def evaluate(
        self, params: Any, data: D, inputs: Inputs, *, progress: Progress = iter
    ) -> tuple[dict[str, float], A]:
        """Scores of a split, and the answers to its questions; see `Task.score`.

        Args:
            params: of the model.
            data: the split.
            inputs: of the model, made of ``data``.
            progress: wraps the iterator over inputs.
        """
        return self.task.score(data, progress(self.read(params, inputs)))


class Trained(Generic[TaskT]):
    """What a run folder holds, ready to answer.

    Args:
        kind: the type of its task.
        run_dir: the folder.
        checkpoint: "best" or "last".
        mesh: devices to compute on; None for the first.
        model: fields of the model's configuration in place of the run's.
        **inference: fields of the task's ``inference`` in place of the run's.

    Attributes:
        task: of the run.
        model: of the run.
        params: of the checkpoint.
        reader: of task and model.

    Raises:
        InputError: the folder holds no such run, a file of it is damaged, or its task does not
            pack inputs.
    """

    def __init__(
        self,
        kind: type[TaskT],
        run_dir: Path,
        checkpoint: str = "best",
        *,
        mesh: Mesh | None = None,
        model: Mapping[str, Any] | None = None,
        **inference: Any,
    ):
        if "packed_tokens" in inference and not kind.PACKS:
            raise InputError(
                f"--packed-tokens: expected none for {kind.NAME}, which read no packed rows"
            )
        run = RunConfig(run_dir, kind.NAME)
        config = dataclasses.replace(run.flags("model", *kind.MODELS), **(model or {}))
        self.run_dir = run_dir
        self.task: TaskT = kind.restore(run, **inference)
        self.model: Any = kind.MODELS[type(config)].restore(config, run)
        self.params = load_params(
            run_dir / checkpoint,
            with_shardings(self.model.params, mesh),
            leave_out=kind.ONLY_TRAINED,
        )
        self.reader = Reader(
            self.task,
            self.model.graphdef,
            self.model.pad,
            batches=run.flags("batches", BatchConfig),
            mesh=mesh,
        )

    def evaluate(
        self, data: Any, progress: Callable[[int, str], Progress] = lambda total, unit: iter
    ) -> tuple[dict[str, float], Any]:
        """Scores of a split, and the answers to its questions; see `Task.score`.

        Args:
            data: the split.
            progress: number of inputs and what they are called -> what wraps their iterator.

        Raises:
            InputError: there are no questions, or they were prepared in another way.
        """
        if not len(data.questions):
            raise InputError(f"{data.place}: expected questions, found none")
        self.task.check(data, self.model, str(self.run_dir))
        inputs = self.model.inputs(data)
        bar = progress(len(inputs), self.task.UNIT)
        return self.reader.evaluate(self.params, data, inputs, progress=bar)


def fetch(arrays: Any) -> Any:
    """``jax.device_get``, also of arrays whose rows are on the devices of several processes.

    All processes have to ask for the same arrays, and all get all of their rows.

    Example:
        >>> fetch({"x": jnp.arange(2)})
        {'x': array([0, 1], dtype=int32)}
    """

    def whole(array: Array) -> Any:
        if array.is_fully_addressable:
            return array
        return multihost_utils.process_allgather(array, tiled=True)

    return jax.device_get(jax.tree.map(whole, arrays))
