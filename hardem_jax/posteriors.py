r"""Posteriors: the weight that the E-step gives each solution.

A posterior maps ``log_probs`` (:math:`\log P(z \mid x)`, -inf where impossible) to float32
weights of the same shape, which sum to 1 in every row with a possible solution and are 0
elsewhere. It takes the keywords of `losses.hard_em_loss` in either layout: ``where`` and, for
ragged rows, ``segment_ids`` and ``num_segments``. In `losses.em_loss`, `hard`, `soft` and
`first` give the paper's hard EM, MML and First-only; the others generalise them.

A posterior that changes during training, or that is drawn, is a `Scheduled`: ``at(step, key)`` is
the posterior of one step.

Example:
    >>> import jax.numpy as jnp
    >>> log_probs = jnp.log(jnp.array([0.1, 0.3]))
    >>> print(hard(log_probs), soft(log_probs).round(4), Tempered(0.0)(log_probs))
    [0. 1.] [0.25 0.75] [0.5 0.5]
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from jax import Array
    from jax.typing import ArrayLike

    from hardem_jax import masked

Posterior = Callable[..., "Array"]


class Scheduled(Protocol):
    """A posterior for each training step."""

    def at(self, step: Array | int, key: Array) -> Posterior:
        """The posterior of a step.

        Args:
            step: step number, from 0; may be traced.
            key: a PRNG key, fresh for every step.
        """
        ...


#: Posteriors are computed in float32.
LARGEST_FLOAT32 = 3.4028234663852886e38


def hard(log_probs: ArrayLike, **rows: Any) -> Array:
    """All weight on the most likely solution, the first among ties.

    Example:
        >>> import jax.numpy as jnp
        >>> print(hard(jnp.array([-2.0, -1.0, -1.0])))
        [0. 1. 0.]
    """
    import jax.numpy as jnp

    from hardem_jax import masked

    z = masked.Rows.of(log_probs, **rows)
    return (z.most_likely() & z.possible).astype(jnp.float32)


def first(log_probs: ArrayLike, **rows: Any) -> Array:
    """All weight on the first solution of the row, even if it is impossible.

    Example:
        >>> import jax.numpy as jnp
        >>> print(first(jnp.array([-2.0, -1.0]), where=jnp.array([False, True])))
        [0. 1.]
    """
    import jax.numpy as jnp

    from hardem_jax import masked

    z = masked.Rows.of(log_probs, **rows)
    return (z.first(z.where) & z.spread(z.any(z.possible))).astype(jnp.float32)


def soft(log_probs: ArrayLike, **rows: Any) -> Array:
    r"""The model's own posterior :math:`P(z \mid x, z \in Z)`: the gradient weights of MML.

    Example:
        >>> import jax.numpy as jnp
        >>> print(soft(jnp.log(jnp.array([0.1, 0.3]))).round(4))
        [0.25 0.75]
    """
    from hardem_jax import masked

    return masked.Rows.of(log_probs, **rows).softmax()


def uniform(log_probs: ArrayLike, **rows: Any) -> Array:
    """Equal weight on every possible solution, whatever its probability.

    Example:
        >>> import jax.numpy as jnp
        >>> print(uniform(jnp.array([-2.0, -1.0, -jnp.inf])))
        [0.5 0.5 0. ]
    """
    return Tempered(0.0)(log_probs, **rows)


@dataclasses.dataclass(frozen=True)
class Tempered:
    r"""Weights :math:`\propto P(z \mid x)^\beta`: `uniform` at 0, `soft` at 1, `hard` in the limit.

    With `losses.em_loss` these are the :math:`\beta`-meritocratic updates of Guu et al. (2017).
    They are also the q that maximises :math:`E_q[\log P] + H(q) / \beta`, the
    entropy-regularised E-step of unified EM (Samdani et al., 2012).

    Example:
        >>> import jax.numpy as jnp
        >>> posterior = Tempered(inverse_temperature=2.0)
        >>> print([f"{weight:.2f}" for weight in posterior(jnp.log(jnp.array([0.1, 0.3])))])
        ['0.10', '0.90']
    """

    inverse_temperature: float
    """beta, finite and at least 0."""

    def __post_init__(self) -> None:
        _check_inverse_temperature(self.inverse_temperature)

    def __call__(self, log_probs: ArrayLike, **rows: Any) -> Array:
        return _tempered(self.inverse_temperature, log_probs, **rows)


@dataclasses.dataclass(frozen=True)
class Annealed:
    r"""`Tempered` with a :math:`\beta` that goes geometrically from ``start`` to ``end``.

    .. math:: \beta_t = \text{start} \cdot (\text{end} / \text{start})^{\min(t / \tau, 1)}

    From a small to a large :math:`\beta` this is deterministic annealing (Rose, 1998): all
    solutions at first, one in the end, without the draws of `losses.annealed_loss`.

    Example:
        >>> import jax.numpy as jnp
        >>> log_probs, posterior = jnp.log(jnp.array([0.1, 0.3])), Annealed(tau=1000)
        >>> print([f"{posterior.at(step, None)(log_probs)[1]:.2f}" for step in (0, 500, 1000)])
        ['0.75', '0.99', '1.00']
    """

    tau: float
    """Steps until ``end``, above 0."""
    start: float = 1.0
    """beta at step 0, above 0."""
    end: float = 16.0
    """beta from step tau on, above 0."""

    def __post_init__(self) -> None:
        for name in ("tau", "start", "end"):
            if not 0 < (value := getattr(self, name)) <= LARGEST_FLOAT32:
                raise ValueError(f"{name} must be a finite float32, > 0, got {value}")
        if not 0 < self.end / self.start <= LARGEST_FLOAT32:
            raise ValueError(f"end / start must be a finite float32, > 0, got {self}")

    def at(self, step: Array | int, key: Array | None) -> Posterior:
        """The posterior of a step; ``key`` is not used."""
        import jax.numpy as jnp

        del key
        progress = jnp.minimum(jnp.asarray(step, jnp.float32) / self.tau, 1.0)
        return functools.partial(_tempered, self.start * (self.end / self.start) ** progress)


@dataclasses.dataclass(frozen=True)
class Sampled:
    r"""All weight on one solution, drawn with probability :math:`\propto P(z \mid x)^\beta`.

    Stochastic EM (Celeux and Diebolt, 1985): with :math:`\beta` = 1 its gradient is that of MML on
    average. The draws depend only on the key and on the place of a row among those given.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> log_probs = jnp.log(jnp.full((1000, 2), jnp.array([0.1, 0.3])))
        >>> weights = Sampled().at(0, jax.random.key(0))(log_probs)
        >>> print(weights[:3, 1], f"{weights[:, 1].mean():.2f}")
        [1. 1. 0.] 0.74
    """

    inverse_temperature: float = 1.0
    """beta, finite and at least 0."""

    def __post_init__(self) -> None:
        _check_inverse_temperature(self.inverse_temperature)

    def at(self, step: Array | int, key: Array) -> Posterior:
        """The posterior of a step, drawn with ``key``."""
        import jax

        from hardem_jax import masked

        del step

        def posterior(log_probs: ArrayLike, **rows: Any) -> Array:
            z = masked.Rows.of(log_probs, **rows)
            # The largest of scores with Gumbel noise is a draw from their softmax.
            noise = jax.random.gumbel(key, z.scores.shape, z.scores.dtype)
            return _most_likely(z, _scaled(z, self.inverse_temperature) + noise)

        return posterior


def _check_inverse_temperature(value: float) -> None:
    if not 0 <= value <= LARGEST_FLOAT32:
        raise ValueError(f"inverse_temperature must be a finite float32, >= 0, got {value}")


def _tempered(inverse_temperature: Array | float, log_probs: ArrayLike, **rows: Any) -> Array:
    from hardem_jax import masked

    z = masked.Rows.of(log_probs, **rows)
    return z.with_scores(_scaled(z, inverse_temperature)).softmax()


def _most_likely(z: masked.Rows, scores: Array) -> Array:
    """All weight on the highest of these scores; NaN counts as the highest, so that it shows."""
    import jax.numpy as jnp

    has_nan = z.spread(z.any(jnp.isnan(z.scores)))
    chosen = z.with_scores(jnp.where(has_nan, z.scores, scores))
    return (chosen.most_likely() & chosen.possible).astype(jnp.float32)


def _scaled(z: masked.Rows, inverse_temperature: Array | float) -> Array:
    """beta log P(z) plus a constant of each row, -inf where impossible."""
    import jax.numpy as jnp

    # Shift the maximum to 0 before scaling, so that no temperature overflows. Gaps are kept
    # finite because 0 * -inf is NaN; impossible solutions stay impossible.
    peak = z.max(z.scores)
    gaps = z.scores - z.spread(jnp.where(peak == -jnp.inf, 0.0, peak))
    gaps = jnp.maximum(gaps, jnp.finfo(jnp.float32).min)
    return jnp.where(z.possible, inverse_temperature * gaps, -jnp.inf)


@dataclasses.dataclass(frozen=True)
class TopK:
    """`soft` over the ``k`` most likely solutions of a row; ties go to earlier ones.

    Example:
        >>> import jax.numpy as jnp
        >>> print(TopK(k=2)(jnp.log(jnp.array([0.1, 0.3, 0.1]))).round(4))
        [0.25 0.75 0.  ]
    """

    k: int
    """Solutions kept, at least 1; 1 is `hard`."""

    def __post_init__(self) -> None:
        if not 1 <= self.k < 2**31:  # compared with ranks, which are int32
            raise ValueError(f"k must be 1 to 2**31 - 1, got {self.k}")

    def __call__(self, log_probs: ArrayLike, **rows: Any) -> Array:
        import jax.numpy as jnp

        from hardem_jax import masked

        z = masked.Rows.of(log_probs, **rows)
        return z.with_scores(jnp.where(z.rank() < self.k, z.scores, -jnp.inf)).softmax()


def at(posterior: Posterior | Scheduled, step: Array | int, key: Array) -> Posterior:
    """The posterior of a training step, `Scheduled` or not.

    Example:
        >>> at(hard, 0, None) is hard
        True
    """
    scheduled = getattr(posterior, "at", None)
    return posterior if scheduled is None else scheduled(step, key)  # type: ignore[return-value]


#: The posteriors available in commands.
AnyPosterior = Tempered | Annealed | TopK | Sampled
