"""What a run keeps about itself, without jax: averages, the best metric, and `metrics.jsonl`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from hardem_jax.errors import InputError
from hardem_jax.training.config import METRICS_FILE


class Mean(NamedTuple):
    """A metric that is a mean over some of the items only, such as those whose true z is known.
    Totals and counts are added up over micro-batches and over the steps of a log line, so a step
    with few such items weighs little, and one without any adds nothing."""

    total: Any
    count: Any

    def __float__(self) -> float:
        return float(self.total) / float(self.count) if self.count else float("nan")


@dataclasses.dataclass
class Averager:
    """Running means of scalar metrics over the steps since the last `reset`. A `Mean` is averaged
    over its own count, and left out while that is 0. All fields are stored with every checkpoint,
    so a resumed run writes the same averages as an uninterrupted one."""

    sums: dict[str, float] = dataclasses.field(default_factory=dict)
    count: int = 0
    counts: dict[str, float] = dataclasses.field(default_factory=dict)

    def add(self, metrics: Mapping[str, float | Mean]) -> None:
        for name, value in metrics.items():
            if isinstance(value, Mean):
                self.counts[name] = self.counts.get(name, 0.0) + value.count
                value = value.total
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.count += 1

    def means(self) -> dict[str, float]:
        counts = {name: self.counts.get(name, self.count) for name in self.sums}
        return {name: self.sums[name] / count for name, count in counts.items() if count}

    def reset(self) -> None:
        self.sums, self.count, self.counts = {}, 0, {}


@dataclasses.dataclass
class RunProgress:
    """The training loop's own state, stored with every checkpoint as JSON. `history` has one entry
    per evaluation, `averager` the training metrics since the last line of `metrics.jsonl`. With
    more patience, a run that has stopped early goes on."""

    best_metric: float | None = None
    best_step: int = 0
    evaluations_without_gain: int = 0
    stopped_early: bool = False
    history: list[dict[str, float]] = dataclasses.field(default_factory=list)
    averager: Averager = dataclasses.field(default_factory=Averager)

    def record(
        self,
        step: int,
        metrics: Mapping[str, float],
        monitor: str,
        mode: Literal["max", "min"],
        patience: int | None,
    ) -> bool:
        """Records one evaluation and returns whether it is the best so far. An equal value or NaN
        is no gain. After `patience` evaluations in a row without a gain, `stopped_early` is set."""
        if monitor not in metrics:
            raise InputError(
                f"monitor: expected a metric of the evaluation ({', '.join(sorted(metrics))}), "
                f"found {monitor!r}"
            )
        value = metrics[monitor]
        self.history.append({**metrics, "step": step})
        if self.best_metric is None:
            gained = value == value  # False for NaN
        else:
            gained = value > self.best_metric if mode == "max" else value < self.best_metric
        if gained:
            self.best_metric, self.best_step, self.evaluations_without_gain = value, step, 0
        else:
            self.evaluations_without_gain += 1
        self.apply_patience(patience)
        return gained

    def apply_patience(self, patience: int | None) -> None:
        """Decides whether the run has stopped early; with None it never does."""
        self.stopped_early = patience is not None and self.evaluations_without_gain >= patience

    def evaluated(self, step: int) -> bool:
        """Returns whether the last evaluation was at this step."""
        return bool(self.history) and self.history[-1]["step"] == step

    def to_json(self) -> dict[str, Any]:
        """The fields as nested dicts of JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`."""
        return cls(**{**values, "averager": Averager(**values["averager"])})


def read_metrics(run_dir: Path) -> list[dict[str, Any]]:
    """All records of a run's `metrics.jsonl`, except a last one that was never completed."""
    path = run_dir / METRICS_FILE
    with path.open("rb") as file:
        return [record for record, _ in _records(file, path)]


def truncate_metrics(path: Path, step: int, evaluated: bool = True) -> None:
    """Truncates `metrics.jsonl` to the lines of steps up to `step`.

    Later lines, the last one possibly incomplete, are of a process that was killed after its last
    checkpoint. The resumed run writes them again. It also repeats the evaluation of this step
    unless the checkpoint includes it (``evaluated``).
    """
    if not path.exists():
        return
    keep = 0
    with path.open("r+b") as file:
        for record, size in _records(file, path):
            repeated = not evaluated and record["step"] == step and record["kind"] == "eval"
            if record["step"] > step or repeated:
                break
            keep += size
        file.truncate(keep)


def _records(lines: Iterable[bytes], path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Records with their size in bytes, up to a line that was never completed."""
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            break
        try:
            record = json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}: line {number}: expected JSON, found {error}") from error
        yield record, len(line)
