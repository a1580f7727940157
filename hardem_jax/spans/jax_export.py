"""A trained span reader as a program for jax alone, see `hardem_jax.task.jax_export`."""

from __future__ import annotations

import jax.numpy as jnp

from hardem_jax.spans.model import SpanReader
from hardem_jax.task.jax_export import TEXT_INPUTS, export_model


def export_reader(reader: SpanReader) -> bytes:
    """A span reader as a program, see `export_model`.

    Its batch has ``token_ids`` and ``token_type_ids`` int32 [B, T], and ``where`` (real tokens) and
    ``context`` (tokens of the document) bool [B, T]. It returns ``start`` and ``end``, float32
    [B, T] log-probabilities of the first and the last token, -inf where a span cannot be;
    ``log_partitions`` float32 [B, 2], which added to those give logits, to compare windows by; and
    ``selector_logits`` float32 [B, 2].

    Example:
        >>> from flax import nnx
        >>> from jax import export
        >>> from hardem_jax.encoders.bert import Bert, BertConfig
        >>> reader = SpanReader(Bert(BertConfig(9, 8, 1, 2, 8), rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1))
        >>> program = export.deserialize(bytearray(export_reader(reader)))
        >>> program.in_avals[-1].str_short(), program.platforms
        ('bool[batch,tokens]', ('cpu', 'cuda', 'tpu'))
    """
    inputs = {**TEXT_INPUTS, "context": ("batch, tokens", jnp.bool_)}

    def outputs(reading):
        spans = reading.spans
        return {
            **{"start": spans.start, "end": spans.end, "log_partitions": spans.log_partitions},
            "selector_logits": reading.selector_logits,
        }

    return export_model(reader, inputs, outputs, max_tokens=reader.encoder.config.max_tokens)
