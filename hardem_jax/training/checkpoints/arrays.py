"""The arrays of a checkpoint: what is stored of a state, and whether it fits another one."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from orbax.checkpoint import v1 as ocp

from hardem_jax.errors import InputError
from hardem_jax.training.tree_paths import named_leaves

_MAX_LISTED = 20
#: How the names of arrays in `TrainState.memory` begin.
_MEMORY = "memory."


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def to_arrays(tree: Any) -> dict[str, jax.Array]:
    """Returns leaves by name, with typed PRNG keys as uint32 words, which Orbax can store."""
    return {
        name: jax.random.key_data(leaf) if _is_key(leaf) else leaf
        for name, leaf in named_leaves(tree).items()
    }


def from_arrays(arrays: Mapping[str, jax.Array], like: Any) -> Any:
    """Undoes `to_arrays`; ``like`` gives structure and kinds of keys."""
    leaves = [
        jax.random.wrap_key_data(arrays[name], impl=jax.random.key_impl(leaf))
        if _is_key(leaf)
        else arrays[name]
        for name, leaf in named_leaves(like).items()
    ]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _describe(array: Any) -> str:
    return f"{array.dtype}{list(array.shape)}"


def check_arrays(stored: Mapping[str, Any], wanted: Mapping[str, Any], where: Path) -> None:
    """Raises one InputError that lists the arrays whose presence, shape or dtype differ."""
    problems = []
    for name in [*wanted, *(name for name in stored if name not in wanted)]:
        found = _describe(stored[name]) if name in stored else "absent"
        expected = _describe(wanted[name]) if name in wanted else "absent"
        if found != expected:
            problems.append(f"{name} (stored: {found}, expected: {expected})")
    if problems:
        more = len(problems) - _MAX_LISTED
        listed = "; ".join(problems[:_MAX_LISTED]) + (f"; and {more} more" if more > 0 else "")
        raise InputError(f"{where}: checkpoint of a different model or optimiser: {listed}")


def without_memory(stored: Iterable[str], wanted: dict[str, Any]) -> dict[str, Any]:
    """Moves the memory out of the wanted arrays if none is stored: it begins with this step.

    Checkpoints were written without it before runs had one.
    """
    if any(name.startswith(_MEMORY) for name in stored):
        return {}
    return {name: wanted.pop(name) for name in [*wanted] if name.startswith(_MEMORY)}


def restore_targets(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a ShapeDtypeStruct for each wanted array, PLACEHOLDER for the rest."""
    default = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    return {
        name: jax.ShapeDtypeStruct(
            wanted[name].shape,
            wanted[name].dtype,
            sharding=getattr(wanted[name], "sharding", None) or default,
        )
        if name in wanted
        else ocp.PLACEHOLDER
        for name in stored
    }
