"""The training step: builds the pure function and compiles it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from hardem_jax.errors import InputError
from hardem_jax.training.devices.mesh import is_gpu, replicated
from hardem_jax.training.grad_accumulation import (
    MEMORY,
    LossFn,
    accumulated_value_and_grad,
)
from hardem_jax.training.optimizer import AdamState, global_norm
from hardem_jax.training.run_progress import Mean
from hardem_jax.training.state import TrainState, recall, remember

Metrics = dict[str, jax.Array | Mean]
_GPU_OPTIONS = {
    # XLA merges products that share an input, up to this size in MiB, and copies the results apart.
    "xla_gpu_dot_merger_threshold_mb": 0,
    # Else biases are added by kernels of their own, after products that cuBLAS computes in the end.
    "xla_gpu_enable_triton_gemm": False,
}
TrainStep = Callable[[TrainState, Any], tuple[TrainState, Metrics]]


def make_train_step(
    loss_fn: LossFn,
    optimizer: optax.GradientTransformation,
    schedule: optax.Schedule | None = None,
    *,
    accumulate: int = 1,
) -> TrainStep:
    """Builds the pure, uncompiled function `train_step(state, batch) -> (state, metrics)`.

    With `accumulate` k above 1 the arrays of a batch are `[k, R, ...]`, processed as k
    micro-batches (`grad_accumulation.accumulated_value_and_grad`).

    To the loss function's own metrics it adds `loss`, `grad_norm` (before clipping), `finite`
    (1 if loss and gradient are finite, else 0) and, if a schedule is given, `learning_rate`:
    float32 `[]` each. A non-finite step increments the step counter but leaves parameters,
    optimiser state and memory unchanged.

    Raises:
        InputError: (when traced) the loss or a metric is not a scalar.

    Example:
        >>> from hardem_jax.training.devices.mesh import data_mesh
        >>> from hardem_jax.training.state import init_state
        >>> def loss_fn(params, batch, *, step, key, dropout_key):
        ...     return jnp.mean((batch["x"] * params["w"]) ** 2), {}
        >>> optimizer = optax.sgd(0.25)
        >>> state = init_state({"w": jnp.ones(())}, optimizer, seed=0, mesh=data_mesh(1))
        >>> state, metrics = make_train_step(loss_fn, optimizer)(state, {"x": jnp.ones(4)})
        >>> float(metrics["loss"]), float(state.params["w"])
        (1.0, 0.5)
    """

    def checked(*args: Any, **step_args: Any) -> Any:
        loss, metrics = loss_fn(*args, **step_args)
        for name, value in {**metrics, "the loss": loss}.items():
            shapes = {jnp.shape(x) for x in jax.tree.leaves(value)}
            if name != MEMORY and shapes != {()}:
                raise InputError(
                    f"loss_fn: {name}: expected a scalar, found shape {', '.join(map(str, shapes))}"
                )
        return loss, metrics

    if accumulate == 1:
        value_and_grad = jax.value_and_grad(checked, has_aux=True)
    else:
        value_and_grad = accumulated_value_and_grad(checked, accumulate)

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
        >>> from hardem_jax.training.devices.mesh import data_mesh, place_batch
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
