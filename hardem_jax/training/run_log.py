"""What a run says and writes while it goes on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import jax

from hardem_jax.training.bookkeeping import Bookkeeping
from hardem_jax.training.config import LoopConfig
from hardem_jax.training.writers import Display, MetricsWriter, format_metrics


class RunLog:
    """Averages, files and display together; only the first host writes and shows."""

    def __init__(self, directory: Path, config: LoopConfig, start: int, books: Bookkeeping) -> None:
        primary = jax.process_index() == 0
        self._config, self._books = config, books
        self._writer = MetricsWriter(directory, start, config.tensorboard) if primary else None
        self._display = Display(config.num_steps, start, config.shown, config.progress and primary)
        self._since, self._steps = time.monotonic(), 0
        if start:
            ended = books.stopped_early or start >= config.num_steps
            self._display.say(f"{'found ended' if ended else 'resumed'} at step {start}")

    def first_step(self, seconds: float) -> None:
        """Says how long it took and starts the clock anew, so that no rate includes compilation."""
        self._display.say(f"first step: {seconds:.1f} s, compilation included")
        self._since, self._steps = time.monotonic(), 0

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """Adds one step to the averages; writes them when due."""
        averager = self._books.averager
        averager.add(metrics)
        self._steps += 1
        self._display.advance()
        if step % self._config.log_every and step != self._config.num_steps:
            return
        now = time.monotonic()
        rate = self._steps / max(now - self._since, 1e-9)
        means = {**averager.means(), "steps_per_second": rate}
        self._since, self._steps = now, 0
        averager.reset()
        self._display.averages(step, means)
        if self._writer is not None:
            self._writer.write(step, "train", means)

    def evaluation(self, step: int, metrics: Mapping[str, float], gained: bool) -> None:
        best = "  (best so far)" if gained else ""
        self._display.say(f"step {step} evaluation  {format_metrics(metrics)}{best}")
        if self._writer is not None:
            self._writer.write(step, "eval", metrics)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Keeps evaluations and checkpoints out of the step rate."""
        began = time.monotonic()
        yield
        self._since += time.monotonic() - began

    def close(self) -> None:
        self._display.close()
        if self._writer is not None:
            self._writer.close()
