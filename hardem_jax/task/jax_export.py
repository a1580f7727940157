"""Trained models as programs that jax alone runs, on any device and at any batch size and length.

`jax.export` serialises a model's computation, weights included, as StableHLO. Using one takes only
jax and flatbuffers, neither this project nor Flax:

    program = jax.export.deserialize(bytearray(Path("reader.jaxprogram").read_bytes()))
    outputs = program.call(batch)

In it, XLA computes attention without kernels, which are programs for one kind of device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import export
from jax.typing import DTypeLike

from hardem_jax.encoders.ops.attention import only_xla
from hardem_jax.extras import require_packages

#: Devices that programs are compiled for where they are loaded.
PLATFORMS = ("cpu", "cuda", "tpu")

# An input of a model: its dimensions, such as "batch, tokens", and its type.
Inputs = Mapping[str, tuple[str, DTypeLike]]
TEXT_INPUTS: Inputs = {
    "token_ids": ("batch, tokens", jnp.int32),
    "token_type_ids": ("batch, tokens", jnp.int32),
    "where": ("batch, tokens", jnp.bool_),
}


def export_model(
    model: nnx.Module,
    inputs: Inputs,
    outputs: Callable[[Any], Any],
    *,
    max_tokens: int | None = None,
) -> bytes:
    """A model as a program of one argument, the batch.

    Args:
        model: called with a batch, without dropout. Its weights become part of the program.
        inputs: of the batch, by name. Dimensions that are words may have any size, the same
            wherever the word recurs; numbers are fixed, and "2*columns" is twice another. "tokens"
            is at most `max_tokens`, or calling the program is an error.
        outputs: what the model returns -> arrays in dicts, lists and tuples, which need no code to
            be read back.
        max_tokens: of the longest input; None for any length.

    Returns:
        What `jax.export.deserialize` reads. The program runs on `PLATFORMS`.

    Example:
        >>> class Sums(nnx.Module):
        ...     def __call__(self, batch):
        ...         return batch["x"].sum(axis=1)
        >>> inputs = {"x": ("batch, tokens", jnp.float32)}
        >>> program = export_model(Sums(), inputs, lambda sums: {"sums": sums}, max_tokens=8)
        >>> export.deserialize(bytearray(program)).call({"x": jnp.ones((2, 3))})["sums"].tolist()
        [3.0, 3.0]
    """
    require_packages("models", "flatbuffers")
    limits = [] if max_tokens is None else [f"tokens <= {max_tokens}"]
    scope = export.SymbolicScope(limits)
    batch = {
        name: jax.ShapeDtypeStruct(export.symbolic_shape(shape, scope=scope), dtype)
        for name, (shape, dtype) in inputs.items()
    }
    graphdef, state = nnx.split(model)

    def run(batch):
        return outputs(nnx.merge(graphdef, state)(batch))  # type: ignore[operator]

    with only_xla():
        exported = export.export(jax.jit(run), platforms=PLATFORMS)(batch)
    return bytes(exported.serialize())
