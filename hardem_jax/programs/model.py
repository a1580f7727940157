"""A parser of questions on tables: scores for every part of a program, from one encoder.

The encoder reads the question and the columns' names as one text. A column is the mean of its
tokens, a word its first token. All that programs are made of is scored once, by a layer per slot:

=============  =================================================================================
shape          from the question: a score of its own, and one each of its result, modifier and
               connective, which shapes share
field          from its column, its part, how well the column fills it, and the question
link           from its column and part, its operator, the first and last word of its value, how
               many rows satisfy it, and the question
=============  =================================================================================

The output is the tables of a `ProgramDistribution`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from hardem_jax import masked
from hardem_jax.encoders.base import Encoder, encode
from hardem_jax.encoders.layers import dense, take
from hardem_jax.encoders.ops.fused import dropout
from hardem_jax.programs.distribution import ProgramDistribution
from hardem_jax.programs.solutions.rules import may_modify, may_select
from hardem_jax.programs.solutions.types import (
    CONNECTIVES,
    MODIFIERS,
    MOVES,
    OPERATORS,
    PARTS,
    RESULTS,
    SHAPES,
    Field,
    Shape,
)

Array = jax.Array

#: Operators of both links of "or", and of the second of "and not", see `may_pair`.
HELD = tuple(OPERATORS.index(name) for name in ("=", "contains"))
#: Numbers known of a field and of a link, see `hardem_jax.programs.inputs`.
FIELD_FACTS, LINK_FACTS = 5, 4

_NAMES = (RESULTS, MODIFIERS, CONNECTIVES)


def _kinds_of(shape: Shape) -> tuple[object, object, object, object]:
    """What the factors of a shape depend on, by slot; None for a slot that it lacks."""
    modify = shape.modifier if shape.modifier != "none" else shape.result
    rows = shape.connective, shape.modifier in MOVES
    return (
        shape.result if shape.has_select else None,
        modify if shape.has_modify else None,
        rows if shape.num_links > 0 else None,
        rows if shape.num_links > 1 else None,
    )


def _numbered() -> tuple[tuple[Any, ...], tuple[int, ...]]:
    seen: list[dict[object, int]] = [{}, {}, {}, {}]
    rows = [
        tuple(
            -1 if kind is None else numbers.setdefault(kind, len(numbers))
            for numbers, kind in zip(seen, _kinds_of(shape), strict=True)
        )
        for shape in SHAPES
    ]
    return tuple(rows), tuple(map(len, seen))


#: For each of `SHAPES`, the kinds of its four slots, see `ProgramDistribution`; and their numbers.
KINDS, NUM_KINDS = _numbered()


def _by_kind(place: int, may: Callable[[Shape], np.ndarray]) -> np.ndarray:
    """``[K, ...]`` bool: what may fill a slot in some shape of each kind."""
    found: dict[int, np.ndarray] = {}
    for kinds, shape in zip(KINDS, SHAPES, strict=True):
        if (kind := kinds[place]) >= 0:
            found[kind] = found.get(kind, np.False_) | may(shape)
    return np.stack([found[kind] for kind in range(NUM_KINDS[place])])


def _joined(place: int) -> np.ndarray:
    """``[K, O]`` bool: which operators the links of a kind may have."""
    numbers = np.arange(len(OPERATORS))
    restricted = ("or",) if place == 2 else ("or", "and not")
    return _by_kind(place, lambda s: np.isin(numbers, HELD) | (s.connective not in restricted))


# The row number and all parts of a column, in a table with one: the column after it is the number.
_FIELDS = [Field(1, PARTS.index("number")), *(Field(0, part) for part in range(len(PARTS)))]
#: ``[K, 1 + P]`` bool: whether a kind takes the row number, and which parts of columns.
SELECTABLE = _by_kind(0, lambda shape: np.array([may_select(shape, f, 1) for f in _FIELDS]))
MODIFIABLE = _by_kind(1, lambda shape: np.array([may_modify(shape, f, 1) for f in _FIELDS]))
JOINED = _joined(2), _joined(3)


class ProgramParser(nnx.Module):
    """Question, columns, fields and links -> P(z | x) over programs.

    Args:
        encoder: gives ``[B, T, D]`` from token ids.
        hidden_size: width of the layer before the scores of a slot.
        rate: of dropout in that layer; the encoder has its own.
        rngs: stream ``params`` initialises all but the encoder.

    Calling it takes a batch as `hardem_jax.programs.inputs` describes it. It returns a
    `ProgramDistribution`. ``rngs`` with the stream ``dropout`` turns dropout on.

    Example:
        >>> from hardem_jax.encoders.bert import Bert, BertConfig
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1,
        ...     num_attention_heads=2, intermediate_size=16)
        >>> tokens, fields = jnp.ones((1, 7), int), 2 * len(PARTS)
        >>> batch = dict(token_ids=tokens, token_type_ids=0 * tokens, where=tokens > 0,
        ...     words_first=jnp.array([[1, 2]]), headers=jnp.array([[[4, 6], [0, 0]]]),
        ...     row_number=jnp.array([1]), fields_where=jnp.ones((1, fields), bool),
        ...     field_facts=jnp.zeros((1, fields, FIELD_FACTS)),
        ...     links=jnp.array([[[0, 0, 1, 1]]]), links_where=jnp.ones((1, 1), bool),
        ...     link_facts=jnp.zeros((1, 1, LINK_FACTS)),
        ...     shapes_where=jnp.ones((1, len(SHAPES)), bool))
        >>> def parse():
        ...     return ProgramParser(Bert(config, rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1))(batch)
        >>> programs = jax.eval_shape(parse)  # only shapes; `parse()` computes them
        >>> programs.shape.shape == (1, len(SHAPES)), programs.select.shape[2] == fields
        (True, True)
    """

    def __init__(
        self, encoder: Encoder, *, hidden_size: int = 256, rate: float = 0.1, rngs: nnx.Rngs
    ):
        width = encoder.config.hidden_size

        def head(terms: int, kinds: int) -> SlotHead:
            return SlotHead(width, terms, hidden_size, kinds, rngs=rngs)

        self.encoder = encoder
        self.rate = rate
        self.row_number = nnx.Param(jnp.zeros(width, jnp.float32))
        self.shape_hidden = dense(2 * width, hidden_size, rngs=rngs)
        self.shape_output = dense(hidden_size, len(SHAPES) + sum(map(len, _NAMES)), rngs=rngs)
        fields = len(PARTS) + FIELD_FACTS
        links = len(PARTS) + len(OPERATORS) + LINK_FACTS
        self.select = head(fields, NUM_KINDS[0])
        self.modify = head(fields, NUM_KINDS[1])
        self.link1 = LinkHead(head(links, NUM_KINDS[2]), width, hidden_size, rngs=rngs)
        self.link2 = LinkHead(head(links, NUM_KINDS[3]), width, hidden_size, rngs=rngs)

    def __call__(
        self, batch: Mapping[str, Array], *, rngs: nnx.Rngs | None = None
    ) -> ProgramDistribution:
        tokens = encode(self.encoder, batch, rngs=rngs).astype(jnp.float32)
        columns = self.read_columns(tokens, batch["headers"], batch["row_number"])
        asked = batch["where"] & (batch["token_type_ids"] == 0)
        mean = _mean(tokens, asked[:, None])[:, 0]
        question = jnp.concatenate([tokens[:, 0], mean], axis=-1)
        fields = self.field_terms(batch)
        drop = _Dropout(self.rate, rngs)
        return ProgramDistribution.from_logits(
            shape=self.shape_scores(question, drop),
            select=self.field_scores(self.select, columns, fields, mean, drop),
            modify=self.field_scores(self.modify, columns, fields, mean, drop),
            link1=self.link1(columns, tokens, mean, batch, drop),
            link2=self.link2(columns, tokens, mean, batch, drop),
            kinds=KINDS,
            select_where=_suitable_fields(batch, SELECTABLE),
            modify_where=_suitable_fields(batch, MODIFIABLE),
            link1_where=_suitable_links(batch, JOINED[0]),
            link2_where=_suitable_links(batch, JOINED[1]),
            shape_where=batch["shapes_where"],
        )

    def read_columns(self, tokens: Array, headers: Array, row_number: Array) -> Array:
        """``[B, C, D]``: the mean of each column's tokens; for the row number, a learned vector."""
        places = jnp.arange(tokens.shape[1])[None, None]
        inside = (headers[..., :1] <= places) & (places < headers[..., 1:])
        is_number = jnp.arange(headers.shape[1])[None] == row_number[:, None]
        return jnp.where(
            is_number[..., None], self.row_number[...][None, None], _mean(tokens, inside)
        )

    def shape_scores(self, question: Array, drop: _Dropout) -> Array:
        """``[B, 2 D]`` -> ``[B, S]``."""
        scores = self.shape_output(drop(jnp.tanh(self.shape_hidden(question))))
        sizes = np.cumsum([len(SHAPES), *map(len, _NAMES)])[:-1].tolist()
        own, *parts = jnp.split(scores, sizes, axis=-1)
        for names, part, values in zip(_NAMES, parts, zip(*SHAPES, strict=True), strict=True):
            own += part[:, np.array([names.index(value) for value in values])]
        return own

    def field_terms(self, batch: Mapping[str, Array]) -> Array:
        """``[B, C, P, ...]``: what is known of a field, other than its column."""
        facts = batch["field_facts"]
        facts = facts.reshape(facts.shape[0], -1, len(PARTS), FIELD_FACTS)
        part = jnp.broadcast_to(jnp.eye(len(PARTS)), (*facts.shape[:2], *[len(PARTS)] * 2))
        return jnp.concatenate([part, facts], axis=-1)

    def field_scores(
        self, head: SlotHead, columns: Array, terms: Array, question: Array, drop: _Dropout
    ) -> Array:
        """``[B, K, F]``."""
        column = head.column(columns)[:, :, None] + head.question(question)[:, None, None]
        scores = head.output(drop(jnp.tanh(column + head.terms(terms))))
        return jnp.moveaxis(scores.reshape(scores.shape[0], -1, scores.shape[-1]), -1, 1)


class SlotHead(nnx.Module):
    """Scores of what may fill a slot: tanh of a sum of terms, then a score for each kind.

    Each term is computed where it is small (per column, per part) and added, so that nothing of
    size columns x parts is multiplied by a large matrix before tanh.
    """

    def __init__(self, width: int, terms: int, hidden: int, kinds: int, *, rngs: nnx.Rngs):
        self.column = dense(width, hidden, rngs=rngs)
        self.question = dense(width, hidden, use_bias=False, rngs=rngs)
        self.terms = dense(terms, hidden, use_bias=False, rngs=rngs)
        self.output = dense(hidden, kinds, rngs=rngs)


class LinkHead(nnx.Module):
    """Scores of links: a `SlotHead` with the first and last word of the value added."""

    def __init__(self, head: SlotHead, width: int, hidden: int, *, rngs: nnx.Rngs):
        self.head = head
        self.first = dense(width, hidden, use_bias=False, rngs=rngs)
        self.last = dense(width, hidden, use_bias=False, rngs=rngs)

    def __call__(
        self,
        columns: Array,
        tokens: Array,
        question: Array,
        batch: Mapping[str, Array],
        drop: _Dropout,
    ) -> Array:
        """``[B, K, M]``."""
        head, links = self.head, batch["links"]
        field, operator, first, last = (links[..., i] for i in range(4))
        column, part = field // len(PARTS), field % len(PARTS)
        words = take(tokens, batch["words_first"])
        terms = [
            jax.nn.one_hot(part, len(PARTS)),
            jax.nn.one_hot(operator, len(OPERATORS)),
            batch["link_facts"],
        ]
        hidden = (
            take(head.column(columns), column)
            + head.question(question)[:, None]
            + head.terms(jnp.concatenate(terms, axis=-1))
        )
        for layer, word in (self.first, first), (self.last, last):
            spans = take(layer(words), jnp.maximum(word, 0))
            hidden += jnp.where(word[..., None] >= 0, spans, 0.0)
        return jnp.moveaxis(head.output(drop(jnp.tanh(hidden))), -1, 1)


class _Dropout:
    """Dropout with a key of its own at each call, or none without a stream of keys."""

    def __init__(self, rate: float, rngs: nnx.Rngs | None):
        self._rate, self._rngs = rate, rngs

    def __call__(self, x: Array) -> Array:
        return dropout(x, self._rate, None if self._rngs is None else self._rngs.dropout())


def _suitable_fields(batch: Mapping[str, Array], parts: np.ndarray) -> Array:
    """``[B, K, F]`` bool: the table's fields that suit each kind."""
    column = jnp.arange(batch["headers"].shape[1])[None]
    is_number = (column == batch["row_number"][:, None])[:, None, :, None]
    suits = jnp.where(is_number, parts[None, :, :1, None], parts[None, :, None, 1:])
    return suits.reshape(suits.shape[0], len(parts), -1) & batch["fields_where"][:, None]


def _suitable_links(batch: Mapping[str, Array], operators: np.ndarray) -> Array:
    """``[B, K, M]`` bool: the question's links that suit each kind."""
    suits = jnp.moveaxis(jnp.asarray(operators.T)[batch["links"][..., 1]], -1, 1)
    return suits & batch["links_where"][:, None]


def _mean(tokens: Array, inside: Array) -> Array:
    """``[B, T, D]``, ``[B, N, T]`` bool -> ``[B, N, D]``; zeros where there are none."""
    return jnp.einsum("bnt,btd->bnd", masked.softmax(jnp.zeros(inside.shape), inside), tokens)
