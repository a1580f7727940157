"""Gradient accumulation: a step's loss and gradient from sequential micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from hardem_jax.training.run_progress import Mean

#: The metric that reports the number of items a loss averages over.
ITEMS = "items"
#: The metric that reports how many tokens a step has read.
TOKENS = "tokens"
#: The entry of a batch, and of a loss's metrics, with the memory of the rows (`TrainState.memory`).
MEMORY = "memory"


#: (params, batch, *, step, key, dropout_key) -> ((loss, metrics), gradient of the parameters).
ValueAndGrad = Callable[..., tuple[tuple[jax.Array, Mapping[str, Any]], Any]]


class LossFn(Protocol):
    """The loss function of a task.

    `params`: the trained pytree; `batch`: pytree of device arrays with leading axis R; `step`:
    int32 `[]`, updates made before this one; `key`: PRNG key `[]` of this step, shared by its
    micro-batches, from which objectives draw; `dropout_key`: PRNG key `[]` of this micro-batch.
    Returns the scalar loss, averaged over items (excluding padded rows), and scalar metrics by
    name, or `Mean`s. The metric `items`, the number of items that the loss is the mean over, is
    required for gradient accumulation; without any, it is 0 and so is the loss.

    A loss may keep a memory of each training input. If the run has one (`TrainState.memory`), the
    batch's entry `memory` holds what it says about the input of each row, `[R, ...]` by name, as of
    the beginning of the step. What the loss returns among its metrics under `memory`, in the same
    layout, is written back unless the step was not finite; entries that it does not return are
    unchanged. Rows whose `item` is -1 (padding, sampled negatives) read zeros and write nothing.
    """

    def __call__(
        self,
        params: Any,
        batch: Any,
        *,
        step: jax.Array,
        key: jax.Array,
        dropout_key: jax.Array,
    ) -> tuple[jax.Array, Mapping[str, Any]]: ...


def accumulated_value_and_grad(loss_fn: LossFn, parts: int) -> ValueAndGrad:
    r"""Like `jax.value_and_grad(loss_fn, has_aux=True)`, accumulated over micro-batches.

    .. math:: L = \sum_i n_i L_i \Big/ \sum_i n_i

    where micro-batch i has :math:`n_i` items: the mean over all items, as for a single batch.
    Metrics are averaged in the same way, `items`, `tokens` and the parts of a `Mean` are summed,
    and rows of `memory` are stacked, `[k, R, ...]`. Sums are float32; activations take the memory
    of one micro-batch; one without items adds nothing. The result differs from that of a single
    batch only in what is drawn for each row, dropout above all, where each micro-batch has its own
    key, in the order of summation, and under objectives that look at more than one row,
    which see a micro-batch, or take the mean over other rows than `items` counts
    (`hardem_jax.objectives.ThresholdedHardEM`). The arrays of a batch are ``[k, R, ...]``; scalars
    are shared by all micro-batches. The loss must report the metric `items`.

    Example:
        >>> def loss_fn(params, batch, *, step, key, dropout_key):
        ...     items = jnp.sum(batch["where"])
        ...     return jnp.sum(params * batch["x"] * batch["where"]) / items, {"items": items}
        >>> batch = {"x": jnp.array([[1.0, 2.0], [6.0, 9.0]]), "where": jnp.array([[1, 1], [1, 0]])}
        >>> step_args = {"step": 0, "key": jax.random.key(0), "dropout_key": jax.random.key(1)}
        >>> value_and_grad = accumulated_value_and_grad(loss_fn, parts=2)
        >>> (loss, metrics), gradient = value_and_grad(2.0, batch, **step_args)
        >>> float(loss), float(metrics["items"]), float(gradient)  # (1 + 2 + 6) / 3, doubled
        (6.0, 3.0, 3.0)
    """

    def total(params: Any, part: Any, **step_args: jax.Array):
        loss, metrics = loss_fn(params, part, **step_args)
        if ITEMS not in metrics:
            raise ValueError(
                f"loss_fn: expected the metric {ITEMS!r}, required with {parts} micro-batches"
            )
        metrics = dict(metrics)
        rows = metrics.pop(MEMORY, None)
        metrics = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), metrics)
        # Scaled before differentiation, so that gradients only need summing, which the compiler
        # can do before the all-reduce.
        return loss * jax.lax.stop_gradient(metrics[ITEMS]), ({**metrics, "loss": loss}, rows)

    def value_and_grad(params: Any, batch: Any, *, step, key, dropout_key):
        def add(sums: Any, index: jax.Array):
            def select(array: jax.Array) -> jax.Array:
                if not jnp.ndim(array):
                    return array
                return jax.lax.dynamic_index_in_dim(array, index, keepdims=False)

            grads, aux = jax.grad(total, has_aux=True)(
                params,
                jax.tree.map(select, batch),
                step=step,
                key=jax.random.clone(key),  # the same draw in every micro-batch
                dropout_key=jax.random.fold_in(dropout_key, index),
            )
            return jax.tree.map(lambda s, g: s + g.astype(s.dtype), sums, grads), aux

        zeros = jax.tree.map(lambda x: jnp.zeros(jnp.shape(x), jnp.float32), params)
        sums, (stacked, rows) = jax.lax.scan(add, zeros, jnp.arange(parts))
        items = stacked.pop(ITEMS)
        count = jnp.maximum(jnp.sum(items), 1)

        def of_all(name: str, x: Any) -> Any:
            if name == TOKENS or isinstance(x, Mean):
                return jax.tree.map(jnp.sum, x)
            return jnp.sum(items * x) / count

        metrics = {name: of_all(name, x) for name, x in stacked.items()}
        grads = jax.tree.map(lambda s, x: (s / count).astype(jnp.result_type(x)), sums, params)
        loss = metrics.pop("loss")
        metrics[ITEMS] = jnp.sum(items)
        return (loss, metrics if rows is None else {**metrics, MEMORY: rows}), grads

    return value_and_grad
