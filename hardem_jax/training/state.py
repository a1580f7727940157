"""What a training run is between two steps."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from hardem_jax.training.mesh import replicated


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """Everything a step reads and writes.

    Attributes:
        step: int32 `[]`, updates made so far; the next step is told this number.
        params: pytree of trained arrays (an `nnx.State` or nested dicts).
        opt_state: the optimiser's state for `params`.
        key: typed PRNG key `[]` of the run, never changed: step n draws from `fold_in(key, n)`,
            so a resumed run needs no key history.
    """

    step: jax.Array
    params: Any
    opt_state: optax.OptState
    key: jax.Array


def init_state(
    params: Any, optimizer: optax.GradientTransformation, seed: int, mesh: Mesh
) -> TrainState:
    """The state before the first step, copied to every device of the mesh.

    The arrays are copies: the training step donates its state, which must not
    delete the caller's `params`. They are also free of weak types, so that the
    first and the second step share one compilation.

    Example:
        >>> from hardem_jax.training.mesh import data_mesh
        >>> state = init_state({"w": jnp.ones(3)}, optax.sgd(0.1), seed=0, mesh=data_mesh(1))
        >>> int(state.step), state.params["w"].shape
        (0, (3,))
    """
    params = jax.tree.map(lambda x: jnp.array(x, dtype=jnp.asarray(x).dtype, copy=True), params)
    state = TrainState(
        step=jnp.zeros((), jnp.int32),
        params=params,
        opt_state=optimizer.init(params),
        key=jax.random.key(seed),
    )
    return jax.device_put(state, replicated(mesh))
