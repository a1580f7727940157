"""ELECTRA (Clark et al., 2020): BERT's layers on embeddings that may be narrower."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from hardem_jax.encoders import bert
from hardem_jax.encoders.bert import CONFIG_KEYS, TENSORS, Bert, BertConfig
from hardem_jax.encoders.weights import WeightTable, dense


@dataclasses.dataclass(frozen=True)
class ElectraConfig(BertConfig):
    """Sizes and constants of an ELECTRA encoder.

    Embeddings of another width than `hidden_size` pass a dense layer before the first layer.

    Raises:
        InputError: see `BertConfig`; or `embedding_size` is not a positive integer.

    Example:
        >>> ElectraConfig(30522, 256, 12, 4, 1024, embedding_size=128).embedding_width
        128
    """

    model_type: ClassVar[str] = "electra"
    sizes: ClassVar = (*BertConfig.sizes, "embedding_size")

    embedding_size: int = 128

    @property
    def embedding_width(self) -> int:
        return self.embedding_size


class Electra(Bert):
    """ELECTRA encoder, the discriminator or the generator. Arguments are those of `Bert`.

    Example:
        >>> import jax.numpy as jnp
        >>> from flax import nnx
        >>> config = ElectraConfig(100, 8, 2, 2, 16, embedding_size=4)
        >>> ids = jnp.array([[5, 6, 7, 0]])
        >>> Electra(config, rngs=nnx.Rngs(0))(ids, where=ids > 0).shape
        (1, 4, 8)
    """


ARCHITECTURE = dataclasses.replace(
    bert.ARCHITECTURE,
    class_name="ElectraModel",
    config=ElectraConfig,
    encoder=Electra,
    weights=WeightTable(
        {**TENSORS, **dense("embeddings_project", "embeddings.project")},
        prefix="electra.",
        # The heads of both pre-training tasks.
        ignored=r"(discriminator|generator)_\w+\..*|embeddings\.position_ids",
    ),
    config_keys={**CONFIG_KEYS, "embedding_size": "embedding_size"},
    optional=bert.ARCHITECTURE.optional | {"embedding_size"},
    reader_class_name="ElectraForQuestionAnswering",
)
