"""Encoders: their sizes, and a stack of transformer layers that turns token ids to activations.

An encoder holds parameters and nothing else: it is used functionally, with dropout keys passed to
the call. Inside, tokens are one flat axis [B*T, D]: dense layers are then two-dimensional products,
which every backend runs fastest. `encode` reads packed rows for models that know nothing of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike

from hardem_jax.encoders.config import Implementation, Remat
from hardem_jax.encoders.ops.attention import Texts
from hardem_jax.encoders.ops.fused import ACTIVATIONS
from hardem_jax.errors import InputError, check_choice, require
from hardem_jax.placement import platform_of

Array = jax.Array
# What an encoder reads of a batch that is not packed.
_INPUTS = ("token_ids", "token_type_ids", "where")


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """Sizes of an encoder; architectures add fields with a default.

    `sizes` are the fields that are positive integers; `rates` those in [0, 1). An `InputError`
    names the first field that cannot be.
    """

    model_type: ClassVar[str]
    sizes: ClassVar[tuple[str, ...]] = (
        *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
        *("intermediate_size", "max_position_embeddings"),
    )
    rates: ClassVar[tuple[str, ...]] = ("hidden_dropout", "attention_dropout")

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int = 512

    def __post_init__(self) -> None:
        require(self, *self.sizes, at_least=1, optional=False)
        require(self, *self.rates, at_least=0, below=1, optional=False)
        act: Any = vars(self)["hidden_act"]
        if not isinstance(act, str) or act not in ACTIVATIONS:
            raise InputError(f"hidden_act: expected one of {sorted(ACTIVATIONS)}, found {act!r}")
        if self.hidden_size % self.num_attention_heads:
            raise InputError(
                f"hidden_size: expected a multiple of {self.num_attention_heads} heads, found "
                f"{self.hidden_size}"
            )

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def max_tokens(self) -> int:
        """Tokens of the longest input, special tokens included."""
        return self.max_position_embeddings


class Encoder(nnx.Module):
    """Embeddings and layers. Heads use `config`, `dtype` and calls.

    A subclass names the modules of both. `EMBEDDINGS` is called with ids [B, T], types, positions
    and dropout key (each may be `None`) and returns [B*T, D]; each `LAYER` with [B*T, D], what
    `layer_inputs` returns and a dropout key or `None`, and returns [B*T, D].

    Args:
        config: sizes.
        rngs: source of the initial parameters (stream `params`).
        dtype: of activations and matrix products; parameters, softmax and norms stay in float32.
        remat: what the backward pass recomputes to save memory, in this order: `"none"`, the
            `"attention"` probabilities (which is up to the layers), all but products with weights
            (`"dots"`), each `"layer"`.
        attention: its implementation, see `hardem_jax.encoders.ops.attention`.
        scan_layers: keep the parameters of all layers stacked on a leading axis and run them with
            `jax.lax.scan`: same outputs, and compile time independent of depth.
    """

    EMBEDDINGS: ClassVar[Any]
    LAYER: ClassVar[Any]

    def __init__(
        self,
        config: EncoderConfig,
        *,
        rngs: nnx.Rngs,
        dtype: DTypeLike = jnp.float32,
        remat: Remat = "none",
        attention: Implementation = "auto",
        scan_layers: bool = False,
    ):
        self.config = config
        self.dtype = dtype
        check_choice(remat, Remat, "remat")
        check_choice(attention, Implementation, "attention")
        self.remat: Remat = remat
        self.scan_layers = scan_layers
        self.attention: Implementation = attention
        self.embeddings: Any = self.EMBEDDINGS(config, rngs=rngs, dtype=dtype)
        options = {"attention": attention, "recompute_attention": remat == "attention"}
        layers = [
            self.LAYER(config, number, rngs=rngs, dtype=dtype, **options)
            for number in range(config.num_hidden_layers)
        ]
        # nnx.List of layers, or one layer whose parameters have a leading layer axis.
        self.layers: Any = stack(layers) if scan_layers else nnx.List(layers)

    def layer_inputs(
        self, where: jax.Array, positions: jax.Array | None, segments: Any
    ) -> tuple[Any, ...]:
        """What every layer gets besides activations and dropout key; rotary ones add theirs."""
        return where, segments

    def enter(self, x: jax.Array) -> Any:
        """The embeddings [B*T, D] as the first layer takes them."""
        return x

    def leave(self, x: Any) -> jax.Array:
        """[B*T, D] from what a layer returns, which is what the next one takes."""
        return x

    def finish(self, x: jax.Array) -> jax.Array:
        """The last layer's output [B*T, D] as heads see it; pre-norm encoders normalise it here."""
        return x

    def __call__(
        self,
        token_ids: jax.Array,
        *,
        where: jax.Array,
        token_type_ids: jax.Array | None = None,
        positions: jax.Array | None = None,
        segments: jax.Array | Texts | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> jax.Array:
        """Activations of the last layer, [B, T, D] in the compute dtype; arbitrary at padding.

        Args:
            token_ids: int [B, T]; without `positions`, T is at most `config.max_tokens`.
            where: bool [B, T], true at real tokens. No token attends to padding. Without `segments`
                they come first in each row: cuDNN's kernel only counts them.
            token_type_ids: int [B, T], 0 for the first text of an input and 1 for the second.
                `None` means all 0. Architectures without token types ignore it.
            positions: int [B, T], below `config.max_tokens` (not checked); `None` is 0, 1, ...
            segments: int [B, T], or `Texts`. A token attends only to real tokens of its own
                segment, so that several inputs can share a row. `None` means one input per row.
            rngs: source of the dropout key (stream `dropout`); `None` turns dropout off.
        """
        return self._run(token_ids, where, token_type_ids, positions, segments, rngs)[-1]

    def hidden_states(self, token_ids: jax.Array, **inputs: Any) -> tuple[jax.Array, ...]:
        """Embeddings and every layer's output: L + 1 arrays [B, T, D], the last layer last.

        Arguments and errors are those of a call.
        """
        return self._run(token_ids, **inputs, collect=True)

    def _run(
        self,
        token_ids: jax.Array,
        where: jax.Array,
        token_type_ids: jax.Array | None = None,
        positions: jax.Array | None = None,
        segments: Any = None,
        rngs: nnx.Rngs | None = None,
        collect: bool = False,
    ) -> tuple[jax.Array, ...]:
        """The last layer's output, or with ``collect`` the embeddings and every layer's."""
        depth, limit = self.config.num_hidden_layers, self.config.max_tokens
        batch, length = token_ids.shape
        if positions is None and length > limit:
            name = type(self).__name__
            raise InputError(f"{name} input: expected at most {limit} tokens, found {length}")
        keys = None if rngs is None else jax.random.split(rngs.dropout(), depth + 1)
        embedding_key = None if keys is None else keys[depth]
        x = self.embeddings(token_ids, token_type_ids, positions, embedding_key)
        layer_keys = None if keys is None else keys[:depth]
        run = self._scan_layers if self.scan_layers else self._loop_layers
        inputs = self.layer_inputs(where, positions, segments)
        states = run(self.enter(x), inputs, layer_keys, collect)
        states = [self.leave(state) for state in states]
        states[-1] = self.finish(states[-1])
        return tuple(state.reshape(batch, length, -1) for state in states)

    def _loop_layers(self, x, inputs, keys, collect) -> list[jax.Array]:
        states = [x]
        for index, layer in enumerate(self.layers):
            graphdef, params = nnx.split(layer)
            apply = _layer_function(graphdef, remat=self.remat, prevent_cse=True)
            states.append(apply(params, states[-1], inputs, None if keys is None else keys[index]))
        return states if collect else states[-1:]

    def _scan_layers(self, x, inputs, keys, collect) -> list[jax.Array]:
        graphdef, params = nnx.split(self.layers)
        # Common subexpressions are not merged across the iterations of a scan anyway.
        apply = _layer_function(graphdef, remat=self.remat, prevent_cse=False)

        def body(x, layer):
            y = apply(layer[0], x, inputs, layer[1])
            return y, y if collect else None

        last, stacked = jax.lax.scan(body, x, (params, keys))
        if stacked is None:
            return [last]
        leaves, form = jax.tree.flatten(stacked)
        return [x, *(form.unflatten(layer) for layer in zip(*leaves, strict=True))]


def stack(modules: Sequence[nnx.Module]) -> Any:
    """One module of several alike, whose parameters have a leading axis of them."""
    states = [nnx.state(module) for module in modules]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    return nnx.merge(nnx.graphdef(modules[0]), stacked)


def _layer_function(graphdef: Any, *, remat: Remat, prevent_cse: bool):
    def apply(params, x, inputs, key):
        return nnx.merge(graphdef, params)(x, *inputs, key)

    if remat not in ("dots", "layer"):
        return apply
    # Attention's products have a batch axis, those with weights have none.
    keep = jax.checkpoint_policies.dots_with_no_batch_dims_saveable if remat == "dots" else None
    return jax.checkpoint(apply, prevent_cse=prevent_cse, policy=keep)


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


def _packed_inputs(batch: Mapping[str, Array]) -> dict[str, Any]:
    """What the encoder reads: ``[P, S]`` each."""
    packing, num_tokens = batch["packing"], batch["token_ids"].shape[1]
    num_devices, _, row_tokens = packing.shape
    places = packing.reshape(-1, row_tokens)
    real = places >= 0
    segments: Any = jnp.where(real, places // num_tokens, -1)
    if platform_of(packing) == "gpu":  # what is left over in a row needs a slot, too
        segments = Texts(segments, -(-len(batch["token_ids"]) // len(places)) + 1)

    def packed(values: Array) -> Array:
        tokens = values.reshape(num_devices, -1, 1)
        return _take(tokens, packing.reshape(num_devices, -1)).reshape(places.shape)

    return {
        "token_ids": packed(batch["token_ids"]),
        "token_type_ids": packed(batch["token_type_ids"]),
        "where": real,
        "positions": jnp.where(real, places % num_tokens, 0),
        "segments": segments,
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
