"""What a person chooses about the loop."""

from __future__ import annotations

import dataclasses
from typing import Literal

from hardem_jax.errors import require
from hardem_jax.training.fingerprint import may_change


@dataclasses.dataclass(frozen=True)
class LoopConfig:
    """How long to train, and what to do on the way.

    Example:
        >>> LoopConfig(num_steps=1000, monitor="EM").patience
        12
    """

    num_steps: int
    """Updates of the whole run; a learning rate with linear decay reaches 0 there."""
    monitor: str
    """Evaluation metric that decides which parameters are the best."""
    mode: Literal["max", "min"] = "max"
    """Whether the larger or the smaller value of `monitor` is better."""
    eval_every: int = 500
    """Steps between evaluations; there is one after the last step as well."""
    patience: int | None = may_change("decides when to stop, not what is computed", default=12)
    """Stop after this many evaluations in a row without a gain; None: never."""
    checkpoint_every: int = may_change("where a killed run resumes from", default=500)
    """Steps between checkpoints; there is one after every evaluation as well."""
    log_every: int = may_change("only logged", default=50)
    """Steps over which the training metrics of one log line are averaged."""
    seed: int = 42
    """Seed of everything random in the run: fresh parameters, the order of the data, dropout and
    annealing draws."""
    progress: bool = may_change("only shown", default=True)
    """Show progress on stderr."""
    tensorboard: bool = may_change("only logged", default=False)
    """Also write TensorBoard event files."""
    shown: tuple[tuple[str, str], ...] = may_change(
        "only shown",
        default=(
            ("loss", "loss"),
            ("hard", "hard share"),
            ("z_size", "mean |Z|"),
            ("real_tokens", "real tokens"),
            ("input_wait", "input wait"),
        ),
    )
    """(metric, label) pairs of the averages to show; metrics the task does not report are
    skipped."""

    def __post_init__(self) -> None:
        counts = ("num_steps", "eval_every", "checkpoint_every", "log_every", "patience")
        require(self, *counts, at_least=1)
        require(self, "seed", at_least=0, below=2**32)
