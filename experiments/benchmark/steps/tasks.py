"""The tasks whose step is measured: a random batch, the model, and the loss of given scores."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from experiments.benchmark.steps.batches import (
    NUM_CHARACTERS,
    NUM_NUMBERS,
    NUM_SPECIAL,
    NUM_WORDS,
    equation_batch,
    program_batch,
    query_batch,
    tagging_batch,
    word_batch,
)
from experiments.benchmark.steps.setting import Batch, Setting, random_batch
from hardem_jax.distributions.equation import NUM_TAGS, TagDistribution
from hardem_jax.distributions.span import SpanDistribution
from hardem_jax.distributions.sql import QueryDistribution
from hardem_jax.models.encoders.base import Encoder
from hardem_jax.models.encoders.packing import encode
from hardem_jax.models.equation_tagger import EquationTagger
from hardem_jax.models.naqanet import NAQANet, NAQANetConfig
from hardem_jax.models.program_parser import ProgramParser
from hardem_jax.models.span_reader import SpanReader
from hardem_jax.models.sqlova import NUM_AGGREGATORS, NUM_OPERATORS, SQLova
from hardem_jax.models.tagged_reader import TaggedReader
from hardem_jax.solutions.equations.rules import EquationRules
from hardem_jax.solutions.sql.types import MAX_CONDITIONS
from hardem_jax.tasks.base import make_loss
from hardem_jax.tasks.spans.loss import make_span_loss
from hardem_jax.tasks.spans.taggings import make_tagging_loss

Array = jax.Array

#: Z_tot with all equations that `equation_batch` draws.
EVERY_PAIR = EquationRules(special_pairs=True, negative=True)
#: Vocabularies about as large as those of DROP's training split.
NAQANET = NAQANetConfig(num_words=NUM_WORDS, num_characters=NUM_CHARACTERS, num_special=NUM_SPECIAL)


@dataclasses.dataclass(frozen=True)
class Task:
    """What is needed to measure the training step of a task, and its loss without the model.

    Attributes:
        batch: setting -> a batch without the entries of the host.
        model: encoder -> model; heads are fresh.
        make_loss: (graphdef, objective) -> loss of a training step.
        scores: setting -> shapes of the model's scores by name, before any softmax.
        log_probs: (scores, batch) -> log P(z | x), ``[R, Z]``.
    """

    batch: Callable[[Setting], Batch]
    model: Callable[[Encoder], nnx.Module]
    make_loss: Callable[..., Any] = make_loss
    scores: Callable[[Setting], dict[str, tuple[int, ...]]] | None = None
    log_probs: Callable[[Mapping[str, Array], Mapping[str, Array]], Array] | None = None


def _span_log_probs(scores: Mapping[str, Array], batch: Mapping[str, Array]) -> Array:
    spans = SpanDistribution.from_logits(scores["start"], scores["end"], where=batch["context"])
    return spans.log_prob(batch["solutions"])


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


def _query_scores(setting: Setting) -> dict[str, tuple[int, ...]]:
    batch = query_batch(dataclasses.replace(setting, solutions=1))
    (rows, columns), words = batch["columns_where"].shape, batch["words_where"].shape[1]
    cells = (rows, columns, NUM_OPERATORS)
    return {
        "select": (rows, columns),
        "aggregator": (rows, columns, NUM_AGGREGATORS),
        "number": (rows, MAX_CONDITIONS + 1),
        "column": (rows, columns),
        "operator": cells,
        "first": (*cells, words),
        "last": (*cells, words),
    }


def _query_log_probs(scores: Mapping[str, Array], batch: Mapping[str, Array]) -> Array:
    queries = QueryDistribution.from_logits(
        **scores, columns=batch["columns_where"], words=batch["words_where"]
    )
    return queries.log_prob(batch["solutions"])


def _tags(scores: Mapping[str, Array]) -> TagDistribution:
    where = jnp.ones(scores["tags"].shape[:2], bool)
    return TagDistribution.from_logits(scores["tags"], where=where)


def _equation_log_probs(scores: Mapping[str, Array], batch: Mapping[str, Array]) -> Array:
    return _tags(scores).log_prob(batch["solutions"])


def _softmax_log_probs(scores: Mapping[str, Array], batch: Mapping[str, Array]) -> Array:
    pairs, lone = EVERY_PAIR.table(batch["kinds"]), EVERY_PAIR.lone(batch["kinds"])
    equations = _tags(scores).over_equations(pairs=pairs, lone=lone)
    return equations.log_prob(batch["solutions"])


def _tagger(rules: EquationRules | None, log_probs: Callable[..., Array]) -> Task:
    return Task(
        batch=equation_batch,
        model=lambda encoder: EquationTagger(
            encoder, num_special=NUM_SPECIAL, rules=rules, rngs=nnx.Rngs(0)
        ),
        scores=lambda setting: {"tags": (setting.rows, NUM_SPECIAL + NUM_NUMBERS, NUM_TAGS)},
        log_probs=log_probs,
    )


#: NAQANet brings its own encoder. The step of an encoder without a head is what those with one are
#: compared with.
TASKS = {
    "spans": Task(
        batch=random_batch,
        model=lambda encoder: SpanReader(encoder, rngs=nnx.Rngs(0)),
        make_loss=make_span_loss,
        scores=lambda setting: dict.fromkeys(("start", "end"), (setting.rows, setting.tokens)),
        log_probs=_span_log_probs,
    ),
    "equations": _tagger(None, _equation_log_probs),
    "normalized-equations": _tagger(EVERY_PAIR, _softmax_log_probs),
    "queries": Task(
        batch=query_batch,
        model=lambda encoder: SQLova(encoder, rngs=nnx.Rngs(0)),
        scores=_query_scores,
        log_probs=_query_log_probs,
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
