"""Training configuration; light to import, so that `--help` stays fast."""

from __future__ import annotations

import dataclasses
from typing import Literal

from hardem_jax.errors import InputError, require
from hardem_jax.training.fingerprint import may_change

#: Whether to initialise multi-process JAX: "auto" if the environment indicates other processes,
#: "on" always, "off" never.
DistributedMode = Literal["auto", "on", "off"]
#: After so many seconds without a heartbeat a process counts as dead, and the others end: JAX's own
#: default, for a host may be paused for a while, such as a machine that is moved.
HEARTBEAT_SECONDS = 100
#: In the folder of a run: its metrics, a JSON object per line.
METRICS_FILE = "metrics.jsonl"


@dataclasses.dataclass(frozen=True)
class LoopConfig:
    """Length of the run, evaluation, early stopping, checkpoints and logging.

    Example:
        >>> LoopConfig(num_steps=1000, monitor="EM").patience
        12
    """

    num_steps: int
    """Updates in the whole run; a linearly decaying learning rate reaches 0 after the last."""
    monitor: str
    """Evaluation metric that selects the best parameters."""
    mode: Literal["max", "min"] = "max"
    """Whether larger or smaller values of `monitor` are better."""
    eval_every: int = 500
    """Steps between evaluations; the last step is always evaluated."""
    patience: int | None = may_change("decides when to stop, not what is computed", default=12)
    """Stop after this many consecutive evaluations without improvement; None: never."""
    checkpoint_every: int = may_change("where a killed run resumes from", default=500)
    """Steps between checkpoints; every evaluation is followed by one as well."""
    log_every: int = may_change("only logged", default=50)
    """Steps between log lines; each line averages the training metrics since the previous one."""
    seed: int = 42
    """Seed for parameter initialisation, data order, dropout and annealing draws."""
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
            ("z_entropy", "entropy of z"),
            ("z_changed", "changed z"),
            ("z_true_rank", "rank of true z"),
            ("real_tokens", "real tokens"),
            ("tokens_per_second", "tokens/s"),
            ("mfu", "MFU"),
            ("input_wait", "input wait"),
        ),
    )
    """(metric, label) of the averages to show; metrics that a task does not report are skipped."""

    def __post_init__(self) -> None:
        counts = ("num_steps", "eval_every", "checkpoint_every", "log_every", "patience")
        require(self, *counts, at_least=1)
        require(self, "seed", at_least=0, below=2**32)


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with linear warmup, linear decay and global-norm clipping (Devlin et al., 2019, A.3).

    With a constant schedule and `ema_decay` it is the optimiser of QANet (Yu et al., 2018,
    section 4.1.1).

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
    """Fraction of the run's steps over which the learning rate rises linearly from 0."""
    weight_decay: float = 0.01
    """Decoupled decay, multiplied by the learning rate; not applied to biases, LayerNorm and word
    vectors, by their names, see `optimizer.is_decayed`."""
    clip_norm: float | None = 1.0
    """Maximum global norm of the gradient; None: no clipping."""
    b1: float = 0.9
    """Decay rate of the first moment."""
    b2: float = 0.999
    """Decay rate of the second moment."""
    eps: float = 1e-6
    """Added to the square root of the second moment."""
    rate_multipliers: tuple[tuple[str, float], ...] = ()
    """Pairs of name prefix and factor, e.g. `encoder 0.1 head 2`. The learning rate of every
    parameter whose dotted name starts with the prefix is multiplied by the factor; 0 freezes it.
    The first match wins."""
    schedule: Literal["linear", "constant"] = "linear"
    """After the warmup: linear decay to 0, or the peak rate until the end."""
    ema_decay: float | None = None
    """Decay of an exponential moving average of the parameters, see `optimizer.average_params`.
    If set, evaluation, the best checkpoint and `load_params` use the average."""

    def __post_init__(self) -> None:
        require(self, "learning_rate", "clip_norm", "eps", above=0)
        require(self, "weight_decay", at_least=0)
        require(self, "warmup_fraction", "b1", "b2", "ema_decay", at_least=0, below=1)
        for _, factor in self.rate_multipliers:
            if not 0 <= factor < float("inf"):
                found = self.rate_multipliers
                raise InputError(f"rate_multipliers: expected factors of at least 0, found {found}")
