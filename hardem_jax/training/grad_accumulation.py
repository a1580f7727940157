"""A step's gradient from parts of its batch, computed one after another to save memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp

#: The metric that says how many items a loss is the mean over.
ITEMS = "items"

#: (params, batch, *, step, key, dropout_key) -> ((loss, metrics), gradient of the parameters).
ValueAndGrad = Callable[..., tuple[tuple[jax.Array, Mapping[str, jax.Array]], Any]]


class LossFn(Protocol):
    """What the training room needs to know of a task.

    `params`: the trained pytree; `batch`: pytree of device arrays, leading axis
    R; `step`: int32 `[]`, updates made before this one; `key`: PRNG key `[]` of
    this step, the same for all parts of its batch: objectives draw from it;
    `dropout_key`: PRNG key `[]` of this part. Returns the scalar loss, a mean over
    items (taken here, padded rows left out), and scalar metrics by name. Among them `items`
    is the number of items, at least 1; a step of one part can do without it.
    """

    def __call__(
        self,
        params: Any,
        batch: Any,
        *,
        step: jax.Array,
        key: jax.Array,
        dropout_key: jax.Array,
    ) -> tuple[jax.Array, Mapping[str, jax.Array]]: ...


def accumulated(loss_fn: LossFn, parts: int) -> ValueAndGrad:
    r"""The loss of a batch in `parts` parts, its metrics and its gradient, part after part.

    .. math:: L = \sum_i n_i L_i \Big/ \sum_i n_i

    where part i has :math:`n_i` items: the mean over all items, as if they were one
    batch. Metrics are averaged in the same way, `items` is summed up. Sums are float32, and the
    memory of activations is that of one part. What differs from one batch is dropout, for
    which each part has its own key, and the order in which numbers are added up.

    Args:
        loss_fn: reports `items`.
        parts: k.

    Returns:
        A function like `jax.value_and_grad(loss_fn, has_aux=True)` of a batch whose arrays are
        `[k, R, ...]`; scalars belong to all parts.

    Raises:
        ValueError: (when called) if the loss does not report `items`.

    Example:
        >>> def loss_fn(params, batch, *, step, key, dropout_key):
        ...     items = jnp.sum(batch["where"])
        ...     return jnp.sum(params * batch["x"] * batch["where"]) / items, {"items": items}
        >>> batch = {"x": jnp.array([[1.0, 2.0], [6.0, 9.0]]), "where": jnp.array([[1, 1], [1, 0]])}
        >>> of_step = {"step": 0, "key": jax.random.key(0), "dropout_key": jax.random.key(1)}
        >>> (loss, metrics), gradient = accumulated(loss_fn, 2)(2.0, batch, **of_step)
        >>> float(loss), float(metrics["items"]), float(gradient)  # (1 + 2 + 6) / 3, doubled
        (6.0, 3.0, 3.0)
    """

    def total(params: Any, part: Any, **of_step: jax.Array):
        loss, metrics = loss_fn(params, part, **of_step)
        if ITEMS not in metrics:
            raise ValueError(f"a loss whose batch has {parts} parts must report {ITEMS!r}")
        metrics = {name: jnp.asarray(x, jnp.float32) for name, x in metrics.items()}
        # Multiplied here and not afterwards: what comes out of the backward pass only has to be
        # added up, which a compiler can do before devices exchange it.
        return loss * jax.lax.stop_gradient(metrics[ITEMS]), {**metrics, "loss": loss}

    def value_and_grad(params: Any, batch: Any, *, step, key, dropout_key):
        def add(sums: Any, index: jax.Array):
            def part_of(array: jax.Array) -> jax.Array:
                if not jnp.ndim(array):
                    return array
                return jax.lax.dynamic_index_in_dim(array, index, keepdims=False)

            grads, metrics = jax.grad(total, has_aux=True)(
                params,
                jax.tree.map(part_of, batch),
                step=step,
                key=key,
                dropout_key=jax.random.fold_in(dropout_key, index),
            )
            return jax.tree.map(lambda s, g: s + g.astype(s.dtype), sums, grads), metrics

        zeros = jax.tree.map(lambda x: jnp.zeros(jnp.shape(x), jnp.float32), params)
        sums, of_parts = jax.lax.scan(add, zeros, jnp.arange(parts))
        items = of_parts.pop(ITEMS)
        metrics = {name: jnp.sum(items * x) / jnp.sum(items) for name, x in of_parts.items()}
        grads = jax.tree.map(
            lambda s, x: (s / jnp.sum(items)).astype(jnp.result_type(x)), sums, params
        )
        loss = metrics.pop("loss")
        return (loss, {**metrics, ITEMS: jnp.sum(items)}), grads

    return value_and_grad
