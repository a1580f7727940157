"""`TrainState`: step counter, parameters, optimiser state and PRNG key of a run."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from hardem_jax.training.devices.mesh import state_shardings


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """Everything a step reads and writes.

    Attributes:
        step: int32 `[]`, updates made so far; passed to the next step.
        params: pytree of trained arrays (an `nnx.State` or nested dicts).
        opt_state: the optimiser's state for `params`.
        key: typed PRNG key `[]` of the run, never changed: step n draws from `fold_in(key, n)`,
            so resuming needs no key history.
    """

    step: jax.Array
    params: Any
    opt_state: optax.OptState
    key: jax.Array


def init_state(
    params: Any, optimizer: optax.GradientTransformation, seed: int, mesh: Mesh
) -> TrainState:
    """Creates the initial state, sharded over the mesh by `state_shardings`.

    It is initialised on the devices, none of which ever holds more than its shard. The arrays
    are copies, because the training step donates its state and must not delete the caller's
    `params`. They have no weak types, so that the first and second step share one compilation.

    Args:
        params: initial values; the same on every host.
        optimizer: the transformation to initialise.
        seed: seed of the run's key.
        mesh: see `data_mesh`.

    Example:
        >>> from hardem_jax.training.devices.mesh import data_mesh
        >>> state = init_state({"w": jnp.ones(3)}, optax.sgd(0.1), seed=0, mesh=data_mesh(1))
        >>> int(state.step), state.params["w"].shape
        (0, (3,))
    """

    def init(params: Any) -> TrainState:
        zero, key = jnp.zeros((), jnp.int32), jax.random.key(seed)
        return TrainState(step=zero, params=params, opt_state=optimizer.init(params), key=key)

    # Via the host: a global array cannot be built from one process's device arrays.
    params = jax.tree.map(lambda x: np.array(x, dtype=jnp.asarray(x).dtype), params)
    shardings = state_shardings(jax.eval_shape(init, params), mesh)
    return jax.jit(init, out_shardings=shardings)(params)


def current_shardings(state: TrainState) -> Any:
    """Returns the sharding of every array of a state, for `compile_train_step`.

    Example:
        >>> from hardem_jax.training.devices.mesh import data_mesh
        >>> state = init_state({"w": jnp.ones(3)}, optax.sgd(0.1), seed=0, mesh=data_mesh(1))
        >>> current_shardings(state).params["w"].spec
        P()
    """
    return jax.tree.map(lambda leaf: leaf.sharding, state)
