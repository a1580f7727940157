"""Trained models as programs that jax alone runs, on any device and at any batch size and length.

`jax.export` serialises a model's computation, weights included, as StableHLO. Using one takes only
jax and flatbuffers, neither this project nor Flax:

    program = jax.export.deserialize(bytearray(Path("reader.jaxprogram").read_bytes()))
    outputs = program.call(batch)

In it, XLA computes attention without kernels, which are programs for one kind of device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import export
from jax.typing import DTypeLike

from hardem_jax.extras import require_packages
from hardem_jax.models.equation_tagger import EquationTagger
from hardem_jax.models.ops.attention import only_xla
from hardem_jax.models.span_reader import SpanReader

#: Devices that programs are compiled for where they are loaded.
PLATFORMS = ("cpu", "cuda", "tpu")
# An input of a model: its dimensions, such as "batch, tokens", and its type.
Inputs = Mapping[str, tuple[str, DTypeLike]]
_TEXT: Inputs = {
    "token_ids": ("batch, tokens", jnp.int32),
    "token_type_ids": ("batch, tokens", jnp.int32),
    "where": ("batch, tokens", jnp.bool_),
}


def export_model(
    model: nnx.Module,
    inputs: Inputs,
    outputs: Callable[[Any], Any],
    *,
    max_tokens: int | None = None,
) -> bytes:
    """A model as a program of one argument, the batch.

    Args:
        model: called with a batch, without dropout. Its weights become part of the program.
        inputs: of the batch, by name. Dimensions that are words may have any size, the same
            wherever the word recurs; numbers are fixed, and "2*columns" is twice another. "tokens"
            is at most `max_tokens`, or calling the program is an error.
        outputs: what the model returns -> arrays in dicts, lists and tuples, which need no code to
            be read back.
        max_tokens: of the longest input; None for any length.

    Returns:
        What `jax.export.deserialize` reads. The program runs on `PLATFORMS`.

    Example:
        >>> class Sums(nnx.Module):
        ...     def __call__(self, batch):
        ...         return batch["x"].sum(axis=1)
        >>> inputs = {"x": ("batch, tokens", jnp.float32)}
        >>> program = export_model(Sums(), inputs, lambda sums: {"sums": sums}, max_tokens=8)
        >>> export.deserialize(bytearray(program)).call({"x": jnp.ones((2, 3))})["sums"].tolist()
        [3.0, 3.0]
    """
    require_packages("models", "flatbuffers")
    limits = [] if max_tokens is None else [f"tokens <= {max_tokens}"]
    scope = export.SymbolicScope(limits)
    batch = {
        name: jax.ShapeDtypeStruct(export.symbolic_shape(shape, scope=scope), dtype)
        for name, (shape, dtype) in inputs.items()
    }
    graphdef, state = nnx.split(model)

    def run(batch):
        return outputs(nnx.merge(graphdef, state)(batch))  # type: ignore[operator]

    with only_xla():
        exported = export.export(jax.jit(run), platforms=PLATFORMS)(batch)
    return bytes(exported.serialize())


def export_reader(reader: SpanReader) -> bytes:
    """A span reader as a program, see `export_model`.

    Its batch has ``token_ids`` and ``token_type_ids`` int32 [B, T], and ``where`` (real tokens) and
    ``context`` (tokens of the document) bool [B, T]. It returns ``start`` and ``end``, float32
    [B, T] log-probabilities of the first and the last token, -inf where a span cannot be;
    ``log_partitions`` float32 [B, 2], which added to those give logits, to compare windows by; and
    ``selector_logits`` float32 [B, 2].

    Example:
        >>> from hardem_jax.models.encoders.bert import Bert, BertConfig
        >>> reader = SpanReader(Bert(BertConfig(9, 8, 1, 2, 8), rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1))
        >>> program = export.deserialize(bytearray(export_reader(reader)))
        >>> program.in_avals[-1].str_short(), program.platforms
        ('bool[batch,tokens]', ('cpu', 'cuda', 'tpu'))
    """
    inputs = {**_TEXT, "context": ("batch, tokens", jnp.bool_)}

    def outputs(reading):
        spans = reading.spans
        return {
            **{"start": spans.start, "end": spans.end, "log_partitions": spans.log_partitions},
            "selector_logits": reading.selector_logits,
        }

    return export_model(reader, inputs, outputs, max_tokens=reader.encoder.config.max_tokens)


def export_tagger(tagger: EquationTagger) -> bytes:
    """A tagger of equations as a program, see `export_model`.

    Its batch has ``token_ids`` and ``token_type_ids`` int32 [B, T], ``where`` bool [B, T],
    ``number_tokens`` int32 [B, N], the first token of each number, and ``numbers_where`` bool
    [B, N]. It returns ``tags`` float32, log-probabilities of the tags of the special numbers and
    then of those of the text; see `TagDistribution`. The equation that they make most likely is
    searched for outside: the normaliser of a tagger over equations is the same for all of them.
    """
    numbers: Inputs = {
        "number_tokens": ("batch, numbers", jnp.int32),
        "numbers_where": ("batch, numbers", jnp.bool_),
    }
    plain = nnx.merge(*nnx.split(tagger))
    plain.rules = None
    return export_model(
        plain,
        {**_TEXT, **numbers},
        lambda distribution: {"tags": distribution.tags},
        max_tokens=tagger.encoder.config.max_tokens,
    )
