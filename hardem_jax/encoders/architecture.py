"""The description of an architecture: what it takes to read and write its checkpoints."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hardem_jax.encoders.base import Encoder, EncoderConfig
from hardem_jax.encoders.weights import WeightTable

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
    """An encoder and its Hugging Face checkpoints.

    Attributes:
        class_name: class in transformers.
        config: class of the configuration.
        encoder: makes an untrained one from a configuration and the keyword arguments of `Encoder`.
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
    encoder: Callable[..., Encoder]
    weights: WeightTable
    config_keys: Mapping[str, str]
    optional: frozenset[str]
    required_values: Mapping[str, Any]
    reader_class_name: str
    reader_head: ReaderHead = ReaderHead()
    published: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda content: content
    adapt: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] = lambda params: params
