"""The parts of a BERT layer as single operations, with kernels for GPUs behind them.

XLA writes a sum over rows (each bias and LayerNorm has two in its gradient) as kernels of their
own, which read again what the element-wise kernel before has just written. Here a GPU computes
both in one pass (`gpu_kernels`). `bert.py` says where; elsewhere a layer is written
as in its paper. What several products and a residual connection read is returned once for each of
them: their gradients then arrive apart, and are added up inside the next kernel.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from hardem_jax.encoders.ops import fused
from hardem_jax.encoders.ops.attention import compile_fault
from hardem_jax.placement import on_own_rows


def _kernels() -> Any:
    """Imported where they are used, for JAX may come without what they are written in."""
    from hardem_jax.encoders.ops import gpu_kernels

    return gpu_kernels


@functools.cache
def fault() -> str | None:
    """Why the kernels cannot be compiled on the GPU at hand; `None` if they can, or none is."""

    def total(x, kernel, row, seeds):
        out: Any = dense_norm(x, x, kernel, row, row, row, seeds, 0.1, 1e-6, 2)
        [out] = dense_each(out[:1], (kernel,), (row,))
        return dense_gelu(out, kernel, row).astype(jnp.float32).sum()

    shapes = ((8, 128), jnp.bfloat16), ((128, 128), jnp.float32), ((128,), jnp.float32)
    inputs = [jax.ShapeDtypeStruct(*shape) for shape in (*shapes, ((2,), jnp.uint32))]
    return compile_fault(jax.grad(total), *inputs)


@functools.partial(jax.custom_vjp, nondiff_argnums=(7, 8, 9))
def dense_norm(
    residual: jax.Array,
    x: jax.Array,
    kernel: jax.Array,
    bias: jax.Array,
    scale: jax.Array,
    shift: jax.Array,
    seeds: jax.Array,
    rate: float,
    eps: float,
    times: int,
) -> tuple[jax.Array, ...]:
    """LayerNorm(residual + dropout(x W + b)): [N, D], so many times as there are readers.

    `shift` is LayerNorm's bias; `seeds` are from `dropout_seeds`, of any value where `rate` is 0.
    """
    return _dense_norm_fwd(residual, x, kernel, bias, scale, shift, seeds, rate, eps, times)[0]


def _dense_norm_fwd(residual, x, kernel, bias, scale, shift, seeds, rate, eps, times):
    y = fused.linear(x, kernel, None)
    compute = functools.partial(_kernels().norm, rate=rate, eps=eps)
    rows, shared = (residual, y), (bias, scale, shift, seeds)
    out, *saved = on_own_rows(compute, *rows, shared=shared, with_first=True)
    return (out,) * times, (x, kernel, scale, seeds, *saved)


def _dense_norm_bwd(rate, eps, times, saved, grads):
    del eps, times
    x, kernel, scale, seeds, added, means, inverses = saved
    compute = functools.partial(_kernels().norm_gradient, rate=rate)
    rows = (*grads, added, means, inverses)
    found = on_own_rows(compute, *rows, shared=(scale, seeds), with_first=True)
    grad_residual, grad_y, sums = found
    grad_scale, grad_shift, grad_bias = sums.sum(axis=0)
    grad_x, grad_kernel, _ = fused.linear_gradient((x, kernel, None), grad_y)
    return grad_residual, grad_x, grad_kernel, grad_bias, grad_scale, grad_shift, None


dense_norm.defvjp(_dense_norm_fwd, _dense_norm_bwd)


@jax.custom_vjp
def dense_gelu(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    """GELU(x W + b) with the exact distribution function: [N, D] -> [N, F]."""
    return _dense_gelu_fwd(x, kernel, bias)[0]


def _dense_gelu_fwd(x, kernel, bias):
    y = fused.linear(x, kernel, None)
    return on_own_rows(_kernels().gelu, y, shared=(bias,)), (x, kernel, bias, y)


def _dense_gelu_bwd(saved, grad):
    x, kernel, bias, y = saved
    grad_y, sums = on_own_rows(_kernels().gelu_gradient, y, grad, shared=(bias,))
    grad_x, grad_kernel, _ = fused.linear_gradient((x, kernel, None), grad_y)
    return grad_x, grad_kernel, sums.sum(axis=0)


dense_gelu.defvjp(_dense_gelu_fwd, _dense_gelu_bwd)


@jax.custom_vjp
def dense_each(
    inputs: tuple[jax.Array, ...], kernels: tuple[jax.Array, ...], biases: tuple[jax.Array, ...]
) -> tuple[jax.Array, ...]:
    """x W + b for several x, W and b: [N, D] -> [N, F] each."""
    return _dense_each_fwd(inputs, kernels, biases)[0]


def _dense_each_fwd(inputs, kernels, biases):
    each = zip(inputs, kernels, biases, strict=True)
    return tuple(fused.linear(x, w, b) for x, w, b in each), (inputs, kernels)


def _dense_each_bwd(saved, grads):
    sums = on_own_rows(_kernels().column_sums, *grads).sum(axis=0)
    each = zip(*saved, grads, strict=True)
    parts = [fused.linear_gradient((x, kernel, None), grad) for x, kernel, grad in each]
    grad_inputs, grad_kernels, _ = zip(*parts, strict=True)
    return grad_inputs, grad_kernels, tuple(sums)


dense_each.defvjp(_dense_each_fwd, _dense_each_bwd)
