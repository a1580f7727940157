"""BERT encoder (Devlin et al., 2019) as NNX modules: post-LN, no pooler, weights in float32.

The module holds parameters and nothing else (`nnx.split(model, nnx.Param)` leaves no rest), so it
is used functionally: dropout keys arrive with the call, and `nnx.merge` works inside plain
`jax.jit` and `jax.value_and_grad`. Inside, tokens are one flat axis [B*T, D]: dense layers are
then two-dimensional products, which every backend runs fastest.
"""

from __future__ import annotations

from typing import Any, get_args

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike

from hardem_jax.errors import InputError
from hardem_jax.models.config import Implementation, Remat
from hardem_jax.models.encoders.bert_layers import BertConfig, BertEmbeddings, BertLayer


class Bert(nnx.Module):
    """BERT encoder: token ids to the activations of the last layer.

    Args:
        config: sizes, activation and dropout rates.
        rngs: source of the initial parameters (stream `params`).
        dtype: of activations and matrix products; parameters, softmax and layer norm stay in
            float32.
        remat: what the backward pass computes again to save memory, in this order: `"none"`, the
            `"attention"` probabilities, all but products with weights (`"dots"`), each `"layer"`.
        attention: what computes it, see `models.ops.attention`; a kernel asked for by name
            needs a config without attention dropout.
        scan_layers: keep the parameters of all layers stacked on a leading axis and run them with
            `jax.lax.scan`: same outputs, and compile time independent of depth.

    Example:
        >>> config = BertConfig(100, 8, 2, 2, 16)
        >>> bert = Bert(config, rngs=nnx.Rngs(0))
        >>> ids = jnp.array([[5, 6, 7, 0]])
        >>> bert(ids, where=ids > 0).shape
        (1, 4, 8)
        >>> graphdef, params = nnx.split(bert, nnx.Param)
        >>> def loss(params, key):
        ...     rngs = nnx.Rngs(dropout=key)
        ...     return nnx.merge(graphdef, params)(ids, where=ids > 0, rngs=rngs).sum()
        >>> grads = jax.jit(jax.grad(loss))(params, jax.random.key(0))
    """

    def __init__(
        self,
        config: BertConfig,
        *,
        rngs: nnx.Rngs,
        dtype: DTypeLike = jnp.float32,
        remat: Remat = "none",
        attention: Implementation = "auto",
        scan_layers: bool = False,
    ):
        if remat not in get_args(Remat):
            names = ", ".join(get_args(Remat))
            raise InputError(f"remat: expected one of {names}, found {remat!r}")
        self.config = config
        self.dtype = dtype
        self.remat: Remat = remat
        self.scan_layers = scan_layers
        self.attention: Implementation = attention
        self.embeddings = BertEmbeddings(config, rngs=rngs, dtype=dtype)
        layers = [
            BertLayer(
                config,
                rngs=rngs,
                dtype=dtype,
                attention=attention,
                recompute_attention=remat == "attention",
            )
            for _ in range(config.num_hidden_layers)
        ]
        # nnx.List of layers, or one layer whose parameters have a leading layer axis.
        self.layers: Any = _stack(layers) if scan_layers else nnx.List(layers)

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
        """Activations of the last layer.

        Args:
            token_ids: int [B, T]; without `positions`, T is at most
                `config.max_position_embeddings`.
            where: bool [B, T], true at real tokens; padding is attended to by no token. Outputs
                at padding are finite but mean nothing.
            token_type_ids: int [B, T]; `None` means all 0.
            positions: int [B, T] below `config.max_position_embeddings`, which is not checked;
                `None` means 0, 1, ... in every row.
            segments: int [B, T]; a token attends only to real tokens of its own segment, so that
                several texts share a row without seeing each other. `None` means one a row.
            rngs: source of the dropout key (stream `dropout`); `None` turns dropout off.

        Returns:
            [B, T, D] in the compute dtype.

        Raises:
            InputError: without `positions`, the sequence is longer than the position table.
        """
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
        """Embeddings and every layer's output: L + 1 arrays [B, T, D], the last layer last.

        Arguments and errors are those of `__call__`.
        """
        inputs = token_ids, where, token_type_ids, positions, segments
        return self._run(*inputs, rngs, collect=True)

    def _run(
        self, token_ids, where, token_type_ids, positions, segments, rngs, *, collect
    ) -> tuple[jax.Array, ...]:
        depth, limit = self.config.num_hidden_layers, self.config.max_position_embeddings
        batch, length = token_ids.shape
        if positions is None and length > limit:
            raise InputError(f"BERT input: expected at most {limit} tokens, found {length}")
        keys = None if rngs is None else jax.random.split(rngs.dropout(), depth + 1)
        embedding_key = None if keys is None else keys[depth]
        x = self.embeddings(token_ids, token_type_ids, positions, embedding_key)
        layer_keys = None if keys is None else keys[:depth]
        run = self._scan_layers if self.scan_layers else self._loop_layers
        states = run(x, where, segments, layer_keys, collect)
        return tuple(state.reshape(batch, length, -1) for state in states)

    def _loop_layers(self, x, where, segments, keys, collect) -> list[jax.Array]:
        states = [x]
        for index, layer in enumerate(self.layers):
            graphdef, params = nnx.split(layer)
            apply = _layer_function(graphdef, remat=self.remat, prevent_cse=True)
            key = None if keys is None else keys[index]
            states.append(apply(params, states[-1], where, segments, key))
        return states if collect else states[-1:]

    def _scan_layers(self, x, where, segments, keys, collect) -> list[jax.Array]:
        graphdef, params = nnx.split(self.layers)
        # Common subexpressions are not merged across the iterations of a scan anyway.
        apply = _layer_function(graphdef, remat=self.remat, prevent_cse=False)

        def body(x, layer):
            y = apply(layer[0], x, where, segments, layer[1])
            return y, y if collect else None

        last, stacked = jax.lax.scan(body, x, (params, keys))
        return [last] if stacked is None else [x, *stacked]


def _stack(layers: list[BertLayer]) -> BertLayer:
    graphdef = nnx.graphdef(layers[0])
    states = [nnx.state(layer) for layer in layers]
    return nnx.merge(graphdef, jax.tree.map(lambda *leaves: jnp.stack(leaves), *states))


def _layer_function(graphdef: Any, *, remat: Remat, prevent_cse: bool):
    def apply(params, x, where, segments, key):
        return nnx.merge(graphdef, params)(x, where, segments, key)

    if remat not in ("dots", "layer"):
        return apply
    # Attention's products have a batch axis, those with weights have none.
    keep = jax.checkpoint_policies.dots_with_no_batch_dims_saveable if remat == "dots" else None
    return jax.checkpoint(apply, prevent_cse=prevent_cse, policy=keep)
