"""Training objectives as immutable values, one class each.

A training step calls its `Objective` on the log-probabilities of a batch's solutions; the
formulas are in `hardem_jax.losses`. To add an objective, write a class here and add it to
`AnyObjective`, which commands, comparisons and figures read.

Example:
    >>> import jax, jax.numpy as jnp
    >>> log_probs, key = jnp.log(jnp.array([0.25, 0.5])), jax.random.key(0)
    >>> for objective in HardEM(), MML(), FirstOnly():
    ...     loss, metrics = objective(log_probs, step=0, key=key)
    ...     print(objective, jnp.exp(-loss))
    HardEM(tau=None, cap=1.0, schedule='linear') 0.5
    MML() 0.75
    FirstOnly() 0.25
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from hardem_jax import posteriors
from hardem_jax.errors import require
from hardem_jax.posteriors import AnyPosterior, Tempered

if TYPE_CHECKING:
    from jax import Array
    from jax.typing import ArrayLike

    _Posteriors = AnyPosterior | posteriors.Posterior | posteriors.Scheduled
else:
    _Posteriors = AnyPosterior  # for the command line


class Objective(Protocol):
    """The call that a training step makes; any callable with this signature is an objective.

    Two class attributes, which it need not have, say how a batch may be split: ``draws_rows`` is
    True if it draws for each row, so that each micro-batch needs a key of its own, and
    ``whole_batch`` says why the losses of micro-batches do not sum to that of the batch.
    """

    def __call__(
        self, log_probs: ArrayLike, *, step: Array | int, key: Array, **rows: Any
    ) -> tuple[Array, dict[str, Array]]:
        """Returns the loss of a batch and metrics of the step.

        Args:
            log_probs: ``[..., Z]`` or, ragged, ``[N]``, as in `losses.hard_em_loss`.
            step: step number, from 0; traced.
            key: a PRNG key, fresh for every step; inside `shard_map` the same on every device, or
                one for each if ``draws_rows``.
            **rows: the keywords of `losses.hard_em_loss`.

        Returns:
            The loss, float32, and a dict of float32 scalars with the same keys in every call.
        """
        ...


@dataclasses.dataclass(frozen=True)
class HardEM:
    """Hard EM, annealed from MML if ``tau`` is given (`losses.annealed_loss`).

    The metric ``hard`` is 1 in a hard EM step and 0 in an MML step.

    Example:
        >>> HardEM(tau=8000, cap=0.8)
        HardEM(tau=8000, cap=0.8, schedule='linear')
    """

    title: ClassVar[str] = "Hard EM"

    tau: float | None = None
    """Annealing steps; None for hard EM from the start."""
    cap: float = 1.0
    """Upper bound of the probability of a hard step (released code: 0.8)."""
    schedule: Literal["linear", "switch", "as-printed"] = "linear"
    """How that probability changes, see `losses.hard_probability`."""

    def __post_init__(self) -> None:
        if self.tau is not None and not self.tau >= 0:
            raise ValueError(f"HardEM: tau must be None, 0 or a number of steps, got {self.tau}")
        if not 0 < self.cap <= 1:
            raise ValueError(f"HardEM: cap must be in (0, 1], got {self.cap}")
        require(self)  # the schedule
        if not self.tau:
            for name, default in ("cap", 1.0), ("schedule", "linear"):
                if (value := getattr(self, name)) != default:
                    raise ValueError(f"HardEM: {name}={value} applies to annealing and needs a tau")

    def __call__(
        self, log_probs: ArrayLike, *, step: Array | int, key: Array, **rows: Any
    ) -> tuple[Array, dict[str, Array]]:
        import jax.numpy as jnp

        from hardem_jax import losses

        hard = losses.is_hard_step(step=step, key=key, **dataclasses.asdict(self))
        return losses.drawn_loss(log_probs, hard=hard, **rows), {"hard": hard.astype(jnp.float32)}


class _Loss:
    """An objective that is the function `LOSS` of its options, without metrics."""

    LOSS: ClassVar[str]

    def __call__(
        self, log_probs: ArrayLike, *, step: Array | int, key: Array, **rows: Any
    ) -> tuple[Array, dict[str, Array]]:
        module, _, name = self.LOSS.partition(".")
        loss = getattr(importlib.import_module(f"hardem_jax.{module}"), name)
        return loss(log_probs, **vars(self), **rows), {}


@dataclasses.dataclass(frozen=True)
class MML(_Loss):
    """Maximum marginal likelihood (`losses.mml_loss`)."""

    title: ClassVar[str] = "MML"
    LOSS = "losses.mml_loss"


@dataclasses.dataclass(frozen=True)
class FirstOnly(_Loss):
    """The likelihood of the first solution (`losses.first_only_loss`)."""

    title: ClassVar[str] = "First-only"
    LOSS = "losses.first_only_loss"


@dataclasses.dataclass(frozen=True)
class EM:
    """The M-step under any E-step (`losses.em_loss`).

    Example:
        >>> import jax.numpy as jnp
        >>> from hardem_jax.posteriors import TopK
        >>> loss, _ = EM(TopK(2))(jnp.log(jnp.array([0.5, 0.2, 0.3])), step=0, key=None)
    """

    title: ClassVar[str] = "EM"
    #: Some posteriors draw for each row.
    draws_rows: ClassVar[bool] = True

    posterior: _Posteriors = Tempered(1.0)
    """The E-step: one of these on the command line, in code any posterior or
    `posteriors.Scheduled`."""

    def __call__(
        self, log_probs: ArrayLike, *, step: Array | int, key: Array, **rows: Any
    ) -> tuple[Array, dict[str, Array]]:
        from hardem_jax import losses

        return losses.em_loss(log_probs, posteriors.at(self.posterior, step, key), **rows), {}


@dataclasses.dataclass(frozen=True)
class ThresholdedHardEM:
    r"""Hard EM on questions whose best solution has :math:`P(z \mid x) > \alpha \gamma^e`.

    (`loss_variants.thresholded_loss`.) e counts epochs from 0; in the first, questions with one
    solution count as well (Chen et al., 2020, and Shao et al., 2021, both with 0.5 and 0.5). The
    metric ``kept`` is the share of the questions that count, of those that the device sees.

    Example:
        >>> ThresholdedHardEM(epoch=236)
        ThresholdedHardEM(epoch=236, alpha=0.5, gamma=0.5)
    """

    title: ClassVar[str] = "Thresholded hard EM"
    whole_batch: ClassVar[str] = "whose loss is the mean over the questions of the batch it keeps"

    epoch: int = 1000
    """Steps of an epoch, after which the threshold is multiplied by ``gamma``."""
    alpha: float = 0.5
    """Threshold in the first epoch, in (0, 1)."""
    gamma: float = 0.5
    """Factor of the threshold from epoch to epoch, in (0, 1]."""

    def __post_init__(self) -> None:
        require(self, "epoch", at_least=1, optional=False)
        require(self, "alpha", above=0, below=1, optional=False)
        require(self, "gamma", above=0, at_most=1, optional=False)

    def __call__(
        self, log_probs: ArrayLike, *, step: Array | int, key: Array, **rows: Any
    ) -> tuple[Array, dict[str, Array]]:
        import jax.numpy as jnp

        from hardem_jax import loss_variants, losses

        epoch = jnp.asarray(step) // self.epoch
        rule = {
            "threshold": self.alpha * self.gamma ** epoch.astype(jnp.float32),
            "keep_single": epoch == 0,
        }
        loss = loss_variants.thresholded_loss(log_probs, **rule, **rows)
        layout = {name: value for name, value in rows.items() if name != "reduce_fn"}
        kept = loss_variants.kept(log_probs, **rule, **layout).astype(jnp.float32)
        counted = losses.has_solution(log_probs, **layout).astype(jnp.float32)
        return loss, {"kept": jnp.sum(kept) / jnp.maximum(jnp.sum(counted), 1.0)}


@dataclasses.dataclass(frozen=True)
class CountWeightedMML(_Loss):
    """MML that trusts small Z more (`loss_variants.count_weighted_mml_loss`)."""

    title: ClassVar[str] = "Count-weighted MML"
    LOSS = "loss_variants.count_weighted_mml_loss"

    power: float = 1.0
    """A question with n solutions has the weight n ** -power; 0 is MML."""

    def __post_init__(self) -> None:
        require(self, "power", at_least=0, optional=False)


@dataclasses.dataclass(frozen=True)
class EntropyRegularizedMML(_Loss):
    """MML with a penalty on its entropy (`loss_variants.entropy_regularized_loss`)."""

    title: ClassVar[str] = "Entropy-regularized MML"
    LOSS = "loss_variants.entropy_regularized_loss"

    weight: float = 0.1
    """Of the entropy: above 0 it is a penalty, below 0 a reward; 0 is MML."""

    def __post_init__(self) -> None:
        largest = posteriors.LARGEST_FLOAT32
        require(self, "weight", at_least=-largest, at_most=largest, optional=False)


@dataclasses.dataclass(frozen=True)
class ReleasedMML(_Loss):
    """The "MML" of the first release, with flipped signs (`loss_variants.released_mml_loss`)."""

    title: ClassVar[str] = "MML as released in 2019"
    LOSS = "loss_variants.released_mml_loss"


#: Every objective available in commands.
AnyObjective = (
    HardEM
    | MML
    | FirstOnly
    | EM
    | ThresholdedHardEM
    | CountWeightedMML
    | EntropyRegularizedMML
    | ReleasedMML
)


def weights(
    objective: Objective,
    log_probs: ArrayLike,
    *,
    step: Array | int = 0,
    key: Array | None = None,
    **rows: Any,
) -> Array:
    r"""How much an objective trusts each solution: :math:`-\partial \text{loss} / \partial \log P`.

    In each row the most trusted solution has the largest weight; rows the objective skips have
    weight 0. Weights are per row: they are not divided by the number of rows.

    Args:
        objective: any objective.
        log_probs: as in `losses.hard_em_loss`, as are ``where``, ``segment_ids`` and
            ``num_segments``.
        step: step number.
        key: a PRNG key; None for one made from ``step``.

    Returns:
        float32, the shape of ``log_probs``.

    Example:
        >>> import jax.numpy as jnp
        >>> log_probs = jnp.log(jnp.array([[0.1, 0.3], [0.4, 0.2]]))
        >>> print(weights(HardEM(), log_probs).argmax(-1), weights(MML(), log_probs)[0].round(4))
        [1 0] [0.25 0.75]
    """
    import jax
    import jax.numpy as jnp

    key = jax.random.key(step) if key is None else key

    def loss(log_probs: Array) -> Array:
        return objective(log_probs, step=step, key=key, reduce_fn=jnp.sum, **rows)[0]

    return -jax.grad(loss)(jnp.asarray(log_probs, jnp.float32))


def label(objective: Objective) -> str:
    """Returns the name of an objective in tables and figures: its title and non-default options.

    Example:
        >>> label(HardEM(tau=4000)), label(MML()), label(EM(Tempered(2.0)))
        ('Hard EM, tau 4000', 'MML', 'EM, posterior tempered 2')
    """
    title = getattr(objective, "title", type(objective).__name__)
    return ", ".join([title, *(f"{name} {text}" for name, text in _options(objective))])


def _options(value: Any) -> list[tuple[str, str]]:
    """Names and texts of the dataclass fields that differ from their defaults."""
    if not dataclasses.is_dataclass(value):
        return []
    named = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
    return [(field.name, _text(option)) for field, option in named if option != field.default]


def _text(option: Any) -> str:
    option = option.item() if hasattr(option, "item") else option  # of NumPy
    if isinstance(option, float):
        # Different numbers have different texts.
        short = f"{option:g}"
        return short if float(short) == option else repr(option).removesuffix(".0")
    if not dataclasses.is_dataclass(option):
        return getattr(option, "__name__", str(option))
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(option).__name__).lower()
    # The first option is written without its name: "top-k 5", "annealed 1000 start 2".
    first = [field.name for field in dataclasses.fields(option)[:1]]
    texts = [text if key in first else f"{key} {text}" for key, text in _options(option)]
    return " ".join([name, *texts])
