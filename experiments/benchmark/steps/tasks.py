"""The tasks whose step is measured: a random batch, the model, and the loss of given scores."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from experiments.benchmark.steps.setting import Setting, random_batch, random_texts
from hardem_jax.distributions.equation import NUM_TAGS, TagDistribution
from hardem_jax.distributions.span import SpanDistribution
from hardem_jax.distributions.sql import QueryDistribution
from hardem_jax.models.encoders.base import Encoder
from hardem_jax.models.encoders.packing import encode
from hardem_jax.models.equation_tagger import EquationTagger
from hardem_jax.models.naqanet import NAQANet, NAQANetConfig
from hardem_jax.models.span_reader import SpanReader
from hardem_jax.models.sqlova import NUM_AGGREGATORS, NUM_OPERATORS, SQLova
from hardem_jax.solutions.equations.rules import MINUS, PASSAGE, PLUS, SPECIAL, EquationRules
from hardem_jax.solutions.sql.types import MAX_CONDITIONS
from hardem_jax.tasks.base import make_loss
from hardem_jax.tasks.spans import make_span_loss

Array = jax.Array
Batch = dict[str, np.ndarray]

#: Numbers of a text in the equations task: passage and question of DROP have 24 in the mean.
NUM_NUMBERS = 24
NUM_SPECIAL = 10
#: Z_tot with all equations that `equation_batch` draws.
EVERY_PAIR = EquationRules(special_pairs=True, negative=True)
#: Tokens of a header in the queries task.
COLUMN_PIECES = 3
#: Vocabularies about as large as those of DROP's training split.
NAQANET = NAQANetConfig(num_words=50_000, num_characters=100, num_special=NUM_SPECIAL)
MAX_CHARACTERS = 16


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


def equation_batch(setting: Setting) -> Batch:
    """Texts full of numbers, with ``solutions`` random equations of two numbers in every row."""
    rng = np.random.default_rng(0)
    texts = random_texts(setting, rng)
    rows, slots = setting.rows, NUM_SPECIAL + NUM_NUMBERS
    lengths = texts["where"].sum(axis=1, keepdims=True)
    tokens = np.sort(rng.integers(0, lengths, (rows, NUM_NUMBERS)))
    shape = rows, setting.solutions
    first = rng.integers(0, slots - 1, shape)
    second = rng.integers(first + 1, slots)
    signs = rng.choice([PLUS, MINUS], (2, *shape))
    kinds = np.array([SPECIAL] * NUM_SPECIAL + [PASSAGE] * NUM_NUMBERS, np.int32)
    return {
        **texts,
        "number_tokens": tokens.astype(np.int32),
        "numbers_where": np.ones(tokens.shape, bool),
        "kinds": np.tile(kinds, (rows, 1)),
        "solutions": np.stack([first, signs[0], second, signs[1]], axis=-1).astype(np.int32),
        "solutions_where": np.ones(shape, bool),
        "row_where": np.ones(rows, bool),
    }


def query_batch(setting: Setting) -> Batch:
    """A question of a third of the row, then columns of three wordpieces; random queries."""
    rng = np.random.default_rng(0)
    texts = random_texts(dataclasses.replace(setting, shortest=1.0), rng)
    rows, words = setting.rows, setting.tokens // 3
    width = 1 + COLUMN_PIECES  # and [SEP]
    columns = max(1, (setting.tokens - words - 2) // width)
    begin = words + 2  # [CLS] question [SEP]
    places = begin + width * np.arange(columns)[:, None] + np.arange(COLUMN_PIECES)[None]
    shape = rows, setting.solutions
    number = rng.integers(0, min(MAX_CONDITIONS, columns) + 1, shape)
    chosen = np.argsort(rng.random((*shape, columns)), axis=-1)[..., :MAX_CONDITIONS]
    used = np.arange(MAX_CONDITIONS) < number[..., None]
    clause = np.full((*shape, MAX_CONDITIONS, 4), -1)
    clause[..., : chosen.shape[-1], 0] = np.sort(chosen, axis=-1)
    clause[..., 1] = rng.integers(0, NUM_OPERATORS, used.shape)
    clause[..., 2] = rng.integers(0, words, used.shape)
    clause[..., 3] = rng.integers(clause[..., 2], words)
    head = [rng.integers(0, columns, shape), rng.integers(0, NUM_AGGREGATORS, shape), number]
    clause = np.where(used[..., None], clause, -1).reshape(*shape, -1)
    return {
        **texts,
        "question_tokens": np.tile(1 + np.arange(words, dtype=np.int32), (rows, 1)),
        "question_where": np.ones((rows, words), bool),
        "words_first": np.tile(np.arange(words, dtype=np.int32), (rows, 1)),
        "words_where": np.ones((rows, words), bool),
        "header_tokens": np.tile(places.astype(np.int32), (rows, 1, 1)),
        "header_where": np.ones((rows, columns, COLUMN_PIECES), bool),
        "columns_where": np.ones((rows, columns), bool),
        "solutions": np.concatenate([np.stack(head, axis=-1), clause], axis=-1).astype(np.int32),
        "solutions_where": np.ones(shape, bool),
        "row_where": np.ones(rows, bool),
    }


def word_batch(setting: Setting) -> Batch:
    """`equation_batch` in words and characters: passages of T words, questions of an eighth.

    Example:
        >>> setting = Setting("tiny", rows=2, tokens=64, solutions=3)
        >>> word_batch(setting)["question_chars"].shape
        (2, 8, 16)
    """
    rng = np.random.default_rng(0)
    read = ("number_tokens", "numbers_where", "solutions", "solutions_where", "row_where")
    equations = equation_batch(setting)
    batch = {name: equations[name] for name in read}
    texts = {"passage": setting.tokens, "question": setting.tokens // 8}
    for text, length in texts.items():
        shape = setting.rows, length
        chars = rng.integers(2, NAQANET.num_characters, (*shape, MAX_CHARACTERS))
        batch[f"{text}_words"] = rng.integers(2, NAQANET.num_words, shape).astype(np.int32)
        batch[f"{text}_chars"] = chars.astype(np.int32)
        batch[f"{text}_where"] = np.ones(shape, bool)
    return batch


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
    "naqanet": Task(
        batch=word_batch,
        model=lambda encoder: NAQANet(NAQANET, dtype=encoder.dtype, rngs=nnx.Rngs(0)),
    ),
    "encoder": Task(batch=random_batch, model=EncoderAlone, make_loss=_encoder_loss),
}
