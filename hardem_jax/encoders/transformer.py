"""A stack of transformer layers: rematerialisation, scan over layers, hidden states.

Architectures derive from `TransformerEncoder` and bring their embeddings and their layer. The
module holds parameters and nothing else (`nnx.split(encoder, nnx.Param)` leaves no rest), so it is
used functionally: dropout keys are passed to the call, and `nnx.merge` works inside plain `jax.jit`
and `jax.value_and_grad`. Inside, tokens are one flat axis [B*T, D]: dense layers are then
two-dimensional products, which every backend runs fastest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike

from hardem_jax.encoders.base import EncoderConfig
from hardem_jax.encoders.config import Implementation, Remat
from hardem_jax.errors import InputError


class TransformerEncoder(nnx.Module):
    """An `Encoder` made of embeddings and layers.

    Args:
        config: sizes.
        embeddings: called with ids [B, T], types, positions and dropout key (each may be `None`),
            returns [B*T, D].
        layers: L modules with the same parameters' shapes. Each is called with [B*T, D], what
            `layer_inputs` returns and a dropout key or `None`, and returns [B*T, D].
        dtype: of activations and matrix products; parameters, softmax and layer norm stay in
            float32.
        remat: what the backward pass recomputes to save memory, in this order: `"none"`, the
            `"attention"` probabilities (which is up to the layers), all but products with weights
            (`"dots"`), each `"layer"`.
        attention: its implementation, see `models.ops.attention`.
        scan_layers: keep the parameters of all layers stacked on a leading axis and run them with
            `jax.lax.scan`: same outputs, and compile time independent of depth.

    Raises:
        InputError: unknown `remat`.
    """

    def __init__(
        self,
        config: EncoderConfig,
        *,
        embeddings: nnx.Module,
        layers: Sequence[nnx.Module],
        dtype: DTypeLike,
        remat: Remat,
        attention: Implementation,
        scan_layers: bool,
    ):
        if remat not in get_args(Remat):
            names = ", ".join(get_args(Remat))
            raise InputError(f"remat: expected one of {names}, found {remat!r}")
        self.config = config
        self.dtype = dtype
        self.remat: Remat = remat
        self.scan_layers = scan_layers
        self.attention: Implementation = attention
        self.embeddings: Any = embeddings
        # nnx.List of layers, or one layer whose parameters have a leading layer axis.
        self.layers: Any = _stack(layers) if scan_layers else nnx.List(layers)

    def layer_inputs(
        self, where: jax.Array, positions: jax.Array | None, segments: jax.Array | None
    ) -> tuple[Any, ...]:
        """What every layer gets besides activations and dropout key: here, mask and segments.

        Encoders with rotary positions return those too.
        """
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
        segments: jax.Array | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> jax.Array:
        """Activations of the last layer, [B, T, D] in the compute dtype; see `Encoder`."""
        inputs = token_ids, where, token_type_ids, positions, segments
        return self._run(*inputs, rngs, collect=False)[-1]

    def hidden_states(
        self,
        token_ids: jax.Array,
        *,
        where: jax.Array,
        token_type_ids: jax.Array | None = None,
        positions: jax.Array | None = None,
        segments: jax.Array | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> tuple[jax.Array, ...]:
        """Embeddings and every layer's output: L + 1 arrays [B, T, D]; see `Encoder`."""
        inputs = token_ids, where, token_type_ids, positions, segments
        return self._run(*inputs, rngs, collect=True)

    def _run(
        self,
        token_ids: jax.Array,
        where: jax.Array,
        token_type_ids: jax.Array | None,
        positions: jax.Array | None,
        segments: jax.Array | None,
        rngs: nnx.Rngs | None,
        *,
        collect: bool,
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
            key = None if keys is None else keys[index]
            states.append(apply(params, states[-1], inputs, key))
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


def _stack(layers: Sequence[nnx.Module]) -> nnx.Module:
    graphdef = nnx.graphdef(layers[0])
    states = [nnx.state(layer) for layer in layers]
    return nnx.merge(graphdef, jax.tree.map(lambda *leaves: jnp.stack(leaves), *states))


def _layer_function(graphdef: Any, *, remat: Remat, prevent_cse: bool):
    def apply(params, x, inputs, key):
        return nnx.merge(graphdef, params)(x, *inputs, key)

    if remat not in ("dots", "layer"):
        return apply
    # Attention's products have a batch axis, those with weights have none.
    keep = jax.checkpoint_policies.dots_with_no_batch_dims_saveable if remat == "dots" else None
    return jax.checkpoint(apply, prevent_cse=prevent_cse, policy=keep)
