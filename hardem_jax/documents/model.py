"""Models that read windows of documents, and the loss of their selector."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from hardem_jax.data.batching.padding import Inputs
from hardem_jax.data.tokenizer import Tokenizer
from hardem_jax.documents.questions import ReadingQuestions, check_encoder
from hardem_jax.documents.windows import Window
from hardem_jax.task.encoder import EncoderModel, check_lengths

Array = jax.Array


def selector_loss_sum(logits: Array, holds: Array, batch: Mapping[str, Array]) -> Array:
    """Cross-entropy of a selector ``[R, 2]``, class 1 of which ``holds`` the answer, summed over
    real rows."""
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, holds.astype(jnp.int32))
    return jnp.sum(losses, where=batch["row_where"])


class WindowInputs(tuple[Window, ...]):
    """Windows in memory, as the inputs of a reader."""

    @property
    def sizes(self) -> np.ndarray:
        rows = [(window.num_tokens, len(window.solutions)) for window in self]
        return np.array(rows, np.int32).reshape(-1, 2)


@dataclasses.dataclass(frozen=True)
class WindowModel(EncoderModel):
    """A model that reads windows, with the tokenizer that they were cut with."""

    @staticmethod
    def tokenizer_for(config: Any, data: ReadingQuestions) -> Tokenizer:
        check_encoder(data, config.encoder)
        return data.tokenizer

    def inputs(self, data: ReadingQuestions) -> Inputs:
        return data.windows

    def check_lengths(self, buckets: Sequence[int]) -> None:
        check_lengths(self.config, self.encoder, buckets)
