"""BERT encoder (Devlin et al., 2019) as NNX modules: post-LN, no pooler, weights in float32.

The module holds parameters and nothing else (`nnx.split(model, nnx.Param)` leaves no rest), so it
is used functionally: dropout keys arrive with the call, and `nnx.merge` works inside plain
`jax.jit` and `jax.value_and_grad`. Inside, tokens are one flat axis [B*T, D]: dense layers are
then two-dimensional products, which every backend runs fastest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike

from hardem_jax.errors import InputError
from hardem_jax.models.bert_ops import ACTIVATIONS, attention, layer_norm
from hardem_jax.models.dropout import dropout, dropout_seeds
from hardem_jax.models.layers import Linear

# Standard deviation of the initial kernels and embeddings (Devlin et al., 2019, released code).
INIT_STDDEV = 0.02


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """Sizes and constants of a BERT encoder; `hidden_act` is a key of `ACTIVATIONS`.

    Raises:
        InputError: a size is not a positive integer, the heads do not divide the hidden size,
            the activation is unknown or a dropout rate is outside `0 <= rate < 1`.

    Example:
        >>> BertConfig(30522, 768, 12, 12, 3072).head_size
        64
    """

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    hidden_act: str = "gelu"
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1

    def __post_init__(self) -> None:
        faults = list(self._faults())
        if faults:
            raise InputError("BERT config: " + "; ".join(faults))

    def _faults(self) -> Iterator[str]:
        # Annotations are strings here (postponed evaluation).
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type == "int" and (type(value) is not int or value < 1):
                yield f"{field.name}: expected a positive integer, found {value!r}"
            elif field.type == "float" and (type(value) not in (int, float) or not 0 <= value < 1):
                yield f"{field.name}: expected a number in [0, 1), found {value!r}"
        if self.hidden_act not in ACTIVATIONS:
            yield f"hidden_act: expected one of {sorted(ACTIVATIONS)}, found {self.hidden_act!r}"
        sizes = self.hidden_size, self.num_attention_heads
        if all(type(size) is int and size > 0 for size in sizes) and sizes[0] % sizes[1]:
            yield f"hidden_size: expected a multiple of {sizes[1]} heads, found {sizes[0]}"

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads


class LayerNorm(nnx.Module):
    """Layer normalisation over the last axis with a learned scale and bias."""

    def __init__(self, size: int, *, eps: float):
        self.scale = nnx.Param(jnp.ones(size, jnp.float32))
        self.bias = nnx.Param(jnp.zeros(size, jnp.float32))
        self.eps = eps

    def __call__(self, x: jax.Array) -> jax.Array:
        """[N, D] -> [N, D] in the dtype of `x`, computed in float32."""
        return layer_norm(x, self.scale[...], self.bias[...], self.eps)


class BertEmbeddings(nnx.Module):
    """Word, position and token-type embeddings, summed and normalised."""

    def __init__(self, config: BertConfig, *, rngs: nnx.Rngs, dtype: DTypeLike):
        def table(rows: int) -> nnx.Param:
            init = jax.nn.initializers.normal(INIT_STDDEV)
            return nnx.Param(init(rngs.params(), (rows, config.hidden_size), jnp.float32))

        self.word = table(config.vocab_size)
        self.position = table(config.max_position_embeddings)
        self.token_type = table(config.type_vocab_size)
        self.norm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.rate = config.hidden_dropout
        self.dtype = dtype

    def __call__(self, token_ids, token_type_ids, key) -> jax.Array:
        """[B, T] ids, [B, T] types or `None` (all 0), dropout key or `None` -> [B*T, D]."""
        length = token_ids.shape[1]
        x = self.word[...][token_ids]
        if token_type_ids is None:
            x = x + self.token_type[...][None, :1]
        else:
            x = x + self.token_type[...][token_type_ids]
        x = x + self.position[...][None, :length]
        x = self.norm(x.reshape(-1, x.shape[-1]))
        return dropout(x, self.rate, key).astype(self.dtype)


class BertLayer(nnx.Module):
    """Self-attention and feed-forward blocks, each followed by add and norm."""

    def __init__(self, config: BertConfig, *, rngs: nnx.Rngs, dtype: DTypeLike):
        def dense(inputs: int, outputs: int) -> Linear:
            init = jax.nn.initializers.normal(INIT_STDDEV)
            return Linear(inputs, outputs, kernel_init=init, dtype=dtype, rngs=rngs)

        hidden, eps = config.hidden_size, config.layer_norm_eps
        # Three kernels rather than one fused: splitting a fused projection copies activations,
        # and on accelerators XLA merges products that share their input by itself.
        self.query = dense(hidden, hidden)
        self.key = dense(hidden, hidden)
        self.value = dense(hidden, hidden)
        self.attention_output = dense(hidden, hidden)
        self.attention_norm = LayerNorm(hidden, eps=eps)
        self.intermediate = dense(hidden, config.intermediate_size)
        self.output = dense(config.intermediate_size, hidden)
        self.output_norm = LayerNorm(hidden, eps=eps)
        self.config = config

    def __call__(self, x, where, key) -> jax.Array:
        """[B*T, D] activations, [B, T] bool, dropout key or `None` -> [B*T, D]."""
        config = self.config
        keys = (None,) * 3 if key is None else jax.random.split(key, 3)
        context = self._attend(x, where, keys[0])
        y = dropout(self.attention_output(context), config.hidden_dropout, keys[1])
        x = self.attention_norm(x + y)
        y = self.output(ACTIVATIONS[config.hidden_act](self.intermediate(x)))
        return self.output_norm(x + dropout(y, config.hidden_dropout, keys[2]))

    def _attend(self, x, where, key) -> jax.Array:
        batch, length = where.shape
        heads, size = self.config.num_attention_heads, self.config.head_size

        def by_head(y):  # [B*T, D] -> [B, heads, T, head size]
            return y.reshape(batch, length, heads, size).transpose(0, 2, 1, 3)

        q, k, v = by_head(self.query(x)), by_head(self.key(x)), by_head(self.value(x))
        rate = 0.0 if key is None else self.config.attention_dropout
        seeds = None if key is None or rate == 0 else dropout_seeds(key)
        context: jax.Array = attention(q, k, v, where, seeds, rate)
        return context.transpose(0, 2, 1, 3).reshape(batch * length, heads * size)


class Bert(nnx.Module):
    """BERT encoder: token ids to the activations of the last layer.

    Args:
        config: sizes, activation and dropout rates.
        rngs: source of the initial parameters (stream `params`).
        dtype: of activations and matrix products; parameters, softmax and layer norm stay in
            float32.
        remat: recompute each layer in the backward pass instead of storing its activations.
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
        remat: bool = False,
        scan_layers: bool = False,
    ):
        self.config = config
        self.dtype = dtype
        self.remat = remat
        self.scan_layers = scan_layers
        self.embeddings = BertEmbeddings(config, rngs=rngs, dtype=dtype)
        layers = [
            BertLayer(config, rngs=rngs, dtype=dtype) for _ in range(config.num_hidden_layers)
        ]
        # nnx.List of layers, or one layer whose parameters have a leading layer axis.
        self.layers: Any = _stack(layers) if scan_layers else nnx.List(layers)

    def __call__(
        self,
        token_ids: jax.Array,
        *,
        where: jax.Array,
        token_type_ids: jax.Array | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> jax.Array:
        """Activations of the last layer.

        Args:
            token_ids: int [B, T], T at most `config.max_position_embeddings`.
            where: bool [B, T], true at real tokens; padding is attended to by no token. Outputs
                at padding are finite but mean nothing.
            token_type_ids: int [B, T]; `None` means all 0.
            rngs: source of the dropout key (stream `dropout`); `None` turns dropout off.

        Returns:
            [B, T, D] in the compute dtype.

        Raises:
            InputError: the sequence is longer than the position table.
        """
        return self._run(token_ids, where, token_type_ids, rngs, collect=False)[-1]

    def hidden_states(
        self,
        token_ids: jax.Array,
        *,
        where: jax.Array,
        token_type_ids: jax.Array | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> tuple[jax.Array, ...]:
        """Embeddings and every layer's output: L + 1 arrays [B, T, D], the last layer last.

        Arguments and errors are those of `__call__`.
        """
        return self._run(token_ids, where, token_type_ids, rngs, collect=True)

    def _run(self, token_ids, where, token_type_ids, rngs, *, collect) -> tuple[jax.Array, ...]:
        depth, limit = self.config.num_hidden_layers, self.config.max_position_embeddings
        batch, length = token_ids.shape
        if length > limit:
            raise InputError(f"BERT input: expected at most {limit} tokens, found {length}")
        keys = None if rngs is None else jax.random.split(rngs.dropout(), depth + 1)
        x = self.embeddings(token_ids, token_type_ids, None if keys is None else keys[depth])
        layer_keys = None if keys is None else keys[:depth]
        run = self._scan_layers if self.scan_layers else self._loop_layers
        states = run(x, where, layer_keys, collect)
        return tuple(state.reshape(batch, length, -1) for state in states)

    def _loop_layers(self, x, where, keys, collect) -> list[jax.Array]:
        states = [x]
        for index, layer in enumerate(self.layers):
            graphdef, params = nnx.split(layer)
            apply = _layer_function(graphdef, remat=self.remat, prevent_cse=True)
            states.append(apply(params, states[-1], where, None if keys is None else keys[index]))
        return states if collect else states[-1:]

    def _scan_layers(self, x, where, keys, collect) -> list[jax.Array]:
        graphdef, params = nnx.split(self.layers)
        # Common subexpressions are not merged across the iterations of a scan anyway.
        apply = _layer_function(graphdef, remat=self.remat, prevent_cse=False)

        def body(x, layer):
            y = apply(layer[0], x, where, layer[1])
            return y, y if collect else None

        last, stacked = jax.lax.scan(body, x, (params, keys))
        return [last] if stacked is None else [x, *stacked]


def _stack(layers: list[BertLayer]) -> BertLayer:
    graphdef = nnx.graphdef(layers[0])
    states = [nnx.state(layer) for layer in layers]
    return nnx.merge(graphdef, jax.tree.map(lambda *leaves: jnp.stack(leaves), *states))


def _layer_function(graphdef: Any, *, remat: bool, prevent_cse: bool):
    def apply(params, x, where, key):
        return nnx.merge(graphdef, params)(x, where, key)

    return jax.checkpoint(apply, prevent_cse=prevent_cse) if remat else apply
