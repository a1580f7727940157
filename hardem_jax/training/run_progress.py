"""What a run remembers between evaluations: the best one, patience, the history."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, Self

from hardem_jax.errors import InputError
from hardem_jax.training.writers import Averager


@dataclasses.dataclass
class Bookkeeping:
    """The loop's own state, stored with every checkpoint as JSON.

    Attributes:
        best_metric: best value of the monitored metric so far, None before the first evaluation.
        best_step: updates made when it was reached.
        evaluations_without_gain: evaluations since then.
        stopped_early: patience has run out; a resumed run must not go on.
        history: one entry per evaluation: `step` and the metrics.
        averager: training metrics since the last line of `metrics.jsonl`.

    Example:
        >>> books = Bookkeeping()
        >>> books.record(10, {"EM": 30.0}, "EM", "max", patience=1)
        True
        >>> books.record(20, {"EM": 30.0}, "EM", "max", patience=1), books.stopped_early
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
        """Enters one evaluation; returns whether it is the best so far.

        An equal value and NaN are no gain. With `patience` evaluations in a row
        without one, the run is marked as stopped, at this evaluation and not
        at the end of an epoch.

        Raises:
            InputError: if the monitored metric is not among `metrics`.
        """
        if monitor not in metrics:
            raise InputError(f"monitor: evaluation has no {monitor!r}, only {sorted(metrics)}")
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
        self.stopped_early = patience is not None and self.evaluations_without_gain >= patience
        return gained

    def evaluated(self, step: int) -> bool:
        """Whether the last evaluation was that of this step."""
        return bool(self.history) and self.history[-1]["step"] == step

    def to_json(self) -> dict[str, Any]:
        """Nested dicts of JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`."""
        return cls(**{**values, "averager": Averager(**values["averager"])})
