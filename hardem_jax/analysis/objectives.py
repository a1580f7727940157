"""Objectives as values that are kept for a comparison only, beside `hardem_jax.objectives`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jax import Array

# As those of `hardem_jax.objectives`, they import jax and their loss when a step is traced.


@dataclasses.dataclass(frozen=True)
class ReleasedMML:
    """`release_2019.released_mml_loss` as an objective, for comparison with that release only.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> objective = ReleasedMML()
        >>> log_probs = jnp.log(jnp.array([0.5, 0.25]))
        >>> print(jnp.exp(objective(log_probs, step=0, key=jax.random.key(0))).round(2))
        6.0
    """

    def __call__(self, log_probs: Array, *, step: Array | int, key: Array, **rows: Any) -> Array:
        from hardem_jax.analysis.release_2019 import released_mml_loss

        del step, key  # the same at every step
        return released_mml_loss(log_probs, **rows)

    def is_hard(self, *, step: Array | int, key: Array) -> Array:
        import jax.numpy as jnp

        del step, key
        return jnp.bool_(False)
