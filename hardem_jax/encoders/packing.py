"""An encoder that reads packed rows for a model that knows nothing of packing."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import nnx

from hardem_jax.encoders.base import Encoder
from hardem_jax.errors import InputError

Array = jax.Array
_INPUTS = ("token_ids", "token_type_ids", "where")


def encode(encoder: Encoder, batch: Mapping[str, Array], *, rngs: nnx.Rngs | None = None) -> Array:
    """Activations of the encoder's last layer, `[R, T, D]`, at the places of the batch.

    With ``packing`` `[G, P / G, S]` and ``unpacking`` `[R, T]` in the batch (see `packing_arrays`),
    the encoder reads P rows of S tokens. A token attends to those of its own input, and positions
    count from its first token: activations and their gradient are the same to rounding. At padding
    they mean nothing; packed, they are 0.
    """
    return encode_layers(encoder, batch, count=1, rngs=rngs)[0]


def encode_layers(
    encoder: Encoder, batch: Mapping[str, Array], *, count: int, rngs: nnx.Rngs | None = None
) -> tuple[Array, ...]:
    """The outputs of the encoder's last ``count`` layers, the last one last; see `encode`."""
    packed = "packing" in batch
    num_tokens, limit = batch["token_ids"].shape[1], encoder.config.max_tokens
    if packed and num_tokens > limit:  # unpacked, the encoder itself looks
        name = type(encoder).__name__
        raise InputError(f"{name} input: expected at most {limit} tokens, found {num_tokens}")
    inputs = _packed_inputs(batch) if packed else {name: batch[name] for name in _INPUTS}
    token_ids = inputs.pop("token_ids")
    if count == 1:
        layers = (encoder(token_ids, **inputs, rngs=rngs),)
    else:
        layers = encoder.hidden_states(token_ids, **inputs, rngs=rngs)[-count:]
    return tuple(_unpacked(layer, batch) for layer in layers) if packed else layers


def _packed_inputs(batch: Mapping[str, Array]) -> dict[str, Array]:
    """What the encoder reads: ``[P, S]`` each."""
    packing, num_tokens = batch["packing"], batch["token_ids"].shape[1]
    num_devices, _, row_tokens = packing.shape
    places = packing.reshape(-1, row_tokens)
    real = places >= 0

    def packed(values: Array) -> Array:
        tokens = values.reshape(num_devices, -1, 1)
        return _take(tokens, packing.reshape(num_devices, -1)).reshape(places.shape)

    return {
        "token_ids": packed(batch["token_ids"]),
        "token_type_ids": packed(batch["token_type_ids"]),
        "where": real,
        "positions": jnp.where(real, places % num_tokens, 0),
        "segments": jnp.where(real, places // num_tokens, -1),
    }


def _unpacked(hidden: Array, batch: Mapping[str, Array]) -> Array:
    """``[P, S, D]`` -> ``[R, T, D]``."""
    packing, unpacking = batch["packing"], batch["unpacking"]
    num_devices = packing.shape[0]
    rows = _permute(
        hidden.reshape(num_devices, -1, hidden.shape[-1]),
        unpacking.reshape(num_devices, -1),
        packing.reshape(num_devices, -1),
    )
    return rows.reshape(*unpacking.shape, -1)


def token_metrics(batch: Mapping[str, Array]) -> dict[str, Array]:
    """Of a training step: `tokens` that are real, and `real_tokens`, their share, float32 []."""
    read = batch["packing"] if "packing" in batch else batch["where"]
    tokens = jnp.sum(batch["where"]).astype(jnp.float32)
    return {"tokens": tokens, "real_tokens": tokens / read.size}


def _take(x: Array, index: Array) -> Array:
    """``x[g, index[g, m]]``, 0 where that is -1: ``[G, N, D]``, ``[G, M]`` -> ``[G, M, D]``."""
    taken = jax.vmap(lambda rows, chosen: rows[chosen])(x, jnp.maximum(index, 0))
    return jnp.where((index >= 0)[..., None], taken, jnp.zeros((), x.dtype))


@jax.custom_vjp
def _permute(x: Array, index: Array, inverse: Array) -> Array:
    """`_take` by an index that takes nothing twice, whose gradient is taken by its inverse.

    A gather both ways: the scatter that automatic differentiation writes adds up where nothing
    has to be added, one element after the other on accelerators.
    """
    return _take(x, index)


def _permute_fwd(x, index, inverse):
    return _take(x, index), inverse


def _permute_bwd(inverse, grad):
    return _take(grad, inverse), None, None


_permute.defvjp(_permute_fwd, _permute_bwd)
