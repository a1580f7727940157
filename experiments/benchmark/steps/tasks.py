"""The tasks whose step is measured: a random batch, the model and the loss."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from experiments.benchmark.steps.batches import (
    NUM_CHARACTERS,
    NUM_SPECIAL,
    NUM_WORDS,
    equation_batch,
    program_batch,
    query_batch,
    tagging_batch,
    word_batch,
)
from experiments.benchmark.steps.setting import Batch, Setting, random_batch
from hardem_jax.encoders.base import Encoder
from hardem_jax.encoders.packing import encode
from hardem_jax.equations.model import EquationTagger
from hardem_jax.equations.naqanet import NAQANet, NAQANetConfig
from hardem_jax.equations.solutions.rules import EquationRules
from hardem_jax.programs.model import ProgramParser
from hardem_jax.queries.model import SQLova
from hardem_jax.span_sets.model import TaggedReader
from hardem_jax.span_sets.task import make_tagging_loss
from hardem_jax.spans.loss import make_span_loss
from hardem_jax.spans.model import SpanReader
from hardem_jax.task.base import make_loss

Array = jax.Array

#: Z_tot with all equations that `equation_batch` draws.
EVERY_PAIR = EquationRules(special_pairs=True, negative=True)
#: Vocabularies about as large as those of DROP's training split.
NAQANET = NAQANetConfig(num_words=NUM_WORDS, num_characters=NUM_CHARACTERS, num_special=NUM_SPECIAL)


@dataclasses.dataclass(frozen=True)
class Task:
    """What is needed to measure the training step of a task.

    Attributes:
        batch: setting -> a batch without the entries of the host.
        model: encoder -> model; heads are fresh.
        make_loss: (graphdef, objective) -> loss of a training step.
    """

    batch: Callable[[Setting], Batch]
    model: Callable[[Encoder], nnx.Module]
    make_loss: Callable[..., Any] = make_loss


class EncoderAlone(nnx.Module):
    """No head: what every other step costs at least."""

    def __init__(self, encoder: Encoder):
        self.encoder = encoder


def _encoder_loss(graphdef: nnx.GraphDef, objective: Any) -> Any:
    """The mean square of the last layer: a gradient for every parameter, and hardly any work."""
    del objective

    def loss(params, batch, *, step, key, dropout_key):
        model: EncoderAlone = nnx.merge(graphdef, params)
        hidden = encode(model.encoder, batch, rngs=nnx.Rngs(dropout=dropout_key))
        return jnp.mean(hidden.astype(jnp.float32) ** 2), {}

    return loss


def _tagger(rules: EquationRules | None) -> Task:
    return Task(
        batch=equation_batch,
        model=lambda encoder: EquationTagger(
            encoder, num_special=NUM_SPECIAL, rules=rules, rngs=nnx.Rngs(0)
        ),
    )


#: NAQANet brings its own encoder. The step of an encoder without a head is what those with one are
#: compared with.
TASKS = {
    "spans": Task(
        batch=random_batch,
        model=lambda encoder: SpanReader(encoder, rngs=nnx.Rngs(0)),
        make_loss=make_span_loss,
    ),
    "equations": _tagger(None),
    "normalized-equations": _tagger(EVERY_PAIR),
    "queries": Task(
        batch=query_batch,
        model=lambda encoder: SQLova(encoder, rngs=nnx.Rngs(0)),
    ),
    "programs": Task(
        batch=program_batch, model=lambda encoder: ProgramParser(encoder, rngs=nnx.Rngs(0))
    ),
    "taggings": Task(
        batch=tagging_batch,
        model=lambda encoder: TaggedReader(encoder, rngs=nnx.Rngs(0)),
        make_loss=make_tagging_loss,
    ),
    "naqanet": Task(
        batch=word_batch,
        model=lambda encoder: NAQANet(NAQANET, dtype=encoder.dtype, rngs=nnx.Rngs(0)),
    ),
    "encoder": Task(batch=random_batch, model=EncoderAlone, make_loss=_encoder_loss),
}
