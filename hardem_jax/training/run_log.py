"""What a run says about itself: averages and times, in `metrics.jsonl` and on the terminal."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import jax

from hardem_jax.training.config import LoopConfig
from hardem_jax.training.early_stopping import Bookkeeping
from hardem_jax.training.writers import Display, MetricsWriter, format_metrics


class RunLog:
    """Averages, files and display together; only the first process writes and shows.

    Args:
        directory: the run's folder; must exist.
        config: see `LoopConfig`.
        start: updates made before this process.
        books: holds the averages, and what is known of a run that had ended.
        began: `clock()` when the run was called for.
        clock: seconds from any beginning.
    """

    def __init__(
        self,
        directory: Path,
        config: LoopConfig,
        start: int,
        books: Bookkeeping,
        began: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        primary = jax.process_index() == 0
        self._config, self._books, self._began, self._clock = config, books, began, clock
        evaluated = books.evaluated(start)
        self._writer = None
        if primary:
            self._writer = MetricsWriter(directory, start, evaluated, config.tensorboard)
        self._display = Display(config.num_steps, start, config.shown, config.progress and primary)
        self._restart_clock()
        if start:
            ended = books.stopped_early or start >= config.num_steps
            self._display.say(f"{'found ended' if ended else 'resumed'} at step {start}")

    def _restart_clock(self) -> None:
        self._since, self._steps, self._waited = self._clock(), 0, 0.0

    def first_step(self, step: int, compiling: float, first: float) -> None:
        """Says how long the start took, and starts the clock anew: no rate includes compilation.

        Args:
            step: number of the first step of this process.
            compiling: seconds spent compiling before any batch was read.
            first: seconds of the step, from asking for its batch to its result.
        """
        total = self._clock() - self._began
        self._display.say(
            f"time to first step: {total:.1f} s (compiled ahead {compiling:.1f} s, "
            f"the step {first:.1f} s)"
        )
        times = {"time_to_first_step": total, "compiled_ahead": compiling, "first_step": first}
        if self._writer is not None:
            self._writer.write(step, "start", times)
        self._restart_clock()

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """Adds one step to the averages; writes them when due."""
        averager = self._books.averager
        averager.add(metrics)
        self._steps += 1
        self._display.advance()
        if step % self._config.log_every and step != self._config.num_steps:
            return
        seconds = max(self._clock() - self._since, 1e-9)
        rates = {"steps_per_second": self._steps / seconds, "input_wait": self._waited / seconds}
        means = {**averager.means(), **rates}
        self._restart_clock()
        averager.reset()
        self._display.averages(step, means)
        if self._writer is not None:
            self._writer.write(step, "train", means)

    def evaluation(self, step: int, metrics: Mapping[str, float], gained: bool) -> None:
        """One evaluation, and whether it is the best so far."""
        best = "  (best so far)" if gained else ""
        self._display.say(f"step {step} evaluation  {format_metrics(metrics)}{best}")
        if self._writer is not None:
            self._writer.write(step, "eval", metrics)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Keeps evaluations, checkpoints and compiling ahead out of the rates."""
        began = self._clock()
        yield
        self._since += self._clock() - began

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Counts as waiting for input."""
        began = self._clock()
        yield
        self._waited += self._clock() - began

    def close(self) -> None:
        """Closes file and display."""
        self._display.close()
        if self._writer is not None:
            self._writer.close()
