"""A trained span reader as a program that jax alone runs, on any device, on batches of any size.

`jax.export` serialises the computation, weights included, as StableHLO. Using it takes only jax and
flatbuffers, neither this project nor Flax:

    program = jax.export.deserialize(bytearray(Path("reader.jaxprogram").read_bytes()))
    outputs = program.call(batch)

In it, XLA computes attention without kernels, which are programs for one kind of device.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jax import export

from hardem_jax.encoders.ops.attention import only_xla
from hardem_jax.errors import require_packages
from hardem_jax.spans.model import SpanReader

#: Devices that programs are compiled for where they are loaded.
PLATFORMS = ("cpu", "cuda", "tpu")


def export_reader(reader: SpanReader) -> bytes:
    """A span reader as a program, which `jax.export.deserialize` reads and `PLATFORMS` run.

    Its batch has ``token_ids`` and ``token_type_ids`` int32 [B, T], and ``where`` (real tokens) and
    ``context`` (tokens of the document) bool [B, T]; T is at most the encoder's longest input, or
    calling the program is an error. It returns ``start`` and ``end``, float32 [B, T]
    log-probabilities of the first and the last token, -inf where a span cannot be;
    ``log_partitions`` float32 [B, 2], which added to those give logits, to compare windows by; and
    ``selector_logits`` float32 [B, 2].

    Example:
        >>> from hardem_jax.encoders.bert import Bert, BertConfig
        >>> reader = SpanReader(Bert(BertConfig(9, 8, 1, 2, 8), rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1))
        >>> program = export.deserialize(bytearray(export_reader(reader)))
        >>> program.in_avals[-1].str_short(), program.platforms
        ('bool[batch,tokens]', ('cpu', 'cuda', 'tpu'))
    """
    require_packages("models", "flatbuffers")
    limits = [f"tokens <= {reader.encoder.config.max_tokens}"]
    shape = export.symbolic_shape("batch, tokens", scope=export.SymbolicScope(limits))
    types = {"token_ids": jnp.int32, "token_type_ids": jnp.int32}
    types |= {"where": jnp.bool_, "context": jnp.bool_}
    batch = {name: jax.ShapeDtypeStruct(shape, dtype) for name, dtype in types.items()}
    graphdef, state = nnx.split(reader)

    def run(batch):
        reading = nnx.merge(graphdef, state)(batch)
        parts = {name: getattr(reading.spans, name) for name in ("start", "end", "log_partitions")}
        return parts | {"selector_logits": reading.selector_logits}

    with only_xla():
        exported = export.export(jax.jit(run), platforms=PLATFORMS)(batch)
    return bytes(exported.serialize())
