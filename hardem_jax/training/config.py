"""Configuration of training; importing it is cheap enough to parse a command line."""

from __future__ import annotations

import dataclasses
from typing import Literal

from hardem_jax.errors import InputError, require
from hardem_jax.training.fingerprint import may_change

#: Whether to join other processes: "auto" joins when the environment names some, "on" always, "off"
#: never.
Joining = Literal["auto", "on", "off"]


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


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with linear warmup, linear decay and global-norm clipping (Devlin et al., 2019, A.3).

    Other values give the optimiser of QANet (Yu et al., 2018, section 4.1.1): a constant rate
    and an average of the parameters.

    Example:
        >>> OptimizerConfig(learning_rate=3e-5).weight_decay
        0.01
        >>> OptimizerConfig(clip_norm=0.0)
        Traceback (most recent call last):
        ...
        hardem_jax.errors.InputError: clip_norm: expected more than 0, found 0.0
    """

    learning_rate: float = 5e-5
    """Peak learning rate, reached at the end of the warmup."""
    warmup_fraction: float = 0.1
    """Share of the run's steps over which the rate rises linearly from 0."""
    weight_decay: float = 0.01
    """Decoupled decay, times the learning rate; not applied to biases, LayerNorm and word
    vectors."""
    clip_norm: float | None = 1.0
    """Largest Euclidean norm of the whole gradient, all tensors together; None: no clipping."""
    b1: float = 0.9
    """Decay rate of the first moment."""
    b2: float = 0.999
    """Decay rate of the second moment."""
    eps: float = 1e-6
    """Added to the root of the second moment."""
    rate_multipliers: tuple[tuple[str, float], ...] = ()
    """(name prefix, factor) pairs, e.g. `(("encoder", 0.1),)`: factor on the update of every
    parameter whose dotted name starts with the prefix; 0 freezes it; the first match counts."""
    schedule: Literal["linear", "constant"] = "linear"
    """After the warmup: linear decay to 0, or the peak rate to the end."""
    ema_decay: float | None = None
    """Decay of an average of the parameters, see `optimizer.average_params`. Evaluation, the best
    checkpoint and whoever loads a checkpoint use the average; None: there is none."""

    def __post_init__(self) -> None:
        require(self, "learning_rate", "clip_norm", "eps", above=0)
        require(self, "weight_decay", at_least=0)
        require(self, "warmup_fraction", "b1", "b2", "ema_decay", at_least=0, below=1)
        for _, factor in self.rate_multipliers:
            if not 0 <= factor < float("inf"):
                found = self.rate_multipliers
                raise InputError(f"rate_multipliers: expected factors of at least 0, found {found}")
        if self.schedule not in ("linear", "constant"):
            raise InputError(f"schedule: expected 'linear' or 'constant', found {self.schedule!r}")
