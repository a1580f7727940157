"""The interface between an encoder and the heads on it, and the description of an architecture."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

import jax
import numpy as np
from flax import nnx
from jax.typing import DTypeLike

from hardem_jax.encoders.weights import WeightTable


class EncoderConfig(Protocol):
    """Sizes of an encoder: a frozen dataclass, one class per architecture.

    Its fields include `num_hidden_layers`, `hidden_dropout` and `attention_dropout`, which
    `load_encoder` can replace.

    Attributes:
        model_type: name of the architecture, as in a checkpoint's ``config.json``.
    """

    model_type: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    @property
    def vocab_size(self) -> int:
        """Rows of the word embedding."""
        ...

    @property
    def hidden_size(self) -> int:
        """Width D of the activations."""
        ...

    @property
    def num_hidden_layers(self) -> int:
        """Number of layers L."""
        ...

    @property
    def max_tokens(self) -> int:
        """Tokens of the longest input, special tokens included."""
        ...


class Encoder(Protocol):
    """Token ids to activations. Heads use nothing else of an encoder.

    It is an `nnx.Module` whose state is its parameters only, so that it can be used functionally.
    Outputs are in the compute dtype; at padding they are finite and otherwise arbitrary.

    Attributes:
        dtype: of activations and matrix products.
    """

    dtype: DTypeLike

    @property
    def config(self) -> EncoderConfig:
        """Sizes."""
        ...

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
            token_ids: int [B, T]; without `positions`, T is at most `config.max_tokens`.
            where: bool [B, T], true at real tokens. No token attends to padding. Without `segments`
                they come first in each row: cuDNN's kernel only counts them.
            token_type_ids: int [B, T], 0 for the first text of an input and 1 for the second.
                `None` means all 0. Architectures without token types ignore it.
            positions: int [B, T], below `config.max_tokens`, which is not checked. `None` means
                0, 1, ... in every row.
            segments: int [B, T]. A token attends only to real tokens of its own segment, so that
                several inputs can share a row. `None` means one input per row.
            rngs: source of the dropout key (stream `dropout`); `None` turns dropout off.

        Returns:
            [B, T, D].

        Raises:
            InputError: without `positions`, T is larger than `config.max_tokens`.
        """
        ...

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
        """Embeddings and the output of every layer: L + 1 arrays [B, T, D], the last layer last.

        Arguments and errors are those of `__call__`.
        """
        ...


Tensors = Mapping[str, np.ndarray]


def _as_they_are(tensors: Tensors, encoder: Tensors) -> Tensors:
    """Span scores that are `qa_outputs` on the last layer, as in most architectures."""
    del encoder
    return tensors


@dataclasses.dataclass(frozen=True)
class ReaderHead:
    """How an architecture's class for question answering holds span scores.

    Attributes:
        write: ``qa_outputs.weight`` and ``.bias``, and the encoder's tensors without prefix -> the
            tensors of the class that are not the encoder's.
        read: all tensors of a reader, and the encoder's without prefix -> the former with
            ``qa_outputs`` instead of what `write` put there.
        config: what ``config.json`` says of them.
    """

    write: Callable[[Tensors, Tensors], Tensors] = _as_they_are
    read: Callable[[Tensors, Tensors], Tensors] = _as_they_are
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Architecture:
    """What it takes to read and write the checkpoints of one architecture.

    Attributes:
        class_name: class in Hugging Face transformers.
        config: class of the configuration.
        encoder: makes an untrained encoder from a configuration and the keyword arguments `rngs`,
            `dtype`, `remat`, `attention` and `scan_layers`.
        weights: where the tensors of a checkpoint go.
        config_keys: field of the configuration -> key of ``config.json``.
        optional: fields whose key a ``config.json`` may lack.
        required_values: key of ``config.json`` -> the only value that is supported, and assumed if
            the key is absent.
        reader_class_name: class in transformers that has span scores on top.
        reader_head: how it has them.
        published: maps a ``config.json`` written by a newer transformers to the key names used in
            published checkpoints (those in `config_keys`).
        adapt: what has to change in parameters by path, once they are read.
    """

    class_name: str
    config: type[EncoderConfig]
    encoder: Callable[..., Any]
    weights: WeightTable
    config_keys: Mapping[str, str]
    optional: frozenset[str]
    required_values: Mapping[str, Any]
    reader_class_name: str
    reader_head: ReaderHead = ReaderHead()
    published: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda content: content
    adapt: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] = lambda params: params
