"""Dotted names for pytree leaves, used by weight decay, checkpoints and error messages."""

from __future__ import annotations

from typing import Any

import jax


def leaf_name(path: tuple[Any, ...]) -> str:
    """Returns a leaf's dotted name, such as `encoder.layers.0.attention.query.kernel`.

    The trailing `value` that NNX adds inside an `nnx.State` is dropped, so a state and the
    plain dict made from it have the same names.

    Example:
        >>> [(path, _)] = jax.tree_util.tree_leaves_with_path({"encoder": [{"bias": 1.0}]})
        >>> leaf_name(path)
        'encoder.0.bias'
    """
    if len(path) > 1 and path[-1] == jax.tree_util.GetAttrKey("value"):
        path = path[:-1]
    return jax.tree_util.keystr(path, simple=True, separator=".")


def named_leaves(tree: Any) -> dict[str, Any]:
    """Returns all leaves by dotted name, in tree order.

    Example:
        >>> named_leaves({"a": {"w": 1, "b": 2}})
        {'a.b': 2, 'a.w': 1}
    """
    pairs = [(leaf_name(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]
    named = dict(pairs)
    if len(named) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"ambiguous leaf names: {sorted({n for n in names if names.count(n) > 1})}"
        )
    return named
