"""RoBERTa (Liu et al., 2019) and XLM-RoBERTa (Conneau et al., 2020)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from hardem_jax.encoders.bert import CONFIG_KEYS, TENSORS, Bert, BertConfig
from hardem_jax.encoders.weights import Architecture, WeightTable
from hardem_jax.errors import LARGEST


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

    def _faults(self) -> Iterator[str]:
        yield from super()._faults()
        value = self.pad_token_id
        if type(value) is not int or not 0 <= value <= LARGEST:
            yield f"pad_token_id: expected an integer of at least 0, found {value!r}"
        elif type(self.max_position_embeddings) is int and self.max_tokens < 1:
            yield (
                f"max_position_embeddings: expected more than {self.first_position}, "
                f"found {self.max_position_embeddings}"
            )

    @property
    def first_position(self) -> int:
        return self.pad_token_id + 1

    @property
    def max_tokens(self) -> int:
        return self.max_position_embeddings - self.first_position


class Roberta(Bert):
    """RoBERTa encoder: BERT's layers, with positions that start at `pad_token_id + 1`.

    Arguments are those of `Bert`. Published checkpoints have one token type: they ignore
    `token_type_ids`.

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
        TENSORS,
        prefix="roberta.",
        ignored=r"pooler\..*|lm_head\..*|embeddings\.position_ids",
    ),
    config_keys={**CONFIG_KEYS, "pad_token_id": "pad_token_id"},
    # For the rest, Hugging Face's defaults differ from published checkpoints.
    optional=frozenset({"hidden_act", "hidden_dropout", "attention_dropout", "pad_token_id"}),
    required_values={"position_embedding_type": "absolute", "is_decoder": False},
    reader_class_name="RobertaForQuestionAnswering",
)
