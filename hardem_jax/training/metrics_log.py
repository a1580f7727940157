"""The log of a run: averages and timings in `metrics.jsonl`, TensorBoard and the terminal."""

from __future__ import annotations

import contextlib
import datetime
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import jax
from jax.sharding import Mesh

from hardem_jax.training.config import METRICS_FILE, LoopConfig
from hardem_jax.training.run_progress import Mean, RunProgress, truncate_metrics
from hardem_jax.training.step import ITEMS, TOKENS

#: What a `device_kind` begins with -> 10^12 bf16 operations per second of one device, without
#: sparsity. A TPU v3 has two devices per chip, the others one. TPUs: cloud.google.com/tpu/docs,
#: pages of system architecture; GPUs: data sheets of the largest SXM boards.
PEAK_TFLOPS = {
    "TPU v3": 61.5,
    "TPU v4": 275.0,
    "TPU v5 lite": 197.0,
    "TPU v5e": 197.0,
    "TPU v5": 459.0,  # so v5p calls itself
    "TPU v6 lite": 918.0,
    "TPU v6e": 918.0,
    "NVIDIA A100": 312.0,
    "NVIDIA H100": 989.0,
    "NVIDIA H200": 989.0,
    "NVIDIA B200": 2250.0,
}


class RunLog:
    """Logs metrics and timings; only the primary process writes and displays.

    ``metrics.jsonl`` gets a line of `step`, `kind` and metrics for each call: ``train``, means over
    the steps since the previous such line; ``eval``, of an evaluation; ``start``, timings of this
    process's first step. TensorBoard files lie below ``tensorboard``.

    Args:
        directory: the run's folder; must exist.
        config: see `LoopConfig`.
        start: updates made before this process started.
        progress: holds the running averages, and tells whether the run had already ended.
        began: `clock()` when `train` was called.
        token_cost: seconds that a token needs from all devices at their peak; None if unknown.
        clock: seconds from an arbitrary origin.
    """

    def __init__(
        self,
        directory: Path,
        config: LoopConfig,
        start: int,
        progress: RunProgress,
        began: float,
        token_cost: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        primary = jax.process_index() == 0
        self._token_cost = token_cost
        self._config, self._progress, self._began, self._clock = config, progress, began, clock
        self._file: TextIO | None = None
        self._board: Any = None
        if primary:
            path = directory / METRICS_FILE
            truncate_metrics(path, start, progress.evaluated(start))
            self._file = path.open("a", encoding="utf-8")
        if primary and config.tensorboard:
            # Imported here because it is slow and most runs need no curves.
            from tensorboardX import SummaryWriter

            # TensorBoard hides what was written after the step that a run continues from.
            self._board = SummaryWriter(str(directory / "tensorboard"), purge_step=start + 1)
        self._shows = config.progress and primary
        self._restart_clock()
        if start:
            ended = progress.stopped_early or start >= config.num_steps
            state = "run had already ended" if ended else "resumed"
            self._print(f"{state} at step {start}")

    def _restart_clock(self) -> None:
        self._since, self._steps, self._waited = self._clock(), 0, 0.0

    def compiling(self, shapes: int) -> None:
        """Says what is done before the first step, which may take minutes."""
        self._print(f"compiling the training step (shapes of batches: {shapes})")

    def first_step(self, step: int, compiling: float, first: float) -> None:
        """Logs start-up time, and resets the throughput clock so that rates exclude compilation.
        These are the seconds spent ``compiling`` ahead of the first batch, and those of the
        ``first`` step, from requesting its batch to its result."""
        total = self._clock() - self._began
        self._print(
            f"time to first step: {total:.1f} s (ahead-of-time compilation {compiling:.1f} s, "
            f"first step {first:.1f} s)"
        )
        times = {"time_to_first_step": total, "compiled_ahead": compiling, "first_step": first}
        self._write(step, "start", times)
        self._restart_clock()

    def step(self, step: int, metrics: Mapping[str, float | Mean]) -> None:
        """Adds one step to the averages and writes them when due."""
        averager = self._progress.averager
        averager.add(metrics)
        self._steps += 1
        if step % self._config.log_every and step != self._config.num_steps:
            return
        seconds = max(self._clock() - self._since, 1e-9)
        means = averager.means()
        means["steps_per_second"] = self._steps / seconds
        for counted in (ITEMS, TOKENS):
            if counted in means:
                means[f"{counted}_per_second"] = means[counted] * self._steps / seconds
        if TOKENS in means and self._token_cost is not None:
            means["mfu"] = means["tokens_per_second"] * self._token_cost
        means["input_wait"] = self._waited / seconds
        self._restart_clock()
        averager.reset()
        rate, steps = means["steps_per_second"], self._config.num_steps
        shown = {label: means[name] for name, label in self._config.shown if name in means}
        left = datetime.timedelta(seconds=round((steps - step) / rate))
        text = f"step {step}/{steps}  {rate:.3g} steps/s  {format_metrics(shown)}"
        self._print(f"{text}  {left} left")
        self._write(step, "train", means)

    def evaluation(self, step: int, metrics: Mapping[str, float], gained: bool) -> None:
        """Logs one evaluation; `gained` marks it as the best so far."""
        best = "  (best so far)" if gained else ""
        self._print(f"step {step} evaluation  {format_metrics(metrics)}{best}")
        self._write(step, "eval", metrics)

    def _print(self, text: str) -> None:
        if self._shows:
            print(text, file=sys.stderr, flush=True)

    def _write(self, step: int, kind: str, metrics: Mapping[str, float]) -> None:
        if self._file is not None:
            own = {"step": step, "kind": kind}  # first in the line, whatever metrics are called
            try:  # flushed, so that a killed process loses no line
                self._file.write(json.dumps(own | dict(metrics) | own) + "\n")
                self._file.flush()
            except OSError as error:
                raise OSError(error.errno, error.strerror, self._file.name) from error
        if self._board is not None:
            for name, value in metrics.items():
                self._board.add_scalar(f"{kind}/{name}", value, step)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Excludes the body (evaluation, checkpointing, compilation) from the rates."""
        began = self._clock()
        yield
        self._since += self._clock() - began

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Counts the body as time spent waiting for input."""
        began = self._clock()
        yield
        self._waited += self._clock() - began

    def close(self) -> None:
        """Closes the files; what could not be written has been raised already."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        if self._board is not None:
            self._board.close()


def format_metrics(metrics: Mapping[str, float]) -> str:
    """Formats metrics on one line, with four significant digits.

    Example:
        >>> format_metrics({"loss": 0.123456, "EM": 51.0})
        'loss 0.1235  EM 51'
    """
    return "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())


def token_cost(params_per_token: int | None, mesh: Mesh) -> float | None:
    """Seconds of all devices at their bf16 peak: 6 operations per parameter (Kaplan et al., 2020).
    That leaves out attention, a tenth for BERT-base at 512 tokens, and recomputation."""
    peak = peak_flops(mesh.devices.flatten().tolist())
    return None if peak is None or params_per_token is None else 6 * params_per_token / peak


def peak_flops(devices: Sequence[Any]) -> float | None:
    """Dense bf16 operations per second of all devices; None if the peak of one is unknown.

    Example:
        >>> import jax
        >>> print(peak_flops(jax.devices("cpu")))
        None
    """
    total = 0.0
    for device in devices:
        names = [name for name in PEAK_TFLOPS if device.device_kind.startswith(name)]
        if not names:
            return None
        # The longest name: "TPU v5 lite" also begins with "TPU v5".
        total += 1e12 * PEAK_TFLOPS[max(names, key=len)]
    return total
