"""The training loop: steps, evaluations, early stopping, checkpoints, exact resumption."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grain
import jax
from jax.sharding import Mesh

from hardem_jax.errors import InputError, Stopped, found_by
from hardem_jax.locks import locked
from hardem_jax.training.checkpoint import RunCheckpoints
from hardem_jax.training.config import LoopConfig
from hardem_jax.training.devices.distributed import is_primary, primary_decides
from hardem_jax.training.devices.fsdp import gathering
from hardem_jax.training.devices.mesh import data_mesh, place_batch, split_ids
from hardem_jax.training.early_stopping import Bookkeeping
from hardem_jax.training.fingerprint import settings_of
from hardem_jax.training.optimizer import (
    OptimizerConfig,
    averaged_params,
    learning_rate_schedule,
    make_optimizer,
)
from hardem_jax.training.run_log import RunLog
from hardem_jax.training.state import TrainState, init_state, shardings_of
from hardem_jax.training.step import LossFn, compile_train_step, make_train_step
from hardem_jax.training.stopping import StopSignals, stop_signals

#: Params on the mesh -> metrics. The loop donates these arrays to the next step: keep no reference.
Evaluate = Callable[[Any], Mapping[str, float]]


class NonFiniteLossError(FloatingPointError):
    """The loss or its gradient became infinite or NaN; nothing was saved after that step."""

    def __init__(self, step: int, ids: list[str], metrics: Mapping[str, float]) -> None:
        ids = [name for name in dict.fromkeys(ids) if name]  # once each; padded rows have none
        self.step, self.ids, self.metrics = step, ids, dict(metrics)
        examples = ", ".join(ids[:8]) + (f" and {len(ids) - 8} more" if len(ids) > 8 else "")
        super().__init__(
            f"step {step}: loss {metrics['loss']}, gradient norm {metrics['grad_norm']}; "
            f"examples in the batch: {examples or 'not named'}"
        )


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """What `train` returns.

    Attributes:
        state: after the last step made; `averaged_params` has its average, if there is one.
        best_metric: best value of the monitored metric, None if it never was a number.
        best_step: updates made when it was reached; its parameters are in `<directory>/best`.
        stopped_early: patience ran out before `num_steps`.
        history: one entry per evaluation, those before a resumption included.
    """

    state: TrainState
    best_metric: float | None
    best_step: int
    stopped_early: bool
    history: list[dict[str, float]]


def train(
    *,
    loss_fn: LossFn,
    params: Any,
    optimizer: OptimizerConfig,
    batches: grain.DatasetIterator,
    evaluate: Evaluate,
    config: LoopConfig,
    directory: str | Path,
    mesh: Mesh | None = None,
    fingerprint: Mapping[str, str] | None = None,
    accumulate: int = 1,
    examples: Sequence[Mapping[str, Any]] = (),
    metric_names: Collection[str] | None = None,
    on_new_run: Callable[[], None] | None = None,
) -> TrainResult:
    """Trains, or continues, the run in `directory`.

    A run that was killed and is started again with the same arguments continues
    bit for bit from its last checkpoint; one that had ended returns its result.
    SIGTERM and Ctrl-C end it after the step in flight, with a checkpoint.

    Args:
        loss_fn: see `LossFn`.
        params: initial values; not modified.
        optimizer: see `OptimizerConfig`.
        batches: iterator of a repeating Grain dataset at its start; each batch maps names to
            numpy arrays `[B, ...]` or scalars. An entry `ids` (B strings) stays on the host.
        evaluate: maps parameters (on `mesh`; their average, if the optimiser keeps one) to
            metrics; must not depend on anything else that changes during the run.
        config: see `LoopConfig`.
        directory: the run's folder: `last/`, `best/`, `metrics.jsonl`; locked meanwhile.
        mesh: default: all devices.
        fingerprint: further settings of the run by name (data files, model, batch size);
            resuming with others is refused. Those of `config` and `optimizer` are always included.
        accumulate: k, parts of a step's batch that are computed one after another; above 1, the
            arrays of a batch are `[k, R, ...]`.
        examples: batches of the shapes that are to come, of any content: the step is compiled
            for them, side by side, while the first batches are read. Other shapes are compiled
            when they come.
        metric_names: what `evaluate` may return; the monitored metric is then checked before
            the first step. None checks it at the first evaluation.
        on_new_run: called in the first process before the first step of a run, when nothing has
            been written but the folder; not called on resumption.

    Raises:
        InputError: if the folder holds another run, another process uses it, all its checkpoints
            are damaged, the batches end too soon, the monitored metric does not exist, or a
            batch does not divide by the devices.
        NonFiniteLossError: at the first loss or gradient that is not finite.
        Stopped: after SIGTERM or Ctrl-C; a `KeyboardInterrupt`.
        OSError: the disk is full; the last complete checkpoint is still there.

    Example:
        >>> import tempfile
        >>> import jax.numpy as jnp
        >>> def loss_fn(params, batch, *, step, key, dropout_key):
        ...     return jnp.mean((params["w"] - batch["x"]) ** 2), {}
        >>> data = grain.MapDataset.source([{"x": 1.0}, {"x": 3.0}]).repeat().batch(2)
        >>> result = train(
        ...     loss_fn=loss_fn,
        ...     params={"w": jnp.zeros(())},
        ...     optimizer=OptimizerConfig(learning_rate=0.3, weight_decay=0.0),
        ...     batches=iter(data.to_iter_dataset()),
        ...     evaluate=lambda params: {"error": abs(float(params["w"]) - 2.0)},
        ...     config=LoopConfig(50, monitor="error", mode="min", eval_every=25, progress=False),
        ...     directory=tempfile.mkdtemp(),
        ...     mesh=data_mesh(1),
        ... )
        >>> result.best_step, result.best_metric < 0.1
        (50, True)
    """
    began = time.monotonic()
    mesh = data_mesh() if mesh is None else mesh
    transform = make_optimizer(optimizer, params, config.num_steps)
    schedule = learning_rate_schedule(optimizer, config.num_steps)
    state = init_state(params, transform, config.seed, mesh)
    step = make_train_step(gathering(loss_fn, mesh), transform, schedule, accumulate=accumulate)
    train_step = compile_train_step(step, mesh, shardings_of(state))
    settings = {
        **settings_of(config, "loop"),
        **settings_of(optimizer, "optimizer"),
        "accumulate": str(accumulate),
        **(fingerprint or {}),
    }
    if metric_names is not None and config.monitor not in metric_names:
        raise InputError(
            f"loop.monitor: expected one of {', '.join(sorted(metric_names))}, "
            f"got {config.monitor!r}"
        )
    directory = Path(directory)
    books = Bookkeeping()
    with (
        _opened(directory),
        RunCheckpoints(directory, settings) as checkpoints,
        stop_signals() as stop,
    ):
        with stop.immediately():
            restored = checkpoints.restore(state, batches)
        if restored is not None:
            state, books = restored[0], Bookkeeping.from_json(restored[1])
        elif on_new_run is not None and is_primary():
            on_new_run()
        log = RunLog(directory, config, int(state.step), books, began)
        with contextlib.closing(log):
            inputs = _Inputs(batches, mesh, accumulate, examples, log)
            run = _Run(train_step, inputs, evaluate, config, checkpoints, books, log, stop)
            state = run.finish(state)
    if run.stopping:
        raise stop.stopped(
            f" after step {int(state.step)}, which is saved; the same command resumes there"
        )
    return TrainResult(
        state, books.best_metric, books.best_step, books.stopped_early, books.history
    )


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[None]:
    """The run's folder, made if needed and locked; all processes fail if the first one does."""
    with contextlib.ExitStack() as held:

        def hold() -> int:
            try:
                directory.mkdir(parents=True, exist_ok=True)
                held.enter_context(locked(directory))
            except OSError as error:
                raise InputError(
                    f"{directory}: expected a folder to write the run to, found {found_by(error)}"
                ) from error
            return 0

        primary_decides(hold)
        yield


@dataclasses.dataclass(frozen=True)
class _Inputs:
    """Batches on their way to the devices."""

    batches: grain.DatasetIterator
    mesh: Mesh
    accumulate: int
    examples: Sequence[Mapping[str, Any]]
    log: RunLog

    def compile(self, train_step: Any, state: TrainState) -> float:
        """Compiles the step for the examples while batches are read; returns the seconds taken.

        A later call with such shapes uses what was compiled.
        """
        began = time.monotonic()
        if not self.examples:
            return 0.0
        with self.log.paused():
            self.batches.start_prefetch()
            placed = [self._place(split_ids(example)[1]) for example in self.examples]
            lowered = [train_step.lower(state, arrays) for arrays in placed]
            # XLA works outside of the interpreter's lock, so that threads are enough.
            with ThreadPoolExecutor(min(len(lowered), os.cpu_count() or 1)) as pool:
                list(pool.map(lambda step: step.compile(), lowered))
        return time.monotonic() - began

    def next(self) -> tuple[list[str], Any]:
        """Example ids and the placed arrays of the next batch; counted as waiting.

        Raises:
            StopIteration: if there is none.
        """
        with self.log.waiting():
            ids, arrays = split_ids(next(self.batches))
            return ids, self._place(arrays)

    def _place(self, arrays: Mapping[str, Any]) -> Any:
        return place_batch(arrays, self.mesh, accumulate=self.accumulate)


@dataclasses.dataclass
class _Run:
    """The parts of a run, put together once, so that `finish` reads as the loop it is."""

    train_step: Any
    inputs: _Inputs
    evaluate: Evaluate
    config: LoopConfig
    checkpoints: RunCheckpoints
    books: Bookkeeping
    log: RunLog
    stop: StopSignals
    stopping: bool = False

    def finish(self, state: TrainState) -> TrainState:
        """Makes the steps that are left; `step` counts updates made, the current one included."""
        config, first = self.config, int(state.step) + 1
        if self._evaluation_due(first - 1):  # the run was stopped before or during it
            self._evaluate_and_save(first - 1, state)
        if self.stopping or self.books.stopped_early or first > config.num_steps:
            return state
        with self.stop.immediately():
            compiling = self.inputs.compile(self.train_step, state)
        pending = None
        for step in range(first, config.num_steps + 1):
            began = time.monotonic()
            # The device computes the step before while its successor is fetched and placed.
            ids, batch = self._next_batch(step)
            state, metrics = self.train_step(state, batch)
            # Fetched only now, when the next step is already queued: the device never waits.
            if pending is not None:
                self._collect(*pending)
            pending = (step, ids, metrics)
            self.stopping = self.stop.requested(step)
            save = (
                self.stopping or self._evaluation_due(step) or step % config.checkpoint_every == 0
            )
            if step == first or save:
                self._collect(*pending)
                pending = None
            if step == first:
                self.log.first_step(step, compiling, time.monotonic() - began)
            if save:
                with self.log.paused():
                    self._evaluate_and_save(step, state)
            if self.stopping or self.books.stopped_early:
                break
        return state

    def _evaluation_due(self, step: int) -> bool:
        due = step == self.config.num_steps or step > 0 and step % self.config.eval_every == 0
        return due and not self.books.evaluated(step)

    def _evaluate_and_save(self, step: int, state: TrainState) -> None:
        """Saves a checkpoint, after the evaluation if one is due and no signal came before it."""
        if self._evaluation_due(step) and not self.stopping:
            try:
                self._evaluate(step, state)
            except Stopped:
                self.stopping = True
        self.checkpoints.save_last(state, self.inputs.batches, self.books.to_json())

    def _next_batch(self, step: int) -> tuple[list[str], Any]:
        try:
            return self.inputs.next()
        except StopIteration:
            raise InputError(
                f"the batches ended after {step - 1} of {self.config.num_steps} steps; "
                "expected a repeating dataset"
            ) from None

    def _collect(self, step: int, ids: list[str], metrics: Mapping[str, jax.Array]) -> None:
        values = {name: float(value) for name, value in jax.device_get(metrics).items()}
        if not values.pop("finite"):
            raise NonFiniteLossError(step, ids, values)
        self.log.step(step, values)

    def _evaluate(self, step: int, state: TrainState) -> None:
        params = averaged_params(state.params, state.opt_state)
        with self.stop.immediately():
            metrics = {name: float(v) for name, v in self.evaluate(params).items()}
        config, books = self.config, self.books
        gained = books.record(step, metrics, config.monitor, config.mode, config.patience)
        self.log.evaluation(step, metrics, gained)
        if gained:
            # Complete on disk before `last` says so: a kill in between repeats this evaluation.
            self.checkpoints.save_best(params, step, books.to_json())
