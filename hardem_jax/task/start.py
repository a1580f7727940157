"""A task made ready for the training loop."""

import dataclasses
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import grain
import jax
from flax import nnx
from jax.sharding import Mesh

from hardem_jax.data.batching.padding import Batch, BatchConfig, Inputs
from hardem_jax.data.batching.plans import Plan, example_batches, training_batches
from hardem_jax.errors import InputError
from hardem_jax.objectives import Objective
from hardem_jax.registry import task_module, tasks_with
from hardem_jax.search.protocol import SearchObjective
from hardem_jax.task.base import D, LossFn, Model, Questions, Task, first_memory
from hardem_jax.task.trained import BatchReader, check_packs
from hardem_jax.training.state import named_leaves


@dataclasses.dataclass(frozen=True)
class Start:
    """A task with its data and its model, ready for the training loop.

    Attributes:
        memory: what the loss remembers of each input, see `training.state.TrainState`.
        params_per_token: of the encoder's layers; None without such an encoder.
        batches: endless, as this process reads them.
        examples: a batch of padding for each shape, see `example_batches`.
        evaluate: parameters -> scores of ``dev``, and answers to its questions; ``metric_names``:
            of all scores that it may return.
        read: parameters and questions -> the inputs that these make, and index and reading of each.
        data: what identifies the data, and the run that this one starts from, by name; a run is
            not continued on others.
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
    evaluate: Callable[[Any], tuple[Mapping[str, float], Any]]
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
    objective: Objective | SearchObjective,
    batches: BatchConfig,
    num_steps: int,
    seed: int,
    mesh: Mesh,
    init_from: Path | None = None,
) -> Start:
    """Makes a model, the batches it is trained on, and its evaluation on ``dev``.

    The model is new, or has the best parameters of the run ``init_from``; ``seed`` is also that of
    the order of the data. `InputError`: data, model and batches do not fit one another, or the run
    has another model.
    """
    _check_splits(data, dev)
    # Initial values are made from Python's numbers; `jax_transfer_guard` is for what follows.
    with jax.transfer_guard("allow"):
        model = task.MODELS[type(config)].start(config, data, seed=seed)
    task.check(dev, model, data.place)
    contents = {"data": data.meta, "dev": dev.meta}
    if init_from is not None:
        from hardem_jax.task.initial import params_of

        params, contents["init_from"] = params_of(init_from, task, model, mesh)
        model = dataclasses.replace(model, params=params)
    training = training_of(task, objective, data)
    model, data = training.model(model), training.data
    model.check_lengths(batches.buckets)
    inputs, dev_inputs = model.inputs(data), model.inputs(dev)
    model.check_inputs(dev_inputs, dev.place)
    pad = model.pad(inputs, batches.num_solutions(inputs.sizes))
    if batches.packed_tokens:
        check_packs(pad, "--batches.packed-tokens")
    if task.packed_tokens():
        check_packs(pad, "--inference.packed-tokens")
    plan = training.plan(inputs, batches, num_steps=num_steps, seed=seed, num_devices=mesh.size)
    shard = jax.process_index(), jax.process_count()
    reader = BatchReader(task, model.graphdef, model.pad, batches=batches, mesh=mesh)

    def read(params: Any, questions: D) -> tuple[Inputs, list[tuple[int, Any]]]:
        own = model.inputs(questions)
        return own, list(reader.read(params, own))

    def save(run_dir: Path) -> dict[str, Any]:
        return {"task": task.NAME, "model": model.save(run_dir), **task.save(data)}

    return Start(
        loss_fn=training.loss(model.graphdef, plan),
        params=model.params,
        memory=training.memory(len(inputs)),
        params_per_token=_params_per_token(model.params),
        batches=training_batches(inputs, plan, pad=pad, shard=shard),
        examples=example_batches(plan, pad=pad, shard=shard),
        evaluate=lambda params: reader.evaluate(params, dev, dev_inputs),
        metric_names=task.metric_names(dev),
        task=task,
        dev=dev,
        read=read,
        data={name: json.dumps(content, sort_keys=True) for name, content in contents.items()},
        about=(
            f"{training.describe(inputs)}; {plan.steps_per_epoch} steps per epoch; "
            f"to evaluate on: {task.describe(dev, dev_inputs)}"
        ),
        save=save,
    )


def _check_splits(data: Any, dev: Any) -> None:
    if not len(data.questions):
        raise InputError(f"{data.place}: expected questions with a solution, found none")
    if not len(dev.questions):
        raise InputError(f"{dev.place}: expected questions to evaluate on, found none")
    if not dev.scored:
        raise InputError(f"{dev.place}: expected answers to evaluate by, found a split without")


def _params_per_token(params: Any) -> int | None:
    layers = (x.size for name, x in named_leaves(params).items() if "encoder.layers." in name)
    return sum(layers) or None


@dataclasses.dataclass(frozen=True)
class Training:
    """Training on the given Z; objectives that search have a subclass.

    Attributes:
        task: the task.
        objective: decides which solutions are trusted, or looks for them.
        data: the `Questions` to train on.
    """

    task: Task
    objective: Any
    data: Any

    def model(self, model: Model) -> Model:
        """The model that is trained: unchanged, or with parameters that only the loss reads.

        Raises:
            InputError: it cannot be trained in this way.
        """
        return model

    def plan(self, inputs: Inputs, batches: BatchConfig, **options: Any) -> Plan:
        return self.task.plan(self.data, inputs, batches, **options)

    def memory(self, num_inputs: int) -> Mapping[str, Any]:
        """What the loss remembers of each input, ``[num_inputs, ...]`` by name, before the run."""
        return first_memory(num_inputs)

    def loss(self, graphdef: nnx.GraphDef, plan: Plan) -> LossFn:
        return self.task.loss(graphdef, self.objective, plan)

    def describe(self, inputs: Any) -> str:
        return self.task.describe(self.data, inputs)


def training_of(task: Task, objective: Objective | SearchObjective, data: Any) -> Training:
    """The training of a task: on its given Z, or looking for solutions. `InputError`: P(z | x)
    cannot be searched, or not in this way."""
    if not isinstance(objective, SearchObjective):
        return Training(task, objective, data)
    if task.NAME not in tasks_with("search"):
        raise InputError(
            f"objective: expected one over a given Z for {task.NAME}, found "
            f"{type(objective).__name__}, which searches"
        )
    return task_module(task.NAME, "search").search_training(task, objective, data)
