"""Random batches and tiny models of every task, for tests of what all training steps share."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from hardem_jax.encoders.bert import Bert, BertConfig
from hardem_jax.equations.model import EquationTagger
from hardem_jax.equations.naqanet import NAQANet, NAQANetConfig
from hardem_jax.equations.solutions.rules import MINUS, PASSAGE, PLUS, SPECIAL, EquationRules
from hardem_jax.programs.model import FIELD_FACTS, LINK_FACTS, ProgramParser
from hardem_jax.programs.solutions.types import PARTS, SHAPES
from hardem_jax.queries.model import SQLova
from hardem_jax.span_sets.model import TaggedReader
from hardem_jax.span_sets.task import make_tagging_loss
from hardem_jax.spans.model import SpanReader
from hardem_jax.spans.task import make_span_loss
from hardem_jax.task.base import make_loss

VOCABULARY = 1000
NUM_SPECIAL, NUM_NUMBERS = 3, 6
NUM_SOLUTIONS = 3
WORDS = NAQANetConfig(num_words=50, num_characters=20)


#: One layer without dropout, which reads its inputs alike in training and in a test.
SMALL_BERT = BertConfig(30, 16, 1, 2, 32, hidden_dropout=0.0, attention_dropout=0.0)


def make_bert(**options: Any) -> Bert:
    """Two layers of 32 units for at most 40 tokens.

    Args:
        **options: of `Bert`; and dropout rates, of its configuration.
    """
    rates = {name: options.pop(name) for name in list(options) if name.endswith("_dropout")}
    config = BertConfig(VOCABULARY, 32, 2, 2, 64, max_position_embeddings=40, **rates)
    return Bert(config, rngs=nnx.Rngs(0), **options)


def compile_together(graphdef: nnx.GraphDef, losses: Mapping[Any, Callable]) -> Callable:
    """Compiles several losses of a model, and what it says without dropout, as one program.

    That takes little longer than one of them, for all contain the same encoder.

    Returns:
        ``compute(params, batch, step=0) -> (losses and metrics by name, what the model says)``.
    """

    @jax.jit
    def compute(params, batch, step):
        key = jax.random.key(0)
        keys = {"step": step, "key": key, "dropout_key": key}
        found = [loss(params, batch, **keys) for loss in losses.values()]
        return found, nnx.merge(graphdef, params)(batch)

    def by_name(params, batch, step=0):
        found, said = compute(params, batch, jnp.int32(step))
        return dict(zip(losses, found, strict=True)), said

    return by_name


def texts(rng: np.random.Generator, rows: int, tokens: int) -> dict[str, np.ndarray]:
    """Rows of at least half the length; the first quarter is of type 0."""
    position = np.arange(tokens)[None]
    where = position < rng.integers(tokens // 2, tokens + 1, (rows, 1))
    ids = np.where(where, rng.integers(1, VOCABULARY, (rows, tokens)), 0)
    types = where & (position >= tokens // 4)
    return {"token_ids": ids.astype(np.int32), "token_type_ids": types.astype(np.int32),
            "where": where, "row_where": np.ones(rows, bool)}  # fmt: skip


def span_batch(rows: int, tokens: int) -> dict[str, np.ndarray]:
    """The first half of the rows has mentions, the second none, as in training."""
    rng = np.random.default_rng(0)
    batch = texts(rng, rows, tokens)
    first = rng.integers(tokens // 4, tokens // 2 - 2, (rows, NUM_SOLUTIONS))
    solutions = np.stack([first, first + rng.integers(0, 2, first.shape)], axis=-1)
    where = np.repeat(np.arange(rows)[:, None] < rows // 2, NUM_SOLUTIONS, axis=1)
    return batch | {
        "context": batch["token_type_ids"] > 0,
        "solutions": (solutions * where[..., None]).astype(np.int32),
        "solutions_where": where,
    }


def tagging_batch(rows: int, tokens: int) -> dict[str, np.ndarray]:
    """Three mentions of a word each; the first half of the rows has taggings of one or two."""
    rng = np.random.default_rng(0)
    batch = texts(rng, rows, tokens)
    words = np.arange(tokens // 4, tokens // 2, dtype=np.int32)
    mentions = np.sort(rng.permuted(np.tile(np.arange(len(words)), (rows, 1)), axis=1)[:, :3])
    taggings = np.array([[1, 0, 0], [0, 1, 1], [1, 0, 1]], bool)
    holds = np.arange(rows) < rows // 2
    return batch | {
        "words": np.tile(words, (rows, 1)),
        "words_where": np.ones((rows, len(words)), bool),
        "mentions": np.stack([mentions, mentions], axis=-1).astype(np.int32),
        "solutions": np.tile(taggings, (rows, 1, 1)),
        "solutions_where": np.repeat(holds[:, None], len(taggings), axis=1),
        "holds": holds,
    }


def equation_batch(rows: int, tokens: int, num_special: int = NUM_SPECIAL) -> dict[str, np.ndarray]:
    """Sums and differences of two numbers."""
    rng = np.random.default_rng(0)
    batch = texts(rng, rows, tokens)
    shape, slots = (rows, NUM_SOLUTIONS), num_special + NUM_NUMBERS
    first = rng.integers(0, slots - 1, shape)
    signs = rng.choice([PLUS, MINUS], (2, *shape))
    solutions = np.stack([first, signs[0], rng.integers(first + 1, slots), signs[1]], axis=-1)
    numbers = np.sort(rng.integers(0, tokens // 2, (rows, NUM_NUMBERS)))
    kinds = np.array([SPECIAL] * num_special + [PASSAGE] * NUM_NUMBERS, np.int32)
    return batch | {
        "number_tokens": numbers.astype(np.int32),
        "numbers_where": np.ones(numbers.shape, bool),
        "kinds": np.tile(kinds, (rows, 1)),
        "solutions": solutions.astype(np.int32),
        "solutions_where": np.ones(shape, bool),
    }


def word_batch(rows: int, tokens: int) -> dict[str, np.ndarray]:
    """`equation_batch` in words and characters."""
    rng = np.random.default_rng(0)
    read = ("number_tokens", "numbers_where", "solutions", "solutions_where", "row_where")
    equations = equation_batch(rows, tokens, num_special=0)
    batch = {name: equations[name] for name in read}
    for text, length in {"passage": tokens, "question": tokens // 4}.items():
        chars = rng.integers(2, WORDS.num_characters, (rows, length, 8))
        words = rng.integers(2, WORDS.num_words, (rows, length))
        batch[f"{text}_chars"] = chars.astype(np.int32)
        batch[f"{text}_words"] = words.astype(np.int32)
        batch[f"{text}_where"] = np.ones((rows, length), bool)
    return batch


def query_batch(rows: int, tokens: int) -> dict[str, np.ndarray]:
    """Three columns of two tokens each behind the question; queries with one condition."""
    rng = np.random.default_rng(0)
    words, columns, pieces = tokens // 4, 3, 2
    headers = words + 2 + 3 * np.arange(columns)[:, None] + np.arange(pieces)
    shape = rows, NUM_SOLUTIONS
    queries = np.full((*shape, 15), -1)
    # Selected column, aggregator, number of conditions; column, operator, first and last word.
    for place, limit in enumerate((columns, 6, None, columns, 3, words)):
        queries[..., place] = 1 if limit is None else rng.integers(0, limit, shape)
    queries[..., 6] = rng.integers(queries[..., 5], words)
    positions = np.tile(np.arange(words, dtype=np.int32), (rows, 1))
    return texts(rng, rows, tokens) | {
        "question_tokens": 1 + positions,
        "question_where": np.ones((rows, words), bool),
        "words_first": positions,
        "words_where": np.ones((rows, words), bool),
        "header_tokens": np.tile(headers.astype(np.int32), (rows, 1, 1)),
        "header_where": np.ones((rows, columns, pieces), bool),
        "columns_where": np.ones((rows, columns), bool),
        "solutions": queries.astype(np.int32),
        "solutions_where": np.ones(shape, bool),
    }


def program_batch(rows: int, tokens: int) -> dict[str, np.ndarray]:
    """Columns and links as in `query_batch`; programs that show the texts of a column."""
    rng = np.random.default_rng(0)
    words, columns, links = tokens // 4, 3, 4
    first = words + 2 + 3 * np.arange(columns + 1)
    headers = np.stack([first, first + 2], axis=-1)
    shape, fields = (rows, NUM_SOLUTIONS), (columns + 1) * len(PARTS)
    texts_of = PARTS.index("text") + len(PARTS) * np.arange(columns)
    linked = np.stack(
        [rng.choice(texts_of, (rows, links)), *np.zeros((3, rows, links), int)], axis=-1
    )
    shows = next(i for i, s in enumerate(SHAPES) if s.has_select and s.num_links == 1)
    programs = np.full((*shape, 5), -1)
    programs[..., 0] = shows
    programs[..., 1] = rng.choice(texts_of, shape)
    programs[..., 3] = rng.integers(0, links, shape)
    return texts(rng, rows, tokens) | {
        "words_first": np.tile(1 + np.arange(words, dtype=np.int32), (rows, 1)),
        "headers": np.tile(headers.astype(np.int32), (rows, 1, 1)),
        "row_number": np.full(rows, columns, np.int32),
        "fields_where": np.ones((rows, fields), bool),
        "field_facts": rng.normal(size=(rows, fields, FIELD_FACTS)).astype(np.float32),
        "links": linked.astype(np.int32),
        "links_where": np.ones((rows, links), bool),
        "link_facts": rng.normal(size=(rows, links, LINK_FACTS)).astype(np.float32),
        "shapes_where": np.ones((rows, len(SHAPES)), bool),
        "solutions": programs.astype(np.int32),
        "solutions_where": np.ones(shape, bool),
    }


@dataclasses.dataclass(frozen=True)
class ToyTask:
    """`batch(rows, tokens)`, `model(encoder)` and `make_loss(graphdef, objective)`."""

    batch: Callable[[int, int], dict[str, np.ndarray]]
    model: Callable[[Bert], nnx.Module]
    make_loss: Callable[..., Any]


def _tagger(rules: EquationRules | None) -> ToyTask:
    def model(encoder: Bert) -> nnx.Module:
        options = {"num_special": NUM_SPECIAL, "rules": rules, "rngs": nnx.Rngs(0)}
        return EquationTagger(encoder, **options)

    return ToyTask(equation_batch, model, make_loss)


TASKS = {
    "spans": ToyTask(
        span_batch, lambda encoder: SpanReader(encoder, rngs=nnx.Rngs(0)), make_span_loss
    ),
    "taggings": ToyTask(
        tagging_batch, lambda encoder: TaggedReader(encoder, rngs=nnx.Rngs(0)), make_tagging_loss
    ),
    "equations": _tagger(None),
    "normalized-equations": _tagger(EquationRules(special_pairs=True, negative=True)),
    "queries": ToyTask(query_batch, lambda encoder: SQLova(encoder, rngs=nnx.Rngs(0)), make_loss),
    "programs": ToyTask(
        program_batch, lambda encoder: ProgramParser(encoder, rngs=nnx.Rngs(0)), make_loss
    ),
    "naqanet": ToyTask(
        word_batch, lambda encoder: NAQANet(WORDS, dtype=encoder.dtype, rngs=nnx.Rngs(0)), make_loss
    ),
}
