"""Where metrics go: averages, `metrics.jsonl`, TensorBoard, and the terminal."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import rich.console
import rich.progress

METRICS_FILE = "metrics.jsonl"


@dataclasses.dataclass
class Averager:
    """Running means of scalar metrics over the steps since the last `reset`.

    Its two fields are stored with a checkpoint: a resumed run then writes the
    same averages as one that was never interrupted.

    Example:
        >>> averager = Averager()
        >>> averager.add({"loss": 1.0}); averager.add({"loss": 2.0})
        >>> averager.means()
        {'loss': 1.5}
    """

    sums: dict[str, float] = dataclasses.field(default_factory=dict)
    count: int = 0

    def add(self, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.count += 1

    def means(self) -> dict[str, float]:
        return {name: total / self.count for name, total in self.sums.items()}

    def reset(self) -> None:
        self.sums, self.count = {}, 0


def truncate_metrics(path: Path, step: int, evaluated: bool = True) -> None:
    """Cuts a `metrics.jsonl` after its last line of a step <= `step`.

    Lines of later steps come from a process that was killed after its last
    checkpoint (the last of them perhaps cut in two); they will be written again.

    Args:
        path: the file; may be missing.
        step: updates that the checkpoint holds.
        evaluated: whether it holds an evaluation of this step, if there is a line of one.
    """
    if not path.exists():
        return
    keep = 0
    with path.open("r+b") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            entry = json.loads(line)
            again = not evaluated and entry["step"] == step and entry["kind"] == "eval"
            if entry["step"] > step or again:
                break
            keep += len(line)
        file.truncate(keep)


class MetricsWriter:
    """Appends one JSON object per line to `metrics.jsonl`; TensorBoard curves on request.

    Each line has `step` (updates made), `kind` (`train`: means over the steps
    since the last such line; `eval`; `start`: times of this process's first step) and the
    metrics.

    Args:
        directory: the run's folder; must exist.
        resume_step: step the run continues from; lines after it are cut away.
        evaluated: see `truncate_metrics`.
        tensorboard: also write event files under `<directory>/tensorboard`.
    """

    def __init__(
        self,
        directory: Path,
        resume_step: int = 0,
        evaluated: bool = True,
        tensorboard: bool = False,
    ) -> None:
        path = directory / METRICS_FILE
        truncate_metrics(path, resume_step, evaluated)
        self._file = path.open("a", encoding="utf-8")
        self._board = None
        if tensorboard:
            # Only here: the import takes a while, and most runs need no curves.
            from tensorboardX import SummaryWriter

            self._board = SummaryWriter(str(directory / "tensorboard"), purge_step=resume_step + 1)

    def write(self, step: int, kind: str, metrics: Mapping[str, float]) -> None:
        """Writes and flushes one line, so that a killed process loses none.

        Raises:
            OSError: the disk is full, say; names the file.
        """
        try:
            self._file.write(json.dumps({"step": step, "kind": kind, **metrics}) + "\n")
            self._file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._file.name) from error
        if self._board is not None:
            for name, value in metrics.items():
                self._board.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        # What could not be written has been raised by `write`.
        with contextlib.suppress(OSError):
            self._file.close()
        if self._board is not None:
            self._board.close()


def format_metrics(metrics: Mapping[str, float]) -> str:
    """Short text of metrics.

    Example:
        >>> format_metrics({"loss": 0.123456, "EM": 51.0})
        'loss 0.1235  EM 51'
    """
    return "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())


class Display:
    """What a person sees on stderr: a bar in a terminal, plain lines elsewhere, nothing if off.

    Args:
        num_steps: of the whole run.
        start: steps already made (a resumed run).
        labels: (metric name, label) pairs: the averages to show, where the task has them.
        on: False shows nothing.
    """

    def __init__(
        self, num_steps: int, start: int, labels: tuple[tuple[str, str], ...], on: bool
    ) -> None:
        self._num_steps, self._labels, self._on = num_steps, labels, on
        console = rich.console.Console(file=sys.stderr)
        self._bar: rich.progress.Progress | None = None
        if on and console.is_terminal:
            self._bar = rich.progress.Progress(
                rich.progress.TextColumn("step"),
                rich.progress.MofNCompleteColumn(),
                rich.progress.BarColumn(),
                rich.progress.TimeRemainingColumn(),
                rich.progress.TextColumn("{task.fields[shown]}"),
                console=console,
            )
            self._task = self._bar.add_task("", total=num_steps, completed=start, shown="")
            self._bar.start()

    def advance(self) -> None:
        """One step is done."""
        if self._bar is not None:
            self._bar.advance(self._task)

    def averages(self, step: int, metrics: Mapping[str, float]) -> None:
        """New averages: beside the bar, or as a line with the time left."""
        shown = {label: metrics[name] for name, label in self._labels if name in metrics}
        rate = metrics["steps_per_second"]
        text = f"{rate:.3g} steps/s  {format_metrics(shown)}"
        if self._bar is not None:
            self._bar.update(self._task, shown=text)
        else:
            left = (self._num_steps - step) / rate
            self.say(f"step {step}/{self._num_steps}  {text}  {_duration(left)} left")

    def say(self, text: str) -> None:
        """One line: above the bar, or plain."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        elif self._on:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
