"""DistilBERT (Sanh et al., 2019): BERT's layers without token types."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from hardem_jax.encoders.base import EncoderConfig
from hardem_jax.encoders.bert import Bert, BertConfig
from hardem_jax.encoders.weights import Architecture, WeightTable, dense, embedding, layer_norm


@dataclasses.dataclass(frozen=True)
class DistilBertConfig(BertConfig):
    """Sizes and constants of a DistilBERT encoder; without token types, `type_vocab_size` is 0.

    Raises:
        InputError: see `BertConfig`.

    Example:
        >>> DistilBertConfig(30522, 768, 6, 12, 3072).max_tokens
        512
    """

    model_type: ClassVar[str] = "distilbert"
    sizes: ClassVar = EncoderConfig.sizes

    type_vocab_size: int = 0

    @property
    def attention_output_dropout(self) -> float:
        return 0.0


class DistilBert(Bert):
    """DistilBERT encoder. Arguments are those of `Bert`; `token_type_ids` are ignored.

    Example:
        >>> import jax.numpy as jnp
        >>> from flax import nnx
        >>> ids = jnp.array([[5, 6, 7, 0]])
        >>> encoder = DistilBert(DistilBertConfig(100, 8, 2, 2, 16), rngs=nnx.Rngs(0))
        >>> encoder(ids, where=ids > 0).shape
        (1, 4, 8)
    """


_LAYER = "transformer.layer.#"
_TENSORS = {
    **embedding("embeddings.word_embeddings", "embeddings.word"),
    **embedding("embeddings.position_embeddings", "embeddings.position"),
    **layer_norm("embeddings.LayerNorm", "embeddings.norm"),
    **dense(f"{_LAYER}.attention.q_lin", "layers.#.query"),
    **dense(f"{_LAYER}.attention.k_lin", "layers.#.key"),
    **dense(f"{_LAYER}.attention.v_lin", "layers.#.value"),
    **dense(f"{_LAYER}.attention.out_lin", "layers.#.attention_output"),
    **layer_norm(f"{_LAYER}.sa_layer_norm", "layers.#.attention_norm"),
    **dense(f"{_LAYER}.ffn.lin1", "layers.#.intermediate"),
    **dense(f"{_LAYER}.ffn.lin2", "layers.#.output"),
    **layer_norm(f"{_LAYER}.output_layer_norm", "layers.#.output_norm"),
}

ARCHITECTURE = Architecture(
    class_name="DistilBertModel",
    config=DistilBertConfig,
    encoder=DistilBert,
    weights=WeightTable(
        _TENSORS,
        prefix="distilbert.",
        # The head of masked language modelling, and a layer below classifiers.
        ignored=r"(vocab_\w+|pre_classifier)\..*|embeddings\.position_ids",
    ),
    config_keys={
        "vocab_size": "vocab_size",
        "hidden_size": "dim",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "intermediate_size": "hidden_dim",
        "max_position_embeddings": "max_position_embeddings",
        "hidden_act": "activation",
        "hidden_dropout": "dropout",
        "attention_dropout": "attention_dropout",
    },
    # Their defaults are those of Hugging Face.
    optional=frozenset(
        {"max_position_embeddings", "hidden_act", "hidden_dropout", "attention_dropout"}
    ),
    required_values={},
    reader_class_name="DistilBertForQuestionAnswering",
)
