"""SQLova (Hwang et al., 2019) as a distribution over queries: every part of a query, scored once.

Six modules read the question and the headers, each with LSTMs of its own:

==========  ====================================================================
select      which column is selected
aggregator  how, given the selected column
number      how many conditions
column      which columns have one
operator    which, given a column
value       first and last word, given a column and an operator
==========  ====================================================================

The original runs the last two on the columns and operators of one query. Here every module runs on
every column (and operator): the output is the tables of a `QueryDistribution`, from which the
probability of any query is read off.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import nnx

from hardem_jax import masked
from hardem_jax.encoders.base import Encoder, encode_layers
from hardem_jax.encoders.config import ValueUnits
from hardem_jax.encoders.layers import dense, take
from hardem_jax.encoders.lstm import BiLSTMs, last_output
from hardem_jax.errors import InputError, check_choice
from hardem_jax.placement import platform_of
from hardem_jax.queries.distribution import QueryDistribution

Array = jax.Array

NUM_AGGREGATORS, NUM_OPERATORS = 6, 3
_MODULES = ("select", "aggregator", "number", "column", "operator", "value")
_SELECT, _AGGREGATOR, _NUMBER, _COLUMN, _OPERATOR, _VALUE = range(6)
#: Modules that see the question from each column.
_BY_COLUMN = (_SELECT, _AGGREGATOR, _COLUMN, _OPERATOR, _VALUE)


class SQLova(nnx.Module):
    """Question and headers -> P(z | x) over queries.

    Args:
        encoder: gives ``[B, T, D]`` from token ids.
        hidden_size: width of the LSTMs and heads, both directions together.
        num_lstm_layers: of every LSTM.
        num_target_layers: the encoder's last layers that are read, the last one first.
        dropout: between the layers of an LSTM; the encoder has its own.
        max_conditions: K.
        value_units: what the softmax of a value's first and last word ranges over: the first
            tokens of all "words", or all "wordpieces" of the question, as in the original, where
            pieces within a word have probability too, so words add up to less than 1.
        rngs: stream ``params`` initialises all but the encoder.

    Calling it takes a batch with ``token_ids``, ``token_type_ids`` ``[B, T]`` int32, ``where``
    ``[B, T]`` bool; ``question_tokens`` ``[B, Q]`` int32, positions of the question's tokens, and
    ``question_where``; ``words_first`` ``[B, W]`` int32, each word's first token among those, and
    ``words_where``; ``header_tokens`` ``[B, C, H]`` int32, positions of every header's tokens,
    ``header_where``, and ``columns_where`` ``[B, C]`` bool. It returns a `QueryDistribution`.
    ``rngs`` with the stream ``dropout`` turns dropout on.

    As in the original, the span of a value is a pair of words, each represented by its first token.

    Example:
        >>> from hardem_jax.encoders.bert import Bert, BertConfig
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=2,
        ...     num_attention_heads=2, intermediate_size=16)
        >>> tokens, yes = jnp.ones((1, 7), int), jnp.ones((1, 2), bool)
        >>> places = jnp.array([[1, 2]])
        >>> batch = dict(token_ids=tokens, token_type_ids=0 * tokens, where=tokens > 0,
        ...     question_tokens=places, question_where=yes, words_first=places - 1,
        ...     words_where=yes, header_tokens=jnp.array([[[4], [6]]]),
        ...     header_where=yes[..., None], columns_where=yes)
        >>> def parse():
        ...     parser = SQLova(Bert(config, rngs=nnx.Rngs(0)), hidden_size=4, rngs=nnx.Rngs(1))
        ...     return parser(batch)
        >>> queries = jax.eval_shape(parse)  # only shapes; `parse()` computes them
        >>> queries.select.shape, queries.number.shape, queries.first.shape
        ((1, 2), (1, 4), (1, 2, 3, 2))
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        hidden_size: int = 100,
        num_lstm_layers: int = 2,
        num_target_layers: int = 2,
        dropout: float = 0.3,
        max_conditions: int = 3,
        value_units: ValueUnits = "words",
        rngs: nnx.Rngs,
    ):
        check_choice(value_units, ValueUnits, "value_units")
        most = encoder.config.num_hidden_layers
        if not 1 <= num_target_layers <= most:
            raise InputError(
                f"num_target_layers (--model.num-target-layers): expected 1 to {most}, the layers "
                f"of the encoder, found {num_target_layers}"
            )
        size, count = hidden_size, len(_MODULES)
        inputs = num_target_layers * encoder.config.hidden_size

        def lstms() -> BiLSTMs:
            return BiLSTMs(
                count, inputs, size, num_layers=num_lstm_layers, dropout=dropout, rngs=rngs
            )

        self.encoder = encoder
        self.num_target_layers = num_target_layers
        self.value_units: ValueUnits = value_units
        self.question, self.headers = lstms(), lstms()
        self.attention = nnx.List(dense(size, size, rngs=rngs) for _ in _BY_COLUMN)
        self.number_header = dense(size, 1, rngs=rngs)
        states = num_lstm_layers * size
        self.number_hidden = dense(size, states, rngs=rngs)
        self.number_cell = dense(size, states, rngs=rngs)
        self.number_pool = dense(size, 1, rngs=rngs)
        self.select = ColumnHead(size, 1, rngs=rngs)
        self.column = ColumnHead(size, 1, rngs=rngs)
        self.aggregator = Head(size, size, NUM_AGGREGATORS, rngs=rngs)
        self.number = Head(size, size, max_conditions + 1, rngs=rngs)
        self.operator = ColumnHead(size, NUM_OPERATORS, rngs=rngs, hidden=size)
        self.value = SpanHead(size, rngs=rngs)

    def __call__(
        self, batch: Mapping[str, Array], *, rngs: nnx.Rngs | None = None
    ) -> QueryDistribution:
        question_where, columns = batch["question_where"], batch["columns_where"]
        tokens = self.encode_tokens(batch, rngs)
        headers = self.read_headers(tokens, batch, rngs)
        question = self.question(
            _project(self.question, tokens, batch["question_tokens"]),
            question_where,
            initial=self.initial_states(headers[_NUMBER], columns),
            rngs=rngs,
        )
        context = {
            module: self._attend(module, question, headers, question_where) for module in _BY_COLUMN
        }
        words = jnp.where(batch["words_where"], batch["words_first"], 0)
        units, units_where = question[_VALUE], question_where
        if self.value_units == "words":
            units, units_where = take(units, words), batch["words_where"]
        first, last = self.value(context[_VALUE], headers[_VALUE], units)
        pooled = masked.softmax(self.number_pool(question[_NUMBER])[..., 0], question_where)
        found = QueryDistribution.from_logits(
            select=self.select(context[_SELECT], headers[_SELECT])[..., 0],
            aggregator=self.aggregator(context[_AGGREGATOR]),
            number=self.number(jnp.einsum("bq,bqh->bh", pooled, question[_NUMBER])),
            column=self.column(context[_COLUMN], headers[_COLUMN])[..., 0],
            operator=self.operator(context[_OPERATOR], headers[_OPERATOR]),
            first=first,
            last=last,
            columns=columns,
            words=units_where,
        )
        if self.value_units == "words":
            return found

        def of_words(log_probs: Array) -> Array:
            """``[B, C, O, Q]`` -> ``[B, C, O, W]``."""
            taken = jnp.take_along_axis(log_probs, words[:, None, None], axis=-1)
            return jnp.where(batch["words_where"][:, None, None], taken, -jnp.inf)

        return dataclasses.replace(found, first=of_words(found.first), last=of_words(found.last))

    def encode_tokens(self, batch: Mapping[str, Array], rngs: nnx.Rngs | None) -> Array:
        """``[B, T, I]`` float32: the last layers side by side, the last one first."""
        layers = encode_layers(self.encoder, batch, count=self.num_target_layers, rngs=rngs)
        return jnp.concatenate(layers[::-1], axis=-1).astype(jnp.float32)

    def read_headers(self, tokens: Array, batch: Mapping[str, Array], rngs) -> Array:
        """``[6, B, C, h]``: the LSTMs' outputs at the last token of each header."""
        places, where = batch["header_tokens"], batch["header_where"]
        rows, num_columns, length = places.shape
        projected = _project(self.headers, tokens, places.reshape(rows, -1))
        flat = where.reshape(rows * num_columns, length)
        read = self.headers(
            projected.reshape(rows * num_columns, length, *projected.shape[2:]), flat, rngs=rngs
        )
        return last_output(read, flat).reshape(len(_MODULES), rows, num_columns, -1)

    def initial_states(self, headers: Array, columns: Array) -> tuple[Array, Array]:
        """States ``[L, 6, 2, B, h/2]``: zeros, but the number module's come from all headers."""
        weights = masked.softmax(self.number_header(headers)[..., 0], columns)
        pooled = jnp.einsum("bc,bch->bh", weights, headers)

        def states(layer: nnx.Linear) -> Array:
            values = layer(pooled).reshape(pooled.shape[0], -1, 2, headers.shape[-1] // 2)
            values = jnp.moveaxis(values, 0, 2)  # [L, 2, B, h/2]
            own = (jnp.arange(len(_MODULES)) == _NUMBER)[None, :, None, None, None]
            return jnp.where(own, values[:, None], 0.0)

        return states(self.number_hidden), states(self.number_cell)

    def _attend(self, module: int, question: Array, headers: Array, where: Array) -> Array:
        """The question as seen from each column: ``[B, C, h]``."""
        keys = self.attention[_BY_COLUMN.index(module)](question[module])
        scores = jnp.einsum("bch,bqh->bcq", headers[module], keys)
        return jnp.einsum("bcq,bqh->bch", masked.softmax(scores, where[:, None]), question[module])


class Head(nnx.Module):
    """Dense, tanh, dense."""

    def __init__(self, inputs: int, hidden: int, outputs: int, *, rngs: nnx.Rngs):
        self.hidden = dense(inputs, hidden, rngs=rngs)
        self.output = dense(hidden, outputs, rngs=rngs)

    def __call__(self, x: Array) -> Array:
        return self.output(jnp.tanh(self.hidden(x)))


class ColumnHead(nnx.Module):
    """Scores of a column from the question as seen from it and from its header.

    Args:
        size: width of both.
        outputs: scores.
        hidden: width of a further layer before tanh; None for none.
    """

    def __init__(self, size: int, outputs: int, *, rngs: nnx.Rngs, hidden: int | None = None):
        self.context = dense(size, size, rngs=rngs)
        self.header = dense(size, size, rngs=rngs)
        self.hidden = None if hidden is None else dense(2 * size, hidden, rngs=rngs)
        self.output = dense(2 * size if hidden is None else hidden, outputs, rngs=rngs)

    def __call__(self, context: Array, header: Array) -> Array:
        x = jnp.concatenate([self.context(context), self.header(header)], axis=-1)
        if self.hidden is not None:
            x = self.hidden(x)
        return self.output(jnp.tanh(x))


class SpanHead(nnx.Module):
    """Scores of first and last words, given a column and an operator.

    Hidden units are tanh of a sum of linear terms of context, header, operator and word. Each is
    computed on its own, so before tanh no matrix multiplies columns x operators x words vectors.
    """

    def __init__(self, size: int, *, rngs: nnx.Rngs):
        self.context = dense(size, size, rngs=rngs)
        self.header = dense(size, size, rngs=rngs)
        self.operator = dense(NUM_OPERATORS, size, rngs=rngs)
        # No bias: the layers that feed it have theirs.
        self.hidden = dense(4 * size, size, use_bias=False, rngs=rngs)
        self.output = dense(size, 2, rngs=rngs)

    def __call__(self, context: Array, header: Array, words: Array) -> tuple[Array, Array]:
        """``[B, C, h]``, ``[B, C, h]``, ``[B, W, h]`` -> twice ``[B, C, O, W]``."""
        to_hidden = self.hidden.kernel[...].reshape(4, -1, self.hidden.out_features)
        column_term = self.context(context) @ to_hidden[0] + self.header(header) @ to_hidden[1]
        operator_term = self.operator(jnp.eye(NUM_OPERATORS)) @ to_hidden[2]
        word_term = words @ to_hidden[3]
        if platform_of(words) == "gpu":
            given = column_term[:, :, None] + operator_term[None, None]
            return self._in_few_passes(given, word_term)
        hidden = jnp.tanh(
            column_term[:, :, None, None]
            + operator_term[None, None, :, None]
            + word_term[:, None, None, :]
        )
        scores = self.output(hidden)
        return scores[..., 0], scores[..., 1]

    def _in_few_passes(self, given: Array, word: Array) -> tuple[Array, Array]:
        """The same for a GPU, from terms ``[B, C, O, h]`` and ``[B, W, h]``: XLA fuses sums, but no
        product of two columns, with what they read, and so their gradients."""
        # Without the barrier XLA sums gradients of columns and of operators each over all words.
        given = jax.lax.optimization_barrier(given)
        hidden = jnp.tanh(given[:, :, :, None] + word[:, None, None])
        weights = self.output.kernel[...].T.reshape(2, 1, 1, 1, 1, -1)
        each = zip(weights, jnp.asarray(self.output.bias), strict=True)
        first, last = (jnp.sum(hidden * weight, axis=-1) + bias for weight, bias in each)
        return first, last


def _project(lstms: BiLSTMs, tokens: Array, places: Array) -> Array:
    """`BiLSTMs.project` of the tokens ``[B, T, I]`` at these places ``[B, N]``. The projection is
    the largest product outside the encoder, so it is applied to the fewer rows: N of a text that is
    a part of the input, T where padding makes N larger."""
    if places.shape[1] < tokens.shape[1]:
        return lstms.project(take(tokens, places))
    return take(lstms.project(tokens), places)
