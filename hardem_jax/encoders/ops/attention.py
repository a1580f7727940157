"""Scaled dot-product attention with a per-device implementation.

| name     | computed by                                      | where | dropout | dtypes       |
|----------|--------------------------------------------------|-------|---------|--------------|
| `xla`    | `fused.attention`, fused by the compiler         | all   | yes     | any          |
| `cudnn`  | cuDNN's fused kernel                             | GPUs  | no      | 16 bits      |
| `splash` | JAX's Pallas kernel, gradients in one kernel too | TPUs  | no      | any          |
| `auto`   | the kernel of the device if it can, else `xla`   | all   | yes     | any          |

`auto` falls back to `xla` where the kernel cannot be used; a kernel requested by name raises an
error instead. If the kernel itself is missing, XLA is used with a warning.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import dataclasses
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from hardem_jax.encoders.config import Implementation
from hardem_jax.encoders.ops import fused
from hardem_jax.errors import InputError
from hardem_jax.placement import platform_of

# Kernel -> the platform it is for.
_PLATFORMS = {"cudnn": "gpu", "splash": "tpu"}
# `custom_call @name(` of StableHLO, `custom_call_target="name"` of HLO.
_CALL = re.compile(r'custom_call(?: @|_target=")(tpu_custom_call|__cudnn\$fmha\w+)')


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Texts:
    """Segments int32 [B, T] of rows as `data.batching.plans.packing_arrays` packs them.

    What a row has left over, -1, counts as a text. Every row has this many `slots`. A text may
    take a slot of an earlier row, never of a later one.
    """

    segments: jax.Array
    slots: int = dataclasses.field(metadata={"static": True})


_KERNELS = contextvars.ContextVar("kernels", default="here")


def only_xla() -> contextlib.AbstractContextManager[None]:
    """Whatever is traced inside has attention computed by XLA, so that it runs on any device.

    Example:
        >>> x, where = jnp.ones((1, 3, 2, 4)), jnp.ones((1, 3), bool)
        >>> with only_xla():  # without the warning that this is no TPU
        ...     attention(x, x, x, where=where, implementation="splash").shape
        (1, 3, 2, 4)
    """
    return kernels_are("none")


@contextlib.contextmanager
def kernels_are(which: str) -> Iterator[None]:
    """Makes `allowed_kernels` return this inside."""
    token = _KERNELS.set(which)
    try:
        yield
    finally:
        _KERNELS.reset(token)


def allowed_kernels() -> str:
    """Which: "here" (of this platform), "none", or "interpreted" (those of GPUs, on any device)."""
    return _KERNELS.get()


def kernels_compute(what: str, x: jax.Array, fault: Callable[[], str | None]) -> bool:
    """Whether kernels for GPUs compute `what`, of `x`; warns where there is a `fault`."""
    if allowed_kernels() != "here" or platform_of(x) != "gpu":
        return allowed_kernels() == "interpreted"
    if (reason := fault()) is not None:
        # Python shows a warning of one text and place once.
        warnings.warn(f"{what} are computed without kernels of their own: {reason}", stacklevel=1)
    return reason is None


def compile_fault(function: Callable[..., Any], *inputs: Any) -> str | None:
    """Why a function cannot be compiled for the GPU at hand; `None` if it can, or none is."""
    if jax.default_backend() == "gpu":
        try:
            jax.jit(function).lower(*inputs).compile()
        except (RuntimeError, ValueError, ImportError, AttributeError) as error:
            return str(error).partition("\n")[0]
    return None


def check_attention(implementation: str, *, dtype: DTypeLike, rate: float) -> None:
    """Raises an error if a kernel does not support this dropout rate or dtype.

    Args:
        implementation: see `attention`.
        dtype: of q, k and v.
        rate: of dropout on the probabilities.

    Raises:
        InputError: a kernel that is named supports no dropout or not this dtype.

    Example:
        >>> check_attention("splash", dtype=jnp.float32, rate=0.1)
        Traceback (most recent call last):
        hardem_jax.errors.InputError: attention: expected attention_dropout 0 with the kernel \
'splash', found 0.1; set it to 0, or attention to 'auto'
    """
    if implementation in _PLATFORMS and rate > 0:
        raise InputError(
            f"attention: expected attention_dropout 0 with the kernel {implementation!r}, "
            f"found {rate:g}; set it to 0, or attention to 'auto'"
        )
    if implementation == "cudnn" and not _is_half(dtype):
        raise InputError(
            "attention: expected bfloat16 or float16 with the kernel 'cudnn', "
            f"found {jnp.dtype(dtype).name}; set dtype, or attention to 'auto'"
        )


def attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    *,
    where: jax.Array,
    segments: jax.Array | Texts | None = None,
    seeds: jax.Array | None = None,
    rate: float = 0.0,
    window: int | None = None,
    implementation: Implementation = "auto",
    recompute: bool = False,
) -> jax.Array:
    """Attention of every token to the real tokens of its segment (Vaswani et al., 2017, 3.2).

    Args:
        q, k, v: [B, T, heads, head size], of one dtype.
        where: bool [B, T], true at keys that may be attended to. Without segments they come first
            in each row (`cudnn` counts them).
        segments: int32 [B, T]; a token attends only to keys of its own segment. `None`: to all.
            With `Texts`, `cudnn` needs no mask [B, 1, T, T] on a GPU of Hopper's or later.
        seeds: uint32 [2] from `dropout_seeds`, or `None` when `rate` is 0.
        rate: probability of dropping a probability, `0 <= rate < 1`.
        window: local attention: a token attends only to keys within this many positions on either
            side. `None` means no limit. The tokens of a segment stand next to each other.
        implementation: a name in the module's table. The device is that of the arrays' mesh, which
            may be a remote one, else JAX's default.
        recompute: compute the probabilities again in the backward pass, as kernels always do.

    Returns:
        [B, T, heads, head size] in the dtype of `v`; finite at tokens that see no key.

    Raises:
        InputError: see `check_attention`.

    Example:
        >>> x = jnp.ones((1, 3, 2, 4))
        >>> attention(x, x, x, where=jnp.array([[True, True, False]])).shape
        (1, 3, 2, 4)
    """
    check_attention(implementation, dtype=q.dtype, rate=rate)
    slots = segments.slots if isinstance(segments, Texts) else None
    segments = segments.segments if isinstance(segments, Texts) else segments
    chosen = _choose(implementation, q, where, segments, rate, window)
    if chosen == "splash":
        return _kernels().splash(q, k, v, where, segments, window=window)
    if chosen == "cudnn" and slots is not None and window is None:
        fault = _kernels().cudnn_fault(q.shape, q.dtype, False, slots)
        if fault is None:
            return _kernels().cudnn_texts(q, k, v, segments, slots)
        warnings.warn(f"cuDNN gets packed rows with a mask [B, 1, T, T]: {fault}", stacklevel=1)
    if chosen == "cudnn":
        return _kernels().cudnn(q, k, v, where, segments, window=window)
    q, k, v = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    compute = fused.attention
    if recompute:
        compute = jax.checkpoint(compute, static_argnums=(6, 7))
    out: jax.Array = compute(q, k, v, where, segments, seeds, rate, window)
    return out.transpose(0, 2, 1, 3)


def _is_half(dtype: DTypeLike) -> bool:
    return jnp.dtype(dtype) in (jnp.bfloat16, jnp.float16)


def _choose(implementation, q, where, segments, rate, window) -> str:
    if _KERNELS.get() == "none":
        return "xla"
    platform = platform_of(q, where)
    if implementation == "auto":
        kernel = {"gpu": "cudnn", "tpu": "splash"}.get(platform)
        if kernel is None or rate > 0 or (kernel == "cudnn" and not _is_half(q.dtype)):
            return "xla"
        implementation = kernel
    if implementation == "xla":
        return "xla"
    fault = None
    if platform != _PLATFORMS[implementation]:
        fault = f"a kernel of {_PLATFORMS[implementation].upper()}s, not of this {platform}"
    elif implementation == "cudnn":
        fault = _kernels().cudnn_fault(q.shape, q.dtype, segments is not None or window is not None)
    if fault is None:
        return implementation
    # Python shows a warning of one text and place once.
    warnings.warn(f"attention is computed by XLA, not by {implementation!r}: {fault}", stacklevel=1)
    return "xla"


def kernels(program: str) -> dict[str, int]:
    """Counts attention-kernel custom calls in a program.

    Args:
        program: text of StableHLO (`lowered.as_text()`) or HLO (`compiled.as_text()`).

    Example:
        >>> kernels('%a = custom-call(%q), custom_call_target="tpu_custom_call"')
        {'tpu_custom_call': 1}
        >>> kernels(jax.jit(jnp.sin).lower(1.0).as_text())
        {}
    """
    return dict(collections.Counter(_CALL.findall(program)))


def _kernels() -> Any:
    """Imported where they are used."""
    from hardem_jax.encoders.ops import attention_kernels

    return attention_kernels
