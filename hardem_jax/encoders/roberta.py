"""RoBERTa (Liu et al., 2019) and XLM-RoBERTa (Conneau et al., 2020)."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from hardem_jax.encoders.bert import CONFIG_KEYS, TENSORS, Bert, BertConfig
from hardem_jax.encoders.weights import Architecture, WeightTable
from hardem_jax.errors import InputError, require


@dataclasses.dataclass(frozen=True)
class RobertaConfig(BertConfig):
    """Sizes and constants of a RoBERTa encoder.

    Positions count from `pad_token_id + 1`: a table of 514 rows is for inputs of 512 tokens.

    Raises:
        InputError: see `BertConfig`; or no row of the position table is left for tokens.

    Example:
        >>> RobertaConfig(50265, 768, 12, 12, 3072).max_tokens
        512
    """

    model_type: ClassVar[str] = "roberta"

    max_position_embeddings: int = 514
    type_vocab_size: int = 1
    layer_norm_eps: float = 1e-5
    pad_token_id: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "pad_token_id", at_least=0, optional=False)
        if self.max_tokens < 1:
            raise InputError(
                f"max_position_embeddings: expected more than {self.first_position}, found "
                f"{self.max_position_embeddings}"
            )

    @property
    def first_position(self) -> int:
        return self.pad_token_id + 1

    @property
    def max_tokens(self) -> int:
        return self.max_position_embeddings - self.first_position


class Roberta(Bert):
    """RoBERTa encoder: BERT's layers, with positions that start at `pad_token_id + 1`.

    Arguments are those of `Bert`. Published ones ignore `token_type_ids`.

    Example:
        >>> import jax.numpy as jnp
        >>> from flax import nnx
        >>> roberta = Roberta(RobertaConfig(100, 8, 2, 2, 16), rngs=nnx.Rngs(0))
        >>> ids = jnp.array([[0, 6, 2, 1]])
        >>> roberta(ids, where=ids != 1).shape
        (1, 4, 8)
    """


ARCHITECTURE = Architecture(
    class_name="RobertaModel",
    config=RobertaConfig,
    encoder=Roberta,
    weights=WeightTable(
        TENSORS, prefix="roberta.", ignored=r"pooler\..*|lm_head\..*|embeddings\.position_ids"
    ),
    config_keys={**CONFIG_KEYS, "pad_token_id": "pad_token_id"},
    # For the rest, Hugging Face's defaults differ from published checkpoints.
    optional=frozenset({"hidden_act", "hidden_dropout", "attention_dropout", "pad_token_id"}),
    required_values={"position_embedding_type": "absolute", "is_decoder": False},
    reader_class_name="RobertaForQuestionAnswering",
)
