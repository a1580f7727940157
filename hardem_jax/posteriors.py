r"""Posteriors: the weight that the E-step gives each solution.

A posterior maps ``log_probs`` (:math:`\log P(z \mid x)`, -inf where impossible) to float32
weights of the same shape, which sum to 1 in every row with a possible solution and are 0
elsewhere. It takes the keywords of `losses.hard_em_loss` in either layout: ``where`` and, for
ragged rows, ``segment_ids`` and ``num_segments``. In `losses.em_loss`, `hard`, `soft` and
`first` give the paper's hard EM, MML and First-only; the others generalise them.

Example:
    >>> import jax.numpy as jnp
    >>> log_probs = jnp.log(jnp.array([0.1, 0.3]))
    >>> print(hard(log_probs), soft(log_probs).round(4), Tempered(0.0)(log_probs))
    [0. 1.] [0.25 0.75] [0.5 0.5]
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from hardem_jax.lazy import LazyModule

if TYPE_CHECKING:
    import jax.numpy as jnp
    from jax import Array
    from jax.typing import ArrayLike

    from hardem_jax import masked
else:
    jnp, masked = LazyModule("jax.numpy"), LazyModule("hardem_jax.masked")


def hard(log_probs: ArrayLike, **rows: Any) -> Array:
    """All weight on the most likely solution, the first among ties.

    Example:
        >>> print(hard(jnp.array([-2.0, -1.0, -1.0])))
        [0. 1. 0.]
    """
    z = masked.Rows.of(log_probs, **rows)
    return (z.most_likely() & z.possible).astype(jnp.float32)


def first(log_probs: ArrayLike, **rows: Any) -> Array:
    """All weight on the first solution of the row, even if it is impossible.

    Example:
        >>> print(first(jnp.array([-2.0, -1.0]), where=jnp.array([False, True])))
        [0. 1.]
    """
    z = masked.Rows.of(log_probs, **rows)
    return (z.first(z.where) & z.spread(z.any(z.possible))).astype(jnp.float32)


def soft(log_probs: ArrayLike, **rows: Any) -> Array:
    r"""The model's own posterior :math:`P(z \mid x, z \in Z)`: the gradient weights of MML.

    Example:
        >>> print(soft(jnp.log(jnp.array([0.1, 0.3]))).round(4))
        [0.25 0.75]
    """
    return masked.Rows.of(log_probs, **rows).softmax()


def uniform(log_probs: ArrayLike, **rows: Any) -> Array:
    """Equal weight on every possible solution, whatever its probability.

    Example:
        >>> print(uniform(jnp.array([-2.0, -1.0, -jnp.inf])))
        [0.5 0.5 0. ]
    """
    return Tempered(0.0)(log_probs, **rows)


@dataclasses.dataclass(frozen=True)
class Tempered:
    r"""Weights :math:`\propto P(z \mid x)^\beta`: `uniform` at 0, `soft` at 1, `hard` in the limit.

    Example:
        >>> posterior = Tempered(inverse_temperature=2.0)
        >>> print([f"{weight:.2f}" for weight in posterior(jnp.log(jnp.array([0.1, 0.3])))])
        ['0.10', '0.90']
    """

    inverse_temperature: float
    """beta, finite and at least 0."""

    def __post_init__(self) -> None:
        if not 0 <= self.inverse_temperature < float("inf"):
            raise ValueError(
                f"inverse_temperature must be finite, >= 0, got {self.inverse_temperature}"
            )

    def __call__(self, log_probs: ArrayLike, **rows: Any) -> Array:
        z = masked.Rows.of(log_probs, **rows)
        # Shift the maximum to 0 before scaling, so that no temperature overflows. Gaps are kept
        # finite because 0 * -inf is NaN; impossible solutions stay impossible.
        peak = z.max(z.scores)
        gaps = z.scores - z.spread(jnp.where(peak == -jnp.inf, 0.0, peak))
        gaps = jnp.maximum(gaps, jnp.finfo(jnp.float32).min)
        scaled = jnp.where(z.possible, self.inverse_temperature * gaps, -jnp.inf)
        return z.with_scores(scaled).softmax()


@dataclasses.dataclass(frozen=True)
class TopK:
    """`soft` over the ``k`` most likely solutions of a row; ties go to earlier ones.

    Example:
        >>> print(TopK(k=2)(jnp.log(jnp.array([0.1, 0.3, 0.1]))).round(4))
        [0.25 0.75 0.  ]
    """

    k: int
    """Solutions kept, at least 1; 1 is `hard`."""

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"k must be at least 1, got {self.k}")

    def __call__(self, log_probs: ArrayLike, **rows: Any) -> Array:
        z = masked.Rows.of(log_probs, **rows)
        return z.with_scores(jnp.where(z.rank() < self.k, z.scores, -jnp.inf)).softmax()


#: The posteriors available in commands.
AnyPosterior = Tempered | TopK
