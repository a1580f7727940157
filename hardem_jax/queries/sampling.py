r"""Exact sums over, samples from and the best of the queries of `QueryDistribution`.

SQLova decides how many conditions there are, which columns have one, and the two ends of a span
independently of one another, so part of its mass lies on outcomes that are not queries. The rest
can be summed exactly. Let :math:`w_j` be what a condition on column j contributes to a probability,
summed over its operators and its spans that do not end before they start. The sum over all sets of
n columns is then the elementary symmetric polynomial

.. math:: e_n(w_1 \ldots w_C) = e_n(w_1 \ldots w_{C-1}) + w_C \, e_{n-1}(w_1 \ldots w_{C-1}),

one column at a time. Backwards, the table gives samples (forward filtering, backward sampling): the
last column has one of the n conditions with probability :math:`w_C e_{n-1} / e_n`, and so on.

Here, impossible parts have the finite `_FLOOR` instead of -inf, so that no -inf is subtracted from
another and every gradient is finite.

A query's log-probability is a sum over its head (selected column, aggregator) and its conditions,
one column at a time, so the k best queries consist of parts that are each among the k best.
"""

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from hardem_jax.score_tables import draw, repeated, rows, top

Array = jax.Array

#: Stands for -inf: far below any log-probability, and sums of a few dozen of them are finite.
_FLOOR = -1e30
FIELDS = 4  # column, operator, first word, last word


class Support(NamedTuple):
    """Queries that are allowed; others have no mass.

    ``links`` ``[B, L, 4]`` int32 are the conditions: column, operator, first and last word, -1 for
    padding. ``heads`` ``[B, C, A]`` bool are the selected columns and aggregators.
    """

    links: Array
    heads: Array


class Conditions(Protocol):
    """What conditions add to log-probabilities, all finite: ``column`` ``[B, C]``, on each."""

    @property
    def column(self) -> Array: ...

    def draw(self, key: Array, column: Array) -> Array:
        """Draws a condition on each of the columns ``[B, M]``: ``[B, M, 4]``."""
        ...


class AllConditions(NamedTuple):
    """Every operator and every span that does not end before it starts.

    ``operator`` ``[B, C, O]`` sums over spans, with the operator's own; ``last`` ``[B, C, O, W]``,
    given the last word, over first words; ``first`` ``[B, C, O, W]`` is the distribution's table.
    """

    column: Array
    operator: Array
    last: Array
    first: Array

    @classmethod
    def of(cls, column: Array, operator: Array, first: Array, last: Array) -> "AllConditions":
        """From tables of `QueryDistribution`."""
        first = _finite(first)
        ending = _finite(last) + jax.lax.cumlogsumexp(first, axis=first.ndim - 1)
        operators = _finite(operator) + jax.nn.logsumexp(ending, axis=-1)
        has_one = _finite(column[..., 1]) - column[..., 0]
        return cls(has_one + jax.nn.logsumexp(operators, axis=-1), operators, ending, first)

    def draw(self, key: Array, column: Array) -> Array:
        keys = jax.random.split(key, 3)
        operator = draw(keys[0], rows(self.operator, column))
        cell = column * self.operator.shape[-1] + operator
        last = draw(keys[1], rows(_by_cell(self.last), cell))
        starts = rows(_by_cell(self.first), cell)
        until = jnp.arange(starts.shape[-1])[None, None] <= last[..., None]
        first = draw(keys[2], jnp.where(until, starts, _FLOOR))
        return jnp.stack([column, operator, first, last], axis=-1)


class LinkedConditions(NamedTuple):
    """The conditions of a `Support`; ``scores`` ``[B, L]``: what each adds without its column."""

    column: Array
    links: Array
    scores: Array

    @classmethod
    def of(cls, column: Array, links: Array, scores: Array) -> "LinkedConditions":
        """From the table of `QueryDistribution` and what operators and spans add, -inf or not."""
        scores = _finite(jnp.where(links[..., 0] >= 0, scores, -jnp.inf))
        has_one = _finite(column[..., 1]) - column[..., 0]
        everywhere = cls(has_one, links, scores).on(jnp.arange(has_one.shape[1])[None])
        return cls(has_one + jax.nn.logsumexp(everywhere, axis=-1), links, scores)

    def on(self, column: Array) -> Array:
        """``[B, M]`` columns -> ``[B, M, L]`` scores of the conditions on each."""
        same = self.links[:, None, :, 0] == column[..., None]
        return jnp.where(same, self.scores[:, None], _FLOOR)

    def draw(self, key: Array, column: Array) -> Array:
        return rows(self.links, draw(key, self.on(column)))

    def best(self, column: Array, k: int) -> tuple[Array, Array]:
        """The best conditions on each column, as `best_conditions` of all."""
        has_one = column[..., 1] - column[..., 0]
        scores, places = top(self.on(jnp.arange(has_one.shape[1])[None]), k)
        found = rows(self.links, jax.lax.collapse(places, 1))
        scores = jnp.where(scores > _FLOOR / 2, has_one[..., None] + scores, -jnp.inf)
        return found.reshape(*places.shape, FIELDS).astype(jnp.int32), scores


def sum_clauses(columns: Array, limit: int) -> tuple[Array, Array]:
    """Sums over the sets of 0 to ``limit`` columns with a condition, ``[B, limit + 1]``.
    ``columns`` ``[B, C]`` is what a condition on each column adds. Also returns the same over the
    columns before each, ``[C, B, limit + 1]``."""
    start = jnp.full((len(columns), limit + 1), _FLOOR, jnp.float32).at[:, 0].set(0.0)

    def add(sums: Array, column: Array) -> tuple[Array, Array]:
        longer = jnp.logaddexp(sums[:, 1:], sums[:, :-1] + column[:, None])
        return jnp.concatenate([sums[:, :1], longer], axis=1), sums

    return jax.lax.scan(add, start, columns.T)


def log_mass(
    heads: Array, no_conditions: Array, number: Array, conditions: Conditions, limit: int
) -> Array:
    """``[B]``, log of the probability of all queries together; -inf where there are none.

    ``heads`` ``[B, C A]`` are log-probabilities of selected column and aggregator,
    ``no_conditions`` ``[B]`` that no column has a condition, ``number`` ``[B, K + 1]`` a table of
    `QueryDistribution`; at most ``limit`` conditions.
    """
    sums, _ = sum_clauses(conditions.column, limit)
    clauses = jax.nn.logsumexp(_finite(number[:, : limit + 1]) + sums, axis=-1)
    total = jax.nn.logsumexp(_finite(heads), axis=-1) + no_conditions + clauses
    return jnp.where(total <= _FLOOR / 2, -jnp.inf, total)  # NaN has to show


def sample(
    key: Array, heads: Array, number: Array, conditions: Conditions, count: int, *, limit: int
) -> Array:
    """``[B, count, 3 + 4 K]`` int32 independent samples, arbitrary in a row without a query.
    Arguments are those of `log_mass`."""
    batch, width = len(number), number.shape[-1] - 1
    num_aggregators = max(1, heads.shape[-1] // max(1, conditions.column.shape[-1]))
    keys = jax.random.split(key, 4)
    head = draw(keys[0], repeated(heads, count))
    sums, before = sum_clauses(conditions.column, limit)
    size = draw(keys[1], repeated(_finite(number[:, : limit + 1]) + sums, count))
    columns = _draw_columns(keys[2], size, conditions.column, before, width)
    clause = conditions.draw(keys[3], jnp.maximum(columns, 0).reshape(batch, count * width))
    clause = clause.reshape(batch, count, width, 4)
    clause = jnp.where(columns[..., None] >= 0, clause, -1).reshape(batch, count, 4 * width)
    head = jnp.stack([head // num_aggregators, head % num_aggregators, size], axis=-1)
    return jnp.concatenate([head, clause], axis=-1).astype(jnp.int32)


def _draw_columns(key: Array, size: Array, gains: Array, before: Array, width: int) -> Array:
    """Draws the columns of ``size`` ``[B, n]`` conditions: ``[B, n, width]`` ascending, else -1."""
    num_columns = gains.shape[1]
    noise = jax.random.logistic(key, (num_columns, *size.shape))

    def visit(carry: tuple[Array, Array], column: tuple[Array, ...]):
        left, columns = carry
        index, gain, sums, noise = column
        has_none = jnp.take_along_axis(sums, left, axis=1)
        has_one = gain[:, None] + jnp.take_along_axis(sums, jnp.maximum(left - 1, 0), axis=1)
        # P(has one) is the logistic function of the difference. Where either is impossible the
        # difference is larger than any noise, so that exactly ``size`` columns are taken.
        chosen = (left > 0) & (has_one - has_none > noise)
        place = jnp.arange(width)[None, None] == left[..., None] - 1
        columns = jnp.where(chosen[..., None] & place, index, columns)
        return (left - chosen.astype(left.dtype), columns), None

    start = size, jnp.full((*size.shape, width), -1, jnp.int32)
    visited = jnp.arange(num_columns, dtype=jnp.int32), gains.T, before, noise
    (_, columns), _ = jax.lax.scan(visit, start, visited, reverse=True)
    return columns


def best_conditions(
    column: Array, operator: Array, first: Array, last: Array, k: int
) -> tuple[Array, Array]:
    """The best ``[B, C, k', 4]`` conditions on each column, and what they add to a score."""
    num_words = first.shape[-1]
    forward = jnp.arange(num_words)[:, None] <= jnp.arange(num_words)[None]
    spans = first[..., :, None] + last[..., None, :]
    spans = jnp.where(forward[None, None, None], spans, -jnp.inf)
    batch, num_columns, num_operators = operator.shape
    scores, flat = top(jax.lax.collapse(spans, 3), k)
    kept = scores.shape[-1]
    scores = jax.lax.collapse(operator[..., None] + scores, 2)
    scores, best = top(scores, k)
    flat = jnp.take_along_axis(jax.lax.collapse(flat, 2), best, axis=-1)
    has_one = column[..., 1] - column[..., 0]
    columns = jnp.broadcast_to(jnp.arange(num_columns)[None, :, None], flat.shape)
    parts = [columns, best // kept, flat // num_words, flat % num_words]
    return jnp.stack(parts, axis=-1).astype(jnp.int32), has_one[..., None] + scores


def best_clauses(
    conditions: Array, gains: Array, number: Array, k: int, *, limit: int
) -> tuple[Array, Array]:
    """The best ``[B, (limit + 1) k, 1 + 4 K]`` where-clauses of at most ``limit`` conditions.

    Also returns what they add to a score. A clause is its number of conditions, then the
    conditions. The search goes column by column: the k best clauses of each size are among those
    of the previous columns and those with one condition fewer, extended by one on this column.
    """
    batch, width = len(gains), number.shape[-1] - 1
    scores = jnp.full((batch, limit + 1, k), -jnp.inf).at[:, 0, 0].set(0.0)
    clauses = jnp.full((batch, limit + 1, k, width, FIELDS), -1, jnp.int32)

    def add_column(carry, column):
        scores, clauses = carry
        condition, gain = column  # [B, k', 4], [B, k']
        new_scores, new_clauses = [scores[:, 0]], [clauses[:, 0]]
        for size in range(1, limit + 1):
            longer = scores[:, size - 1, :, None] + gain[:, None, :]
            grown = jnp.broadcast_to(clauses[:, size - 1, :, None], (*longer.shape, width, FIELDS))
            grown = grown.at[:, :, :, size - 1].set(condition[:, None])
            both = jnp.concatenate([scores[:, size], jax.lax.collapse(longer, 1)], axis=1)
            rows = jnp.concatenate([clauses[:, size], jax.lax.collapse(grown, 1, 3)], axis=1)
            best, indices = top(both, k)
            new_scores.append(best)
            new_clauses.append(jnp.take_along_axis(rows, indices[..., None, None], axis=1))
        return (jnp.stack(new_scores, axis=1), jnp.stack(new_clauses, axis=1)), None

    by_column = jnp.moveaxis(conditions, 1, 0), jnp.moveaxis(gains, 1, 0)
    (scores, clauses), _ = jax.lax.scan(add_column, (scores, clauses), by_column)
    sizes = jnp.arange(limit + 1)[None, :, None, None]
    sizes = jnp.broadcast_to(sizes, (batch, limit + 1, k, 1))
    rows = jnp.concatenate([sizes, jax.lax.collapse(clauses, 3)], axis=-1)
    scores = scores + number[:, : limit + 1, None]
    return jax.lax.collapse(rows, 1, 3), jax.lax.collapse(scores, 1)


def _by_cell(table: Array) -> Array:
    """``[B, C, O, W]`` -> ``[B, C O, W]``."""
    return jax.lax.collapse(table, 1, -1)


def _finite(log_probs: Array) -> Array:
    return jnp.maximum(log_probs, _FLOOR)
