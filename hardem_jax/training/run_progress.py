"""Progress of a run: running averages, best metric, early stopping and evaluation history."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, Self

from hardem_jax.errors import InputError
from hardem_jax.training.grad_accumulation import Mean


@dataclasses.dataclass
class Averager:
    """Running means of scalar metrics over the steps since the last `reset`.

    A `Mean` is averaged over its own count, and left out while that is 0. All fields are stored
    with every checkpoint, so a resumed run writes the same averages as an uninterrupted one.

    Example:
        >>> averager = Averager()
        >>> averager.add({"loss": 1.0}); averager.add({"loss": 2.0})
        >>> averager.means()
        {'loss': 1.5}
        >>> averager.add({"loss": 3.0, "rank": Mean(6.0, 2.0)}); averager.means()
        {'loss': 2.0, 'rank': 3.0}
    """

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
    """The training loop's own state, stored with every checkpoint as JSON.

    Attributes:
        best_metric: best value of the monitored metric so far; None before the first evaluation.
        best_step: step at which it was reached.
        evaluations_without_gain: evaluations since then.
        stopped_early: patience has run out; a resumed run continues only with more of it.
        history: one entry per evaluation: `step` and the metrics.
        averager: training metrics since the last line of `metrics.jsonl`.

    Example:
        >>> progress = RunProgress()
        >>> progress.record(10, {"EM": 30.0}, "EM", "max", patience=1)
        True
        >>> progress.record(20, {"EM": 30.0}, "EM", "max", patience=1), progress.stopped_early
        (False, True)
    """

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
        """Records one evaluation and returns whether it is the best so far.

        An equal value or NaN is not a gain. After `patience` evaluations in a row without a
        gain, `stopped_early` is set.

        Raises:
            InputError: if the monitored metric is not among `metrics`.
        """
        if monitor not in metrics:
            raise InputError(
                f"monitor: expected a metric of the evaluation ({', '.join(sorted(metrics))}), "
                f"found {monitor!r}"
            )
        value = metrics[monitor]
        self.history.append({"step": step, **metrics})
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
        """Returns the fields as nested dicts of JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`."""
        return cls(**{**values, "averager": Averager(**values["averager"])})
