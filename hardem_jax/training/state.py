"""`TrainState`: step counter, parameters, optimiser state, PRNG key and memory of a run; names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from hardem_jax.errors import InputError
from hardem_jax.training.mesh import replicated, state_shardings

#: The entry of a batch, and of a loss's metrics, with the memory of the rows (`TrainState.memory`).
MEMORY = "memory"
#: The entry of a batch that says whose memory each row reads and writes; -1 means none.
ITEM = "item"


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
        memory: what the loss keeps about each of N training inputs from one visit to the next, by
            name: pytrees of arrays `[N, ...]`, copied to every device; empty if it keeps nothing.
    """

    step: jax.Array
    params: Any
    opt_state: optax.OptState
    key: jax.Array
    memory: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def init_state(
    params: Any,
    optimizer: optax.GradientTransformation,
    seed: int,
    mesh: Mesh,
    memory: Mapping[str, Any] | None = None,
) -> TrainState:
    """Creates the initial state, sharded over the mesh by `state_shardings`.

    Arguments are the same on every host. It is initialised on the devices, none of which ever holds
    more than its shard. The arrays are copies, because the training step donates its state and must
    not delete the caller's `params`. They have no weak types, so that all steps share a program.
    """

    def init(params: Any, memory: Mapping[str, Any]) -> TrainState:
        zero, key = jnp.zeros((), jnp.int32), jax.random.key(seed)
        return TrainState(zero, params, optimizer.init(params), key, memory)

    # Via the host: a global array cannot be built from one process's device arrays.
    params, memory = jax.tree.map(
        lambda x: np.array(jax.device_get(x), dtype=jnp.result_type(x)),
        (params, dict(memory or {})),
    )
    for name, x in named_leaves(params).items():
        if not x.size:  # which Orbax does not save
            raise InputError(f"params: expected elements in {name!r}, found shape {x.shape}")
    shardings = state_shardings(jax.eval_shape(init, params, memory), mesh)
    # Any device may read and write the memory of any input.
    everywhere = jax.tree.map(lambda _: replicated(mesh), memory)
    shardings = dataclasses.replace(shardings, memory=everywhere)
    placed = jax.tree.map(
        lambda x, to: jax.make_array_from_process_local_data(to, x, x.shape),
        (params, memory),
        (shardings.params, shardings.memory),
    )
    return jax.jit(init, out_shardings=shardings)(*placed)


def recall(memory: Mapping[str, Any], batch: Any) -> Any:
    """Adds to a batch, as its entry `memory`, what is remembered of the input of each row.

    Its entry `item`, int32 `[..., R]`, has the number of that input; rows with -1 read zeros.

    >>> memory = {"visits": jnp.array([5, 7, 9])}
    >>> recall(memory, {"item": jnp.array([2, -1, 0])})["memory"]["visits"].tolist()
    [9, 0, 5]
    """
    if not memory:
        return batch
    item = batch[ITEM]

    def read(kept: jax.Array) -> jax.Array:
        # `mode="fill"` would do, but checkify reports indices out of bounds.
        known = item.reshape(*item.shape, *(1 for _ in kept.shape[1:])) >= 0
        return jnp.where(known, kept[jnp.maximum(item, 0)], jnp.zeros((), kept.dtype))

    return {**batch, MEMORY: jax.tree.map(read, memory)}


def remember(
    memory: Mapping[str, Any], rows: Mapping[str, Any], batch: Any, where: jax.Array
) -> Mapping[str, Any]:
    """The memory after a step: `rows` `[..., R, ...]` replace some or all entries of their inputs.
    Rows with -1 write nothing, and no two others have the same input. If `where`, bool `[]`, is
    False, nothing changes."""

    def write(kept: jax.Array, new: jax.Array) -> jax.Array:
        # An index out of bounds is dropped; -1 would be the last input.
        item = jnp.where(where & (batch[ITEM] >= 0), batch[ITEM], len(kept))
        return kept.at[item].set(new.astype(kept.dtype), mode="drop")

    return {**memory, **{name: jax.tree.map(write, memory[name], rows[name]) for name in rows}}


def current_shardings(state: TrainState) -> Any:
    """The sharding of every array of a state, for `compile_train_step`."""
    return jax.tree.map(lambda leaf: leaf.sharding, state)


def leaf_name(path: tuple[Any, ...]) -> str:
    """A leaf's dotted name, such as `encoder.layers.0.attention.query.kernel`. The trailing `value`
    that NNX adds inside an `nnx.State` is dropped, so a state and the plain dict made from it have
    the same names."""
    if len(path) > 1 and path[-1] == jax.tree_util.GetAttrKey("value"):
        path = path[:-1]
    return jax.tree_util.keystr(path, simple=True, separator=".")


def named_leaves(tree: Any) -> dict[str, Any]:
    """All leaves by dotted name, in tree order: {"a": {"w": 1}} becomes {"a.w": 1}."""
    pairs = [(leaf_name(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]
    named = dict(pairs)
    if len(named) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"ambiguous leaf names: {sorted({n for n in names if names.count(n) > 1})}"
        )
    return named
