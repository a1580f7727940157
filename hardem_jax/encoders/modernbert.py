"""ModernBERT (Warner et al., 2024): rotary positions, local layers, gated units, pre-norm.

Every third layer attends to the whole input, the others to a window around each token. Nothing but
the span and selector heads has a bias.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.typing import DTypeLike

from hardem_jax.encoders.base import Encoder, EncoderConfig
from hardem_jax.encoders.layers import LayerNorm, Linear, SelfAttention
from hardem_jax.encoders.ops.attention import Implementation
from hardem_jax.encoders.ops.fused import ACTIVATIONS, dropout
from hardem_jax.encoders.weights import (
    Architecture,
    ReaderHead,
    Tensors,
    WeightTable,
    dense,
    embedding,
    layer_norm,
)
from hardem_jax.errors import InputError, require

# Standard deviation of the initial weights, cut off at twice as much (the paper, appendix A).
_INIT_STDDEV = 0.02
_BASES = ("global_rope_theta", "local_rope_theta")


@dataclasses.dataclass(frozen=True)
class ModernBertConfig(EncoderConfig):
    """Sizes and constants of a ModernBERT encoder; the defaults are those of the base model.

    Layers 0, `global_every`, 2 `global_every`, ... attend to the whole input, the others to
    `local_attention // 2` tokens before and after each. `hidden_dropout` is the rate inside the
    feed-forward block, `attention_dropout` that of the probabilities and of what attention returns.
    `pad_token_id` is kept for PyTorch, which accepts an id of the vocabulary or none.

    Raises:
        InputError: a size is not a positive integer, the heads do not divide the hidden size into
            even heads, the activation is unknown, a rotary base is not positive, or a dropout rate
            is outside `0 <= rate < 1`.

    Example:
        >>> ModernBertConfig().window(0), ModernBertConfig().window(1)
        (None, 64)
    """

    model_type: ClassVar[str] = "modernbert"
    sizes: ClassVar = (*EncoderConfig.sizes, "local_attention", "global_every")
    rates: ClassVar = ("norm_eps", "embedding_dropout", *EncoderConfig.rates)

    vocab_size: int = 50368
    hidden_size: int = 768
    num_hidden_layers: int = 22
    num_attention_heads: int = 12
    intermediate_size: int = 1152
    max_position_embeddings: int = 8192
    local_attention: int = 128
    global_every: int = 3
    global_rope_theta: float = 160_000.0
    local_rope_theta: float = 10_000.0
    norm_eps: float = 1e-5
    hidden_act: str = "gelu"
    embedding_dropout: float = 0.0
    hidden_dropout: float = 0.0
    attention_dropout: float = 0.0
    pad_token_id: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, *_BASES, above=0, optional=False)
        require(self, "pad_token_id", at_least=0, below=self.vocab_size)
        if self.head_size % 2:
            raise InputError(
                f"hidden_size: expected a multiple of twice {self.num_attention_heads} heads, "
                f"found {self.hidden_size}"
            )

    def window(self, layer: int) -> int | None:
        """How far a token sees to either side in this layer; `None`: the whole input."""
        return self.local_attention // 2 if layer % self.global_every else None


class ModernBertEmbeddings(nnx.Module):
    """Word embeddings, normalised."""

    def __init__(self, config: ModernBertConfig, *, rngs: nnx.Rngs, dtype: DTypeLike):
        init = _init(_INIT_STDDEV)
        shape = config.vocab_size, config.hidden_size
        self.word = nnx.Param(init(rngs.params(), shape, jnp.float32))
        self.norm = _norm(config)
        self.rate = config.embedding_dropout
        self.dtype = dtype

    def __call__(self, token_ids, token_type_ids, positions, key) -> jax.Array:
        """[B, T] ids, types and positions (not used here), dropout key or `None` -> [B*T, D]."""
        del token_type_ids, positions
        x = self.word[...][token_ids]
        x = self.norm(x.reshape(-1, x.shape[-1]))
        return dropout(x, self.rate, key).astype(self.dtype)


class ModernBertLayer(SelfAttention):
    """Self-attention and gated feed-forward blocks, each on its normalised input.

    The first layer's attention reads the embeddings, which are normalised already.
    """

    def __init__(
        self,
        config: ModernBertConfig,
        number: int,
        *,
        rngs: nnx.Rngs,
        dtype: DTypeLike,
        attention: Implementation,
        recompute_attention: bool,
    ):
        super().__init__(config, dtype, attention, recompute_attention, config.window(number))

        def dense(inputs: int, outputs: int, stddev: float = _INIT_STDDEV) -> Linear:
            return Linear(
                inputs, outputs, kernel_init=_init(stddev), use_bias=False, dtype=dtype, rngs=rngs
            )

        hidden, inner = config.hidden_size, config.intermediate_size
        # The more layers add to the residual stream, the less each of them adds.
        added = _INIT_STDDEV / (2 * config.num_hidden_layers) ** 0.5
        self.attention_norm = _norm(config) if number else None
        self.query = dense(hidden, hidden)
        self.key = dense(hidden, hidden)
        self.value = dense(hidden, hidden)
        self.attention_output = dense(hidden, hidden, added)
        self.mlp_norm = _norm(config)
        self.intermediate = dense(hidden, inner)
        self.gate = dense(hidden, inner)
        self.output = dense(inner, hidden, added)

    def __call__(self, x, where, segments, of_global, of_local, key) -> jax.Array:
        """[B*T, D] activations, [B, T] bool, [B, T] segments or `None`, rotations of both kinds of
        layers, dropout key or `None` -> [B*T, D]."""
        config = self.config
        keys = (None,) * 3 if key is None else jax.random.split(key, 3)
        normed = x if self.attention_norm is None else self.attention_norm(x)
        turn = of_global if self.window is None else of_local
        y = self.project_and_attend(
            normed, where, segments, keys[0], turn=lambda y: rotate(y, *turn)
        )
        x = x + dropout(y, config.attention_dropout, keys[1])
        normed = self.mlp_norm(x)
        y = ACTIVATIONS[config.hidden_act](self.intermediate(normed)) * self.gate(normed)
        return x + self.output(dropout(y, config.hidden_dropout, keys[2]))


class ModernBert(Encoder):
    """ModernBERT encoder. It has no token types, and ignores `token_type_ids`.

    Args:
        config: sizes, activation and dropout rates.
        rngs: source of the initial parameters (stream `params`).
        dtype, remat: see `Encoder`.
        attention: see `hardem_jax.encoders.ops.attention`; a kernel requested by name needs a
            config without attention dropout.
        scan_layers: must be off, because layers differ: the first has no norm, some are local.

    Raises:
        InputError: `scan_layers` is on; or see `Encoder`.

    Example:
        >>> config = ModernBertConfig(100, 8, 2, 2, 12)
        >>> encoder = ModernBert(config, rngs=nnx.Rngs(0))
        >>> ids = jnp.array([[5, 6, 7, 0]])
        >>> encoder(ids, where=ids > 0).shape
        (1, 4, 8)
    """

    EMBEDDINGS = ModernBertEmbeddings
    LAYER = ModernBertLayer

    def __init__(self, config: ModernBertConfig, *, scan_layers: bool = False, **options: Any):
        if scan_layers:
            raise InputError(
                "scan_layers: expected False with ModernBERT, whose layers differ; found True"
            )
        super().__init__(config, **options)
        self.final_norm = _norm(config)

    def layer_inputs(
        self, where: jax.Array, positions: jax.Array | None, segments: Any
    ) -> tuple[Any, ...]:
        """Mask, segments, and the rotations of global and of local layers."""
        if positions is None:
            positions = jnp.arange(where.shape[1])[None]
        config: Any = self.config
        bases = config.global_rope_theta, config.local_rope_theta
        return where, segments, *(rotation(positions, config.head_size, base) for base in bases)

    def finish(self, x: jax.Array) -> jax.Array:
        return self.final_norm(x)


def rotation(positions: jax.Array, size: int, base: float) -> tuple[jax.Array, jax.Array]:
    """Cosine and sine of the angles of rotary positions (Su et al., 2021), float32.

    Args:
        positions: int [B, T].
        size: width of a head, even.
        base: one turn of the slowest pair of elements takes nearly `2 pi base` tokens.

    Returns:
        [B, T, 1, size / 2] each.
    """
    frequencies = 1 / base ** (np.arange(0, size, 2, dtype=np.float32) / size)
    angles = positions.astype(jnp.float32)[..., None, None] * frequencies[None, None, None]
    return jnp.cos(angles), jnp.sin(angles)


def rotate(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    """Turns each pair of elements i and i + size / 2 of a head by its position's angle.

    Args:
        x: [B, T, heads, size].
        cos, sin: of `rotation`.

    Returns:
        [B, T, heads, size] in the dtype of `x`, computed in float32.

    Example:
        >>> x = jnp.array([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 1, 4)
        >>> quarter_turn = jnp.zeros((1, 1, 1, 2)), jnp.ones((1, 1, 1, 2))
        >>> rotate(x, *quarter_turn).ravel().tolist()
        [-3.0, -4.0, 1.0, 2.0]
    """
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = first * cos - second * sin, second * cos + first * sin
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def _init(stddev: float) -> Any:
    return jax.nn.initializers.truncated_normal(stddev)


def _norm(config: ModernBertConfig) -> LayerNorm:
    return LayerNorm(config.hidden_size, eps=config.norm_eps, use_bias=False)


_TENSORS = {
    **embedding("embeddings.tok_embeddings", "embeddings.word"),
    **layer_norm("embeddings.norm", "embeddings.norm", bias=False),
    **layer_norm("layers.#.attn_norm", "layers.#.attention_norm", bias=False),
    **dense("layers.#.attn.Wqkv", "layers.#.query", "layers.#.key", "layers.#.value", bias=False),
    **dense("layers.#.attn.Wo", "layers.#.attention_output", bias=False),
    **layer_norm("layers.#.mlp_norm", "layers.#.mlp_norm", bias=False),
    **dense("layers.#.mlp.Wi", "layers.#.intermediate", "layers.#.gate", bias=False),
    **dense("layers.#.mlp.Wo", "layers.#.output", bias=False),
    **layer_norm("final_norm", "final_norm", bias=False),
}


def _published(content: Mapping[str, Any]) -> dict[str, Any]:
    """The published form of a ``config.json`` that transformers 5 may have written.

    Transformers 5 names the kind of every layer and has a table of rotary positions for each kind.
    """
    found = dict(content)
    kinds = found.pop("layer_types", None)
    if isinstance(kinds, list) and kinds:
        whole = [number for number, kind in enumerate(kinds) if kind == "full_attention"]
        every = next((number for number in whole if number), len(kinds))
        if whole != list(range(0, len(kinds), every)):
            raise InputError("layer_types: expected full_attention at 0, n, 2n, ..., found others")
        found["global_attn_every_n_layers"] = every
    tables = found.pop("rope_parameters", None) or {}
    bases = {"full_attention": _BASES[0], "sliding_attention": _BASES[1]}
    if not isinstance(tables, dict) or not tables.keys() <= bases.keys():
        raise InputError(f"rope_parameters: expected {' and '.join(bases)}, found {tables}")
    for kind, key in bases.items():
        table = tables.get(kind)
        if isinstance(table, dict):
            rope_type = table.get("rope_type", table.get("type", "default"))
            if rope_type != "default":
                raise InputError(
                    f"rope_parameters: expected rope_type 'default', found {rope_type!r}"
                )
            if "rope_theta" in table:
                found[key] = table["rope_theta"]
    return found


def _write_scores(tensors: Tensors, encoder: Tensors) -> dict[str, np.ndarray]:
    """Linear span scores as a `ModernBertForQuestionAnswering` has them.

    That class has a dense layer, an activation and a norm before its scores. With the activation
    "linear" they return their input: the dense layer divides by the scale of the last norm, and
    this norm, of what is normalised already, multiplies by it. What is left is a relative error of
    `norm_eps` over the variance of an activation before the last norm.
    """
    scale = encoder["final_norm.weight"]
    if not scale.all():
        raise InputError("final_norm: expected a scale without 0, found one; cannot be exported")
    scores = {name.replace("qa_outputs", "classifier"): x for name, x in tensors.items()}
    return {"head.dense.weight": np.diag(1 / scale), "head.norm.weight": scale} | scores


def _read_scores(tensors: Tensors, encoder: Tensors) -> dict[str, np.ndarray]:
    """The inverse of `_write_scores`; an `InputError` on other layers than it writes."""
    scale = encoder.get("final_norm.weight")
    dense, norm = tensors.get("head.dense.weight"), tensors.get("head.norm.weight")
    if scale is not None and dense is not None and norm is not None:
        with np.errstate(divide="ignore"):
            expected = np.diag(1 / scale)
        if np.array_equal(dense, expected) and np.array_equal(norm, scale):
            return {
                name.replace("classifier.", "qa_outputs.") if name in _SCORES else name: x
                for name, x in tensors.items()
                if name not in ("head.dense.weight", "head.norm.weight")
            }
    raise InputError(
        "head.dense: expected span scores that are linear in the last layer, as they are exported "
        "from here; found layers between"
    )


_SCORES = ("classifier.weight", "classifier.bias")

ARCHITECTURE = Architecture(
    class_name="ModernBertModel",
    config=ModernBertConfig,
    encoder=ModernBert,
    weights=WeightTable(_TENSORS, prefix="model.", ignored=r"head\..*|decoder\..*"),
    config_keys={
        **{field.name: field.name for field in dataclasses.fields(ModernBertConfig)},
        "global_every": "global_attn_every_n_layers",
        "hidden_act": "hidden_activation",
        "hidden_dropout": "mlp_dropout",
    },
    # Their defaults are those of Hugging Face.
    optional=frozenset(
        {"max_position_embeddings", "local_attention", "global_every", "norm_eps", "hidden_act"}
        | {"global_rope_theta", "local_rope_theta", "pad_token_id"}
        | {"embedding_dropout", "hidden_dropout", "attention_dropout"}
    ),
    required_values=dict.fromkeys(("norm_bias", "attention_bias", "mlp_bias"), False)
    | {"rope_scaling": None},
    reader_class_name="ModernBertForQuestionAnswering",
    reader_head=ReaderHead(
        write=_write_scores,
        read=_read_scores,
        config={"classifier_activation": "linear", "classifier_bias": False},
    ),
    published=_published,
)
