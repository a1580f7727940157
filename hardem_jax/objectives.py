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
import re
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from hardem_jax.lazy import LazyModule
from hardem_jax.posteriors import AnyPosterior, Tempered

if TYPE_CHECKING:
    import jax.numpy as jnp
    from jax import Array
    from jax.typing import ArrayLike

    from hardem_jax import losses
else:
    jnp, losses = LazyModule("jax.numpy"), LazyModule("hardem_jax.losses")


class Objective(Protocol):
    """The call that a training step makes; any callable with this signature is an objective."""

    def __call__(
        self, log_probs: ArrayLike, *, step: Array | int, key: Array, **rows: Any
    ) -> tuple[Array, dict[str, Array]]:
        """Returns the loss of a batch and metrics of the step.

        Args:
            log_probs: ``[..., Z]`` or, ragged, ``[N]``, as in `losses.hard_em_loss`.
            step: number of the training step, from 0; traced.
            key: a PRNG key, fresh for every step and the same on every device.
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
        if not self.tau:
            for name, default in ("cap", 1.0), ("schedule", "linear"):
                if (value := getattr(self, name)) != default:
                    raise ValueError(f"HardEM: {name}={value} applies to annealing and needs a tau")

    def __call__(
        self, log_probs: ArrayLike, *, step: Array | int, key: Array, **rows: Any
    ) -> tuple[Array, dict[str, Array]]:
        annealing = {"step": step, "key": key, **dataclasses.asdict(self)}
        loss = losses.annealed_loss(log_probs, **annealing, **rows)
        return loss, {"hard": losses.is_hard_step(**annealing).astype(jnp.float32)}


@dataclasses.dataclass(frozen=True)
class MML:
    """Maximum marginal likelihood (`losses.mml_loss`)."""

    title: ClassVar[str] = "MML"

    def __call__(
        self, log_probs: ArrayLike, *, step: Array | int, key: Array, **rows: Any
    ) -> tuple[Array, dict[str, Array]]:
        return losses.mml_loss(log_probs, **rows), {}


@dataclasses.dataclass(frozen=True)
class FirstOnly:
    """The likelihood of the first solution (`losses.first_only_loss`)."""

    title: ClassVar[str] = "First-only"

    def __call__(
        self, log_probs: ArrayLike, *, step: Array | int, key: Array, **rows: Any
    ) -> tuple[Array, dict[str, Array]]:
        return losses.first_only_loss(log_probs, **rows), {}


@dataclasses.dataclass(frozen=True)
class EM:
    """The M-step under any E-step (`losses.em_loss`).

    Example:
        >>> import jax.numpy as jnp
        >>> from hardem_jax.posteriors import TopK
        >>> loss, _ = EM(TopK(2))(jnp.log(jnp.array([0.5, 0.2, 0.3])), step=0, key=None)
    """

    title: ClassVar[str] = "EM"

    posterior: AnyPosterior = Tempered(1.0)
    """The E-step: one of these on the command line, any posterior in code."""

    def __call__(
        self, log_probs: ArrayLike, *, step: Array | int, key: Array, **rows: Any
    ) -> tuple[Array, dict[str, Array]]:
        return losses.em_loss(log_probs, self.posterior, **rows), {}


@dataclasses.dataclass(frozen=True)
class ReleasedMML:
    """The "MML" of the paper's first release, with flipped signs (`losses.released_mml_loss`)."""

    title: ClassVar[str] = "MML as released in 2019"

    def __call__(
        self, log_probs: ArrayLike, *, step: Array | int, key: Array, **rows: Any
    ) -> tuple[Array, dict[str, Array]]:
        return losses.released_mml_loss(log_probs, **rows), {}


#: Every objective available in commands.
AnyObjective = HardEM | MML | FirstOnly | EM | ReleasedMML


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
    if isinstance(option, float):
        return f"{option:g}"
    if not dataclasses.is_dataclass(option):
        return getattr(option, "__name__", str(option))
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(option).__name__).lower()
    return " ".join([name, *(text for _, text in _options(option))])
