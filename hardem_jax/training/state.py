"""What a training run is between two steps."""

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
    """The state before the first step, each array where `state_shardings` puts it.

    It is made on the devices: none ever holds more of it than its part. The arrays are
    copies: the training step donates its state, which must not delete the caller's
    `params`. They are also free of weak types, so that the first and the second step
    share one compilation.

    Args:
        params: initial values; with several hosts, the same on each.
        optimizer: makes its state for them.
        seed: of the run's key.
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

    # From the host: what several processes are to share may not lie on a device of one.
    params = jax.tree.map(lambda x: np.array(x, dtype=jnp.asarray(x).dtype), params)
    shardings = state_shardings(jax.eval_shape(init, params), mesh)
    return jax.jit(init, out_shardings=shardings)(params)


def shardings_of(state: TrainState) -> Any:
    """Where the arrays of a state lie, as a tree for `compile_train_step`.

    Example:
        >>> from hardem_jax.training.devices.mesh import data_mesh
        >>> state = init_state({"w": jnp.ones(3)}, optax.sgd(0.1), seed=0, mesh=data_mesh(1))
        >>> shardings_of(state).params["w"].spec
        P()
    """
    return jax.tree.map(lambda leaf: leaf.sharding, state)
