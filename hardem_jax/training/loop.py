"""Training loop with evaluation, early stopping, checkpoints and exact resumption."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import grain
import jax
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from hardem_jax.buckets.names import address
from hardem_jax.errors import TERMINATION, InputError, Stopped, found_by
from hardem_jax.locks import locked
from hardem_jax.training.checkpoints import RunCheckpoints
from hardem_jax.training.config import LoopConfig
from hardem_jax.training.distributed import is_primary, primary_decides
from hardem_jax.training.fingerprint import named_settings
from hardem_jax.training.fsdp import all_gather_params
from hardem_jax.training.mesh import data_mesh, place_batch
from hardem_jax.training.metrics_log import RunLog, token_cost
from hardem_jax.training.optimizer import (
    OptimizerConfig,
    averaged_params,
    learning_rate_schedule,
    make_optimizer,
)
from hardem_jax.training.run_progress import RunProgress
from hardem_jax.training.state import TrainState, current_shardings, init_state
from hardem_jax.training.step import LossFn, compile_train_step, make_train_step

#: Called after an evaluation with the step and the parameters; again if the run was killed there.
Observe = Callable[[int, Any], None]
#: Params on the mesh -> metrics. The next step donates these arrays: keep no reference to them.
Evaluate = Callable[[Any], Mapping[str, float]]


class Batch(Protocol):
    """A batch on the host, such as `hardem_jax.data.batching.padding.Batch`."""

    @property
    def ids(self) -> Sequence[str]:
        """Example ids for error messages; may be empty."""
        ...

    @property
    def arrays(self) -> Mapping[str, Any]:
        """Names to numpy arrays `[B, ...]` or scalars."""
        ...


class NonFiniteLossError(FloatingPointError):
    """The loss or its gradient became infinite or NaN; no later state was saved."""

    def __init__(self, step: int, ids: Sequence[str], metrics: Mapping[str, float]) -> None:
        ids = [name for name in dict.fromkeys(ids) if name]  # unique; padded rows have no id
        self.step, self.ids, self.metrics = step, ids, dict(metrics)
        examples = ", ".join(ids[:8]) + (f" and {len(ids) - 8} more" if len(ids) > 8 else "")
        super().__init__(
            f"step {step}: loss {metrics['loss']}, gradient norm {metrics['grad_norm']}; "
            f"examples in the batch: {examples or 'no ids given'}"
        )


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """Result of `train`.

    Attributes:
        state: state after the last step; see `averaged_params` for its parameter average.
        best_metric: best value of the monitored metric; None if it was never a number.
        best_step: step at which it was reached; its parameters are in `<directory>/best`.
        stopped_early: patience ran out before `num_steps`.
        history: one entry per evaluation, including those before a resumption.
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
    memory: Mapping[str, Any] | None = None,
    params_per_token: int | None = None,
    example_batches: Sequence[Batch] = (),
    metric_names: Collection[str] | None = None,
    on_new_run: Callable[[], None] | None = None,
    observe: Observe | None = None,
) -> TrainResult:
    """Starts or resumes the run in `directory`.

    A killed run that is started again with the same arguments resumes from its last checkpoint
    with bitwise identical results; a finished run returns its result. On SIGTERM, SIGUSR1,
    SIGHUP or Ctrl-C the run stops after the step in flight and saves a checkpoint.

    Args:
        loss_fn: see `LossFn`.
        params: initial values, a pytree of arrays of floats; not modified.
        optimizer: see `OptimizerConfig`.
        batches: fresh iterator over the `Batch`es of a repeating Grain dataset, which a resumed run
            finds its place in again.
        evaluate: maps parameters (on `mesh`; their average, if the optimiser keeps one), and
            nothing else that changes during the run, to metrics.
        config: see `LoopConfig`.
        directory: the run's folder: `last/`, `best/`, `metrics.jsonl`; locked during the run.
        mesh: defaults to all devices.
        fingerprint: settings besides `config` and `optimizer`; a run is not resumed with others.
        accumulate: micro-batches k of a step; above 1, arrays of a batch are `[k, R, ...]`.
        memory: what a loss with a memory (`TrainState.memory`) knows about each training input
            before the first step; batches then have the entry `item`.
        params_per_token: parameters that a token passes through; with it, and a metric `tokens`,
            the log holds `mfu` on devices of known peak.
        example_batches: any content in the shapes to expect, for which the step is compiled, in
            parallel, while the first batches are read; others are compiled on first use.
        metric_names: metrics that `evaluate` may return, to check the monitored one at first.
        on_new_run: called in the primary process before the first step of a new run, when the
            folder is still empty.
        observe: records what the metrics of an evaluation do not hold.

    Raises:
        InputError: if the folder holds another run, another process uses it, all its checkpoints
            are damaged, the batches end too soon, the monitored metric does not exist, or the rows
            of a batch cannot be divided evenly among the devices.
        NonFiniteLossError: if a loss or gradient is not finite.
        Stopped: after SIGTERM, SIGUSR1, SIGHUP or Ctrl-C; a `KeyboardInterrupt`.
        OSError: if the disk is full; the last complete checkpoint is kept.

    Example:
        >>> import tempfile
        >>> import jax.numpy as jnp
        >>> import numpy as np
        >>> from hardem_jax.data.batching.padding import Batch
        >>> def loss_fn(params, batch, *, step, key, dropout_key):
        ...     return jnp.mean((params["w"] - batch["x"]) ** 2), {}
        >>> data = grain.MapDataset.source([1.0, 3.0]).repeat()
        >>> data = data.batch(2, batch_fn=lambda x: Batch(["a", "b"], {"x": np.array(x)}))
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
    _check(directory, config.monitor, metric_names)
    mesh = data_mesh() if mesh is None else mesh
    transform = make_optimizer(optimizer, params, config.num_steps)
    schedule = learning_rate_schedule(optimizer, config.num_steps)
    state = init_state(params, transform, config.seed, mesh, memory)
    gathered_loss = all_gather_params(loss_fn, mesh)
    step = make_train_step(gathered_loss, transform, schedule, accumulate=accumulate)
    train_step = compile_train_step(step, mesh, current_shardings(state))
    settings = {
        **named_settings(config, "loop"),
        **named_settings(optimizer, "optimizer"),
        "accumulate": str(accumulate),
        **(fingerprint or {}),
    }
    directory = Path(directory)
    progress = RunProgress()
    with (
        _locked_folder(directory),
        RunCheckpoints(directory, settings) as checkpoints,
        _stop_signals() as stop,
    ):
        with stop.immediately():
            restored = checkpoints.restore(state, batches)
        if restored is not None:
            state, progress = restored[0], RunProgress.from_json(restored[1])
            if progress.evaluated(int(state.step)):  # otherwise the next evaluation decides
                progress.apply_patience(config.patience)  # which may have changed
        elif on_new_run is not None and is_primary():
            on_new_run()
        cost = token_cost(params_per_token, mesh)
        log = RunLog(directory, config, int(state.step), progress, began, cost)
        with contextlib.closing(log):
            run = _Run(
                train_step=train_step,
                batches=batches,
                place=functools.partial(place_batch, mesh=mesh, accumulate=accumulate),
                evaluate=evaluate,
                observe=observe,
                config=config,
                checkpoints=checkpoints,
                progress=progress,
                log=log,
                stop=stop,
            )
            state = run.finish(state, example_batches)
    if run.stopping or stop.signum is not None:  # also during the last checkpoint
        raise stop.stopped(
            f" after step {int(state.step)}; a checkpoint was saved, run the same command to resume"
        )
    return TrainResult(
        state, progress.best_metric, progress.best_step, progress.stopped_early, progress.history
    )


def _check(directory: str | Path, monitor: str, metric_names: Collection[str] | None) -> None:
    if metric_names is not None and monitor not in metric_names:
        raise InputError(
            f"--loop.monitor: expected one of {', '.join(sorted(metric_names))}, found {monitor!r}"
        )
    if address(directory) is not None:
        raise InputError(f"{directory}: expected a folder on a disk; see hardem_jax.buckets.mirror")


@contextlib.contextmanager
def _locked_folder(directory: Path) -> Iterator[None]:
    """Creates and locks the run's folder; if the primary process cannot, all processes fail."""
    with contextlib.ExitStack() as stack:

        def lock() -> int:
            try:
                directory.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(directory))
            except OSError as error:
                raise InputError(
                    f"{directory}: expected a folder to write the run to, found {found_by(error)}"
                ) from error
            return 0

        primary_decides(lock)
        yield


@dataclasses.dataclass(kw_only=True)
class _Run:
    """A run in progress; `finish` is the training loop."""

    train_step: Any
    batches: grain.DatasetIterator
    place: Callable[[Mapping[str, Any]], Any]
    evaluate: Evaluate
    observe: Observe | None
    config: LoopConfig
    checkpoints: RunCheckpoints
    progress: RunProgress
    log: RunLog
    stop: _StopSignals
    stopping: bool = False

    def finish(self, state: TrainState, example_batches: Sequence[Batch]) -> TrainState:
        """Runs the remaining steps; `step` counts updates, including the current one."""
        config, first = self.config, int(state.step) + 1
        if self._evaluation_due(first - 1):  # the run was stopped before or during this evaluation
            self._evaluate_and_save(first - 1, state)
        if self.stopping or self.progress.stopped_early or first > config.num_steps:
            return state
        with self.stop.immediately():
            compiling = self._compile_ahead(state, example_batches)
        pending = None
        for step in range(first, config.num_steps + 1):
            began = time.monotonic()
            # The device is still computing the previous step while this batch is read and placed.
            ids, batch = self._next_batch(step)
            state, metrics = self.train_step(state, batch)
            # Fetch the previous metrics only now that this step is queued: the device never idles.
            if pending is not None:
                self._log_step(*pending)
            pending = (step, ids, metrics)
            self.stopping = self.stop.requested(step)
            save = (
                self.stopping or self._evaluation_due(step) or step % config.checkpoint_every == 0
            )
            if step == first or save:
                self._log_step(*pending)
                pending = None
            if step == first:
                self.log.first_step(step, compiling, time.monotonic() - began)
            if save:
                with self.log.paused():
                    self._evaluate_and_save(step, state)
            if self.stopping or self.progress.stopped_early:
                break
        return state

    def _compile_ahead(self, state: TrainState, example_batches: Sequence[Batch]) -> float:
        """Compiles the step for these shapes while batches are prefetched; returns seconds."""
        began = time.monotonic()
        if not example_batches:
            return 0.0
        self.log.compiling(len(example_batches))
        with self.log.paused():
            self.batches.start_prefetch()
            placed = [self.place(example.arrays) for example in example_batches]
            lowered = [self.train_step.lower(state, arrays) for arrays in placed]
            # XLA releases the GIL while compiling, so threads are enough.
            with ThreadPoolExecutor(min(len(lowered), os.cpu_count() or 1)) as pool:
                list(pool.map(lambda step: step.compile(), lowered))
        return time.monotonic() - began

    def _evaluation_due(self, step: int) -> bool:
        due = step == self.config.num_steps or step > 0 and step % self.config.eval_every == 0
        return due and not self.progress.evaluated(step)

    def _evaluate_and_save(self, step: int, state: TrainState) -> None:
        """Saves a checkpoint, evaluating first if that is due and the run is not stopping."""
        progress = self.progress.to_json()
        if self._evaluation_due(step) and not self.stopping:
            try:
                self._evaluate(step, state)
                progress = self.progress.to_json()
            except Stopped:
                self.stopping = True
            except Exception:
                # The steps are not at fault. Several processes may not all have failed.
                if jax.process_count() == 1:
                    self.checkpoints.save_last(state, self.batches, progress)
                raise
        self.checkpoints.save_last(state, self.batches, progress)

    def _next_batch(self, step: int) -> tuple[Sequence[str], Any]:
        """Returns example ids and placed arrays, timed as input wait."""
        try:
            with self.log.waiting():
                batch: Batch = next(self.batches)
                return batch.ids, self.place(batch.arrays)
        except StopIteration:
            raise InputError(
                f"the batches ended after {step - 1} of {self.config.num_steps} steps; "
                "expected a repeating dataset"
            ) from None

    def _log_step(self, step: int, ids: Sequence[str], metrics: Mapping[str, jax.Array]) -> None:
        values = jax.tree.map(float, jax.device_get(metrics))
        if not values.pop("finite"):
            raise NonFiniteLossError(step, ids, values)
        self.log.step(step, values)

    def _evaluate(self, step: int, state: TrainState) -> None:
        params = averaged_params(state.params, state.opt_state)
        with self.stop.immediately():
            metrics = {name: float(value) for name, value in self.evaluate(params).items()}
            if self.observe is not None:
                self.observe(step, params)
        config, progress = self.config, self.progress
        gained = progress.record(step, metrics, config.monitor, config.mode, config.patience)
        self.log.evaluation(step, metrics, gained)
        if gained:
            # Must be complete before `last` refers to it: a stop in between repeats the evaluation.
            self.checkpoints.save_best(params, step, progress.to_json())


#: A scheduler may signal a whole group of processes, and the one that started a training, it again.
#: Signals so close to the first, in seconds, are the same request.
_SAME_REQUEST = 1.0


class _StopSignals:
    """Records stop requests; created by `_stop_signals`."""

    def __init__(self) -> None:
        self.signum: int | None = None
        self._since = 0.0
        self._immediately = False

    def requested(self, step: int) -> bool:
        """Whether to stop after this step; all processes get the same answer. With several
        processes, JAX's preemption service picks a step that all of them reach."""
        if jax.process_count() == 1:
            return self.signum is not None
        if not getattr(jax.config, "jax_enable_preemption_service", False):
            return False
        reached = multihost_utils.reached_preemption_sync_point(step)
        if reached and self.signum is None:
            self.signum = signal.SIGTERM
        return reached

    @contextlib.contextmanager
    def immediately(self) -> Iterator[None]:
        """Makes a signal raise `Stopped` within the body, which has no progress to lose. With
        several processes it has no effect, because they could not agree on where to stop."""
        if jax.process_count() > 1:
            yield
            return
        if self.signum is not None:
            raise self.stopped("")
        self._immediately = True
        try:
            yield
        finally:
            self._immediately = False
        if self.signum is not None:  # raised in a finalizer, where exceptions are lost
            raise self.stopped("")

    def stopped(self, message: str) -> Stopped:
        """Returns the exception that ends the run."""
        signum = signal.SIGTERM if self.signum is None else self.signum
        return Stopped(signum, f"stopped by {signal.Signals(signum).name}{message}", recorded=True)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self.signum is not None:  # a second request stops the run immediately
            if time.monotonic() - self._since < _SAME_REQUEST:
                return
            raise Stopped(signum, f"stopped by {signal.Signals(signum).name} at once")
        self.signum, self._since = signum, time.monotonic()
        if jax.process_count() > 1:
            # JAX's own SIGTERM handler notifies the other processes.
            signal.raise_signal(signal.SIGTERM)
        elif self._immediately:
            raise self.stopped("")


@contextlib.contextmanager
def _stop_signals() -> Iterator[_StopSignals]:
    """Handles `TERMINATION` and SIGINT while the body runs; a second request ends it at once.
    Outside the main thread, where Python allows no signal handlers, it changes nothing."""
    stop = _StopSignals()
    # With several processes SIGTERM belongs to JAX's preemption service.
    owned = {signal.SIGTERM} if jax.process_count() > 1 else set()
    handled = [signum for signum in (signal.SIGINT, *TERMINATION) if signum not in owned]
    if threading.current_thread() is not threading.main_thread():
        handled = []
    before = {signum: signal.signal(signum, stop._handle) for signum in handled}
    try:
        yield stop
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
