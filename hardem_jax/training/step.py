"""The training step: a loss, its gradient, one or several micro-batches, and the update."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from hardem_jax.training.mesh import is_gpu, replicated
from hardem_jax.training.optimizer import AdamState, global_norm
from hardem_jax.training.run_progress import Mean
from hardem_jax.training.state import MEMORY, TrainState, recall, remember

#: The metric that reports the number of items a loss averages over.
ITEMS = "items"
#: The metric that reports how many tokens a step has read.
TOKENS = "tokens"

Metrics = dict[str, jax.Array | Mean]
_GPU_OPTIONS = {
    # XLA merges products that share an input, up to this size in MiB, and copies the results apart.
    "xla_gpu_dot_merger_threshold_mb": 0,
    # Else biases are added by kernels of their own, after products that cuBLAS computes in the end.
    "xla_gpu_enable_triton_gemm": False,
}
TrainStep = Callable[[TrainState, Any], tuple[TrainState, Metrics]]
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
        self, params: Any, batch: Any, *, step: jax.Array, key: jax.Array, dropout_key: jax.Array
    ) -> tuple[jax.Array, Mapping[str, Any]]: ...


def make_train_step(
    loss_fn: LossFn,
    optimizer: optax.GradientTransformation,
    schedule: optax.Schedule | None = None,
    *,
    accumulate: int = 1,
) -> TrainStep:
    """Builds the pure, uncompiled function `train_step(state, batch) -> (state, metrics)`.

    With `accumulate` k above 1 the arrays of a batch are `[k, R, ...]`, processed as k
    micro-batches (`accumulated_value_and_grad`).

    To the loss function's own metrics it adds `loss`, `grad_norm` (before clipping), `finite`
    (1 if loss and gradient are finite, else 0) and, if a schedule is given, `learning_rate`:
    float32 `[]` each. A non-finite step increments the step counter, from which `learning_rate` is
    read, but leaves parameters, optimiser state (with its own count) and memory unchanged.

    Example:
        >>> from hardem_jax.training.mesh import data_mesh
        >>> from hardem_jax.training.state import init_state
        >>> def loss_fn(params, batch, *, step, key, dropout_key):
        ...     return jnp.mean((batch["x"] * params["w"]) ** 2), {}
        >>> optimizer = optax.sgd(0.25)
        >>> state = init_state({"w": jnp.ones(())}, optimizer, seed=0, mesh=data_mesh(1))
        >>> state, metrics = make_train_step(loss_fn, optimizer)(state, {"x": jnp.ones(4)})
        >>> float(metrics["loss"]), float(state.params["w"])
        (1.0, 0.5)
    """

    if accumulate == 1:
        value_and_grad = jax.value_and_grad(loss_fn, has_aux=True)
    else:
        value_and_grad = accumulated_value_and_grad(loss_fn, accumulate)

    def train_step(state: TrainState, batch: Any) -> tuple[TrainState, Metrics]:
        dropout_key, key = jax.random.split(jax.random.fold_in(state.key, state.step))
        (loss, aux), grads = value_and_grad(
            state.params,
            recall(state.memory, batch),
            step=state.step,
            key=key,
            dropout_key=dropout_key,
        )
        aux = dict(aux)
        grad_norm = global_norm(grads)
        finite = jnp.isfinite(loss) & jnp.isfinite(grad_norm)
        updates, opt_state = optax.with_extra_args_support(optimizer).update(
            grads, state.opt_state, state.params, finite=finite
        )
        params = optax.apply_updates(state.params, updates)
        params, opt_state = jax.tree.map(
            lambda new, old: new if isinstance(new, AdamState) else jnp.where(finite, new, old),
            (params, opt_state),
            (state.params, state.opt_state),
            is_leaf=lambda node: isinstance(node, AdamState),
        )
        memory = remember(state.memory, aux.pop(MEMORY, {}), batch, finite)
        metrics = {**aux, "loss": loss, "grad_norm": grad_norm, "finite": finite}
        if schedule is not None:
            metrics["learning_rate"] = schedule(state.step)
        metrics = jax.tree.map(lambda value: jnp.asarray(value, jnp.float32), metrics)
        return dataclasses.replace(
            state, step=state.step + 1, params=params, opt_state=opt_state, memory=memory
        ), metrics

    return train_step


def compile_train_step(train_step: TrainStep, mesh: Mesh, shardings: Any = None) -> Any:
    """Jits a step for a mesh; metrics are replicated on every device.

    The batch keeps the sharding that `place_batch` gave it. The state is donated: the one
    passed in is deleted and its memory reused. There is one compilation per set of batch
    shapes; `jax.log_compiles()` shows them.

    Args:
        train_step: from `make_train_step`.
        mesh: see `data_mesh`.
        shardings: shardings of the state (`state.current_shardings`); None replicates it.

    Example:
        >>> from hardem_jax.training.mesh import data_mesh, place_batch
        >>> from hardem_jax.training.state import init_state
        >>> def loss_fn(params, batch, *, step, key, dropout_key):
        ...     return jnp.mean((batch["x"] * params["w"]) ** 2), {}
        >>> mesh, optimizer = data_mesh(1), optax.sgd(0.25)
        >>> train_step = compile_train_step(make_train_step(loss_fn, optimizer), mesh)
        >>> state = init_state({"w": jnp.ones(())}, optimizer, seed=0, mesh=mesh)
        >>> state, metrics = train_step(state, place_batch({"x": jnp.ones(4)}, mesh))
        >>> float(state.params["w"])
        0.5
    """
    state_sharding = replicated(mesh) if shardings is None else shardings
    return jax.jit(
        train_step,
        in_shardings=(state_sharding, None),
        out_shardings=(state_sharding, replicated(mesh)),
        donate_argnums=0,
        compiler_options=_GPU_OPTIONS if is_gpu(mesh) else None,
    )


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
