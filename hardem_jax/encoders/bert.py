"""BERT (Devlin et al., 2019): sizes, embeddings, a layer, and where its weights are."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike

from hardem_jax.encoders.base import Encoder, EncoderConfig
from hardem_jax.encoders.layers import LayerNorm, Linear, SelfAttention
from hardem_jax.encoders.ops.attention import Implementation, kernels_compute
from hardem_jax.encoders.ops.fused import ACTIVATIONS, dropout, dropout_seeds
from hardem_jax.encoders.weights import Architecture, WeightTable, dense, embedding, layer_norm

# Standard deviation of the initial kernels and embeddings (Devlin et al., 2019, released code).
INIT_STDDEV = 0.02
# Columns that a kernel of `post_norm` holds in registers at most.
_WIDEST = 4096


@dataclasses.dataclass(frozen=True)
class BertConfig(EncoderConfig):
    """Sizes and constants of a BERT encoder; `hidden_act` is a key of `ACTIVATIONS`.

    Raises:
        InputError: a size is not a positive integer, the heads do not divide the hidden size,
            the activation is unknown or a dropout rate is outside `0 <= rate < 1`.

    Example:
        >>> BertConfig(30522, 768, 12, 12, 3072).head_size
        64
    """

    model_type: ClassVar[str] = "bert"

    sizes: ClassVar = (*EncoderConfig.sizes, "type_vocab_size")
    rates: ClassVar = ("layer_norm_eps", *EncoderConfig.rates)

    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    hidden_act: str = "gelu"
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1

    @property
    def embedding_width(self) -> int:
        """Width of the embeddings; a dense layer maps other widths to `hidden_size`."""
        return self.hidden_size

    @property
    def attention_output_dropout(self) -> float:
        """Rate of dropout on what attention adds to its input."""
        return self.hidden_dropout

    @property
    def first_position(self) -> int:
        """Row of the position table for the first token of an input."""
        return 0


class BertEmbeddings(nnx.Module):
    """Word, position and token-type embeddings, if there are any, summed and normalised."""

    def __init__(self, config: BertConfig, *, rngs: nnx.Rngs, dtype: DTypeLike):
        init = jax.nn.initializers.normal(INIT_STDDEV)
        width, hidden = config.embedding_width, config.hidden_size

        def table(rows: int) -> nnx.Param:
            return nnx.Param(init(rngs.params(), (rows, width), jnp.float32))

        self.word = table(config.vocab_size)
        self.position = table(config.max_position_embeddings)
        self.token_type = table(config.type_vocab_size) if config.type_vocab_size else None
        self.norm = LayerNorm(width, eps=config.layer_norm_eps)
        self.project = (
            Linear(width, hidden, kernel_init=init, dtype=dtype, rngs=rngs)
            if width != hidden
            else None
        )
        self.rate = config.hidden_dropout
        self.num_types = config.type_vocab_size
        self.first_position = config.first_position
        self.dtype = dtype

    def __call__(self, token_ids, token_type_ids, positions, key) -> jax.Array:
        """[B, T] ids, types or `None` (all 0), positions or `None` (0, 1, ...), dropout key or
        `None` -> [B*T, D]."""
        x = self.word[...][token_ids]
        kernels = _layer_kernels(x)
        if self.token_type is not None:
            types = self.token_type[...]
            if token_type_ids is None or self.num_types == 1:
                x = x + types[None, :1]
            elif kernels and self.num_types == 2:
                # The gradient of a gather adds up row by row, all of them in two places.
                x = x + jnp.where(token_type_ids[..., None] == 0, types[:1, None], types[1:, None])
            else:
                x = x + types[token_type_ids]
        first = self.first_position
        if positions is None:
            x = x + self.position[...][None, first : first + token_ids.shape[1]]
        else:
            x = x + self.position[...][positions + first if first else positions]
        x = x.reshape(-1, x.shape[-1])
        x = self.norm(x.astype(self.dtype) if kernels else x)  # half of the bytes, both ways
        x = dropout(x, self.rate, key).astype(self.dtype)
        return x if self.project is None else self.project(x)


class BertLayer(SelfAttention):
    """Self-attention and feed-forward blocks, each followed by add and norm."""

    def __init__(
        self,
        config: BertConfig,
        number: int,
        *,
        rngs: nnx.Rngs,
        dtype: DTypeLike,
        attention: Implementation,
        recompute_attention: bool,
    ):
        del number  # all layers are alike
        super().__init__(config, dtype, attention, recompute_attention)

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

    def __call__(self, x, where, segments, key) -> Any:
        """[B*T, D] activations, [B, T] bool, [B, T] segments or `None`, dropout key or `None` ->
        [B*T, D]."""
        config = self.config
        keys = (None,) * 3 if key is None else jax.random.split(key, 3)
        if isinstance(x, tuple):
            return self._with_kernels(x, where, segments, keys)
        y = self.project_and_attend(x, where, segments, keys[0])
        y = dropout(y, config.attention_output_dropout, keys[1])
        x = self.attention_norm(x + y)
        y = self.output(ACTIVATIONS[config.hidden_act](self.intermediate(x)))
        return self.output_norm(x + dropout(y, config.hidden_dropout, keys[2]))

    def _with_kernels(self, inputs, where, segments, keys) -> tuple[jax.Array, ...]:
        """The same for a GPU: inputs of query, key, value and residual come and go apart."""
        from hardem_jax.encoders.ops import post_norm

        config = self.config
        *inputs, residual = inputs
        kernels, biases = zip(*map(_weights, (self.query, self.key, self.value)), strict=True)
        each: Any = post_norm.dense_each(tuple(inputs), kernels, biases)
        context = self.attend(each, where, segments, keys[0]).reshape(residual.shape)
        rate = config.attention_output_dropout
        x, residual = self._add_and_norm(
            residual, context, self.attention_output, self.attention_norm, rate, keys[1], times=2
        )
        if config.hidden_act == "gelu":
            y = post_norm.dense_gelu(x, *_weights(self.intermediate))
        else:
            y = ACTIVATIONS[config.hidden_act](self.intermediate(x))
        rate = config.hidden_dropout
        return self._add_and_norm(
            residual, y, self.output, self.output_norm, rate, keys[2], times=4
        )

    def _add_and_norm(self, residual, x, linear, norm, rate, key, *, times) -> Any:
        from hardem_jax.encoders.ops import post_norm

        rate = 0.0 if key is None else rate
        seeds = dropout_seeds(key) if key is not None and rate else jnp.zeros(2, jnp.uint32)
        return post_norm.dense_norm(
            residual,
            x.astype(residual.dtype),
            *_weights(linear),
            norm.scale[...],
            norm.bias[...],
            seeds,
            rate,
            norm.eps,
            times,
        )


class Bert(Encoder):
    """BERT encoder: post-norm, without pooler.

    Args:
        config: sizes, activation and dropout rates.
        rngs: source of the initial parameters (stream `params`).
        dtype, remat, scan_layers: see `Encoder`.
        attention: see `hardem_jax.encoders.ops.attention`; a kernel requested by name needs a
            config without attention dropout.

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

    EMBEDDINGS = BertEmbeddings
    LAYER = BertLayer

    def enter(self, x: jax.Array) -> Any:
        """Once for each reader where kernels compute a layer, see `encoders.ops.post_norm`."""
        return (x,) * 4 if _layer_kernels(x) else x

    def leave(self, x: Any) -> jax.Array:
        """One of them."""
        return x[0] if isinstance(x, tuple) else x


def _layer_kernels(x: jax.Array) -> bool:
    """Whether `ops.post_norm` is to compute a layer of activations `x`, [..., D]."""
    known = jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize <= 4
    return known and x.shape[-1] <= _WIDEST and kernels_compute("layers", x, _fault)


def _fault() -> str | None:
    from hardem_jax.encoders.ops import post_norm  # which only GPUs need

    return post_norm.fault()


def _weights(linear: Linear) -> tuple[jax.Array, jax.Array]:
    assert linear.bias is not None
    return linear.kernel[...], linear.bias[...]


#: Where the tensors of BERT's Hugging Face classes go.
TENSORS = {
    **embedding("embeddings.word_embeddings", "embeddings.word"),
    **embedding("embeddings.position_embeddings", "embeddings.position"),
    **embedding("embeddings.token_type_embeddings", "embeddings.token_type"),
    **layer_norm("embeddings.LayerNorm", "embeddings.norm"),
    **dense("encoder.layer.#.attention.self.query", "layers.#.query"),
    **dense("encoder.layer.#.attention.self.key", "layers.#.key"),
    **dense("encoder.layer.#.attention.self.value", "layers.#.value"),
    **dense("encoder.layer.#.attention.output.dense", "layers.#.attention_output"),
    **layer_norm("encoder.layer.#.attention.output.LayerNorm", "layers.#.attention_norm"),
    **dense("encoder.layer.#.intermediate.dense", "layers.#.intermediate"),
    **dense("encoder.layer.#.output.dense", "layers.#.output"),
    **layer_norm("encoder.layer.#.output.LayerNorm", "layers.#.output_norm"),
}

CONFIG_KEYS = {
    **{name: name for name in (*BertConfig.sizes, "layer_norm_eps", "hidden_act")},
    "hidden_dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}

ARCHITECTURE = Architecture(
    class_name="BertModel",
    config=BertConfig,
    encoder=Bert,
    weights=WeightTable(
        TENSORS,
        prefix="bert.",
        # The pooler and the pre-training heads; the position ids are the numbers 0, 1, 2, ...
        ignored=r"pooler\..*|cls\..*|embeddings\.position_ids",
        old_endings={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
    ),
    config_keys=CONFIG_KEYS,
    # Their defaults are those of Hugging Face.
    optional=frozenset(
        {"max_position_embeddings", "type_vocab_size", "layer_norm_eps", "hidden_act"}
        | {"hidden_dropout", "attention_dropout"}
    ),
    required_values={"position_embedding_type": "absolute", "is_decoder": False},
    reader_class_name="BertForQuestionAnswering",
)
