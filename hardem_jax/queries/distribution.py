r"""P(z | x) over non-nested queries, factorised as in SQLova (Hwang et al., 2019).

A query selects a column c, aggregates it with a, and has n conditions, each with a column, an
operator and a span of the question's words:

.. math:: \log P(z \mid x) = \log P(c) + \log P(a \mid c) + \log P(n)
    + \sum_{j} \log P(j \in \mathrm{where}) + \sum_{j \notin \mathrm{where}} \log P(j \notin \mathrm{where})
    + \sum_{j \in \mathrm{where}} \log P(o_j \mid j) + \log P(s_j \mid j, o_j) + \log P(e_j \mid j, o_j)

Every factor is an entry of a table that is computed once per question, so a query costs a few
gathers and additions and Z may hold thousands of queries. (The released code of Min et al. runs
the network once per query, on at most 300 rows.)

Queries are rows of ints: selected column, aggregator, number of conditions, then column, operator,
first and last word (inclusive) of each of K conditions, columns ascending; unused entries are -1.
"""  # noqa: E501 (an equation)

import dataclasses
import functools
from typing import Literal

import jax
import jax.numpy as jnp

from hardem_jax import masked
from hardem_jax.errors import check_choice
from hardem_jax.queries import sampling as sql_sampling
from hardem_jax.queries.sampling import (
    FIELDS,
    AllConditions,
    Conditions,
    LinkedConditions,
    Support,
    best_clauses,
    best_conditions,
)
from hardem_jax.score_tables import argmax, gather, top

Array = jax.Array


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["select", "aggregator", "number", "column", "operator", "first", "last"],
    meta_fields=[],
)
@dataclasses.dataclass(frozen=True)
class QueryDistribution:
    """The tables of SQLova's six modules. Build it with `from_logits`.

    The number of conditions and their columns are independent, as in SQLova, and so are the two
    ends of a span. So the probabilities of well-formed queries sum to exp(`log_mass`), below 1.

    Attributes:
        select: ``[B, C]`` log P(column is selected).
        aggregator: ``[B, C, A]`` log P(aggregator | selected column).
        number: ``[B, K + 1]`` log P(number of conditions).
        column: ``[B, C, 2]`` log P(column has no condition) and log P(it has one).
        operator: ``[B, C, O]`` log P(operator | column).
        first: ``[B, C, O, W]`` log P(first word | column, operator).
        last: ``[B, C, O, W]`` log P(last word | column, operator).

    Example:
        >>> zeros = dict(select=(1, 2), aggregator=(1, 2, 6), number=(1, 4), column=(1, 2),
        ...     operator=(1, 2, 3), first=(1, 2, 3, 5), last=(1, 2, 3, 5))
        >>> logits = {name: jnp.zeros(shape) for name, shape in zeros.items()}
        >>> queries = QueryDistribution.from_logits(**logits, columns=jnp.ones((1, 2), bool),
        ...     words=jnp.ones((1, 5), bool))
        >>> z = jnp.array([[[0, 3, 0] + [-1] * 12, [0, 3, 1, 1, 0, 2, 4] + [-1] * 8]])
        >>> [f"1/{p:.0f}" for p in 1 / jnp.exp(queries.log_prob(z))[0]]
        ['1/192', '1/14400']
    """

    select: Array
    aggregator: Array
    number: Array
    column: Array
    operator: Array
    first: Array
    last: Array

    @classmethod
    def from_logits(
        cls,
        *,
        select: Array,
        aggregator: Array,
        number: Array,
        column: Array,
        operator: Array,
        first: Array,
        last: Array,
        columns: Array,
        words: Array,
    ) -> "QueryDistribution":
        """Normalise the logits of each factor, in float32.

        Args:
            select: ``[B, C]`` float.
            aggregator: ``[B, C, A]`` float.
            number: ``[B, K + 1]`` float.
            column: ``[B, C]`` float, whether the column has a condition (one sigmoid each).
            operator: ``[B, C, O]`` float.
            first, last: ``[B, C, O, W]`` float.
            columns: ``[B, C]`` bool, the table's; others have no mass, their logits no effect.
            words: ``[B, W]`` bool, the question's words.
        """
        word_mask = words[:, None, None, :]
        column = jnp.where(columns, column.astype(jnp.float32), 0.0)
        has_none = jnp.where(columns, jax.nn.log_sigmoid(-column), 0.0)
        has_one = jnp.where(columns, jax.nn.log_sigmoid(column), -jnp.inf)
        return cls(
            select=masked.log_softmax(select, columns),
            aggregator=masked.log_softmax(aggregator, columns[..., None]),
            number=masked.log_softmax(number),
            column=jnp.stack([has_none, has_one], axis=-1),
            operator=masked.log_softmax(operator, columns[..., None]),
            first=masked.log_softmax(first, word_mask & columns[..., None, None]),
            last=masked.log_softmax(last, word_mask & columns[..., None, None]),
        )

    def log_prob(self, queries: Array, *, conditions: Literal["sum", "mean"] = "sum") -> Array:
        """log P(z | x) of given queries.

        Args:
            queries: ``[B, Z, 3 + 4 K]`` int, conditions in any order. Padding of -1 is finite.
            conditions: "mean" averages operator and span over the conditions of a query, as the
                released code of Min et al. does; not a probability, it favours queries with many.

        Returns:
            ``[B, Z]`` float32; -inf for a query without mass. Two conditions on one column are no
            event of the model: such a query gets a score, for which the column counts twice, that
            is no probability. `hardem_jax.queries.most_likely` scores it in the same way.
        """
        check_choice(conditions, Literal["sum", "mean"], "conditions")
        queries = queries.astype(jnp.int32)  # a place in a flat table may need more bits
        batch, size, width = queries.shape
        select, aggregator, number = (jnp.maximum(queries[..., i], 0) for i in range(3))
        parts = queries[..., 3:].reshape(batch, size, (width - 3) // FIELDS, FIELDS)
        used = jnp.arange(parts.shape[2])[None, None] < number[..., None]
        column, operator, first, last = (
            jnp.where(used, parts[..., field], 0) for field in range(FIELDS)
        )
        num_aggregators = self.aggregator.shape[-1]
        # Aggregators beyond the last one would be read from the next column.
        cell = jnp.where(aggregator < num_aggregators, select * num_aggregators + aggregator, -1)
        head = gather(self.select, select) + gather(self.aggregator, cell)
        head += gather(self.number, number)
        has_one = self.column[..., 1] - self.column[..., 0]
        spans = self._operators_and_spans(column, operator, first, last)
        spans = jnp.sum(spans, axis=-1, where=used)
        if conditions == "mean":
            spans = spans / jnp.maximum(number, 1)
        columns = jnp.sum(gather(has_one, column), axis=-1, where=used)
        return head + self._no_conditions()[:, None] + columns + spans

    def top(
        self, k: int, *, max_conditions: int | None = None, within: Support | None = None
    ) -> tuple[Array, Array]:
        """The ``k`` most likely well-formed queries, best first, by exhaustive search.

        In a well-formed query, the columns of the conditions are distinct, their number equals
        the number of conditions, and no span ends before it starts.

        Args:
            k: static.
            max_conditions: maximum number of conditions; None for K.
            within: the queries that are allowed; None for all that are well-formed.

        Returns:
            ``[B, k, 3 + 4 K]`` int32 queries and their ``[B, k]`` float32 log-probabilities. If
            fewer than ``k`` are possible, the rest are -1 with -inf.

        Raises:
            ValueError: ``max_conditions`` is negative.
        """
        allowed = self._limit(max_conditions)
        head_scores, heads = top(self._heads(within), k)
        if within is None:
            parts = best_conditions(self.column, self.operator, self.first, self.last, k)
        else:
            parts = self._linked(within).best(self.column, k)
        clauses, clause_scores = best_clauses(*parts, self.number, k, limit=allowed)
        batch, num_clauses = clause_scores.shape
        total = head_scores[:, :, None] + clause_scores[:, None, :]
        scores, flat = top(jax.lax.collapse(total, 1), k)
        head = jnp.take_along_axis(heads, flat // num_clauses, axis=1)
        head = jnp.stack(jnp.divmod(head, self.aggregator.shape[-1]), axis=-1)
        clause = jnp.take_along_axis(clauses, (flat % num_clauses)[..., None], axis=1)
        queries = jnp.concatenate([head, clause], axis=-1)
        possible = scores != -jnp.inf  # NaN has to show
        # Added after ranking: adding a large sum would round away small differences.
        scores = jnp.where(possible, scores + self._no_conditions()[:, None], -jnp.inf)
        return jnp.where(possible[..., None], queries, -1).astype(jnp.int32), scores

    def mode(self, *, max_conditions: int | None = None, within: Support | None = None) -> Array:
        """The most likely well-formed query, ``[B, 3 + 4 K]`` int32. Arguments as in `top`."""
        return self.top(1, max_conditions=max_conditions, within=within)[0][:, 0]

    def log_mass(
        self, *, max_conditions: int | None = None, within: Support | None = None
    ) -> Array:
        """Log of the total probability of the well-formed queries (see `top`), exactly.

        ``log_prob(z) - log_mass()`` is the log-probability of a well-formed query among all of
        them: the distribution that `sample` draws from, and one that policy gradients need.

        Args:
            max_conditions, within: as in `top`.

        Returns:
            ``[B]`` float32; -inf where there is no query, without NaN in the gradient.

        Example:
            One column, one word: without its condition, or with it.

            >>> logits = dict(select=jnp.zeros((1, 1)), aggregator=jnp.zeros((1, 1, 6)),
            ...     number=jnp.log(jnp.array([[0.8, 0.2]])), column=jnp.zeros((1, 1)),
            ...     operator=jnp.zeros((1, 1, 3)), first=jnp.zeros((1, 1, 3, 1)),
            ...     last=jnp.zeros((1, 1, 3, 1)))
            >>> yes = jnp.ones((1, 1), bool)
            >>> queries = QueryDistribution.from_logits(**logits, columns=yes, words=yes)
            >>> print(jnp.exp(queries.log_mass()).round(4))  # 0.8 x 0.5 + 0.2 x 0.5
            [0.5]
        """
        heads, conditions = self._heads(within), self._conditions(within)
        limit, none = self._limit(max_conditions), self._no_conditions()
        return sql_sampling.log_mass(heads, none, self.number, conditions, limit)

    def sample(
        self,
        key: Array,
        count: int,
        *,
        max_conditions: int | None = None,
        within: Support | None = None,
    ) -> tuple[Array, Array]:
        """Independent samples from the distribution over well-formed queries, exact.

        Args:
            key: a PRNG key.
            count: n, static.
            max_conditions, within: as in `top`.

        Returns:
            ``[B, n, 3 + 4 K]`` int32 queries, repeated ones included, and their ``[B, n]`` float32
            ``log_prob - log_mass``, which has a gradient. Where there is no query, -1 with -inf.
        """
        heads, conditions = self._heads(within), self._conditions(within)
        limit, none = self._limit(max_conditions), self._no_conditions()
        queries = sql_sampling.sample(key, heads, self.number, conditions, count, limit=limit)
        mass = sql_sampling.log_mass(heads, none, self.number, conditions, limit)[:, None]
        possible = mass != -jnp.inf  # NaN has to show
        log_probs = self.log_prob(queries) - jnp.where(possible, mass, 0.0)
        log_probs = jnp.where(possible, log_probs, -jnp.inf)
        return jnp.where(possible[..., None], queries, -1), log_probs

    def greedy(self) -> Array:
        """Decodes one module after the other, as SQLova does: ``[B, 3 + 4 K]`` int32.

        Takes each module's most likely outcome given the previous ones. The first and last word
        of a span are independent, so a span may end before it starts (its value is then empty).
        """
        batch, num_columns = self.select.shape
        limit = self.number.shape[-1] - 1
        if not num_columns:  # no query selects a column
            return jnp.full((batch, 3 + 4 * limit), -1, jnp.int32)
        select = argmax(self.select)
        aggregators = jnp.take_along_axis(self.aggregator, select[:, None, None], axis=1)[:, 0]
        number = argmax(self.number)
        number = jnp.minimum(number, jnp.sum(jnp.isfinite(self.column[..., 1]), axis=-1))
        _, chosen = top(self.column[..., 1], limit)
        used = jnp.arange(limit)[None] < number[:, None]
        operator = argmax(self.operator)
        first, last = (
            argmax(jnp.take_along_axis(table, operator[..., None, None], axis=2)[:, :, 0])
            for table in (self.first, self.last)
        )
        parts = (jnp.take_along_axis(x, chosen, axis=1) for x in (operator, first, last))
        clause = jnp.where(used[..., None], jnp.stack([chosen, *parts], axis=-1), -1)
        # Columns ascending, unused entries last.
        order = jnp.where(used, chosen, jnp.iinfo(jnp.int32).max)
        clause = jnp.take_along_axis(clause, jnp.argsort(order, axis=-1)[..., None], axis=1)
        head = jnp.stack([select, argmax(aggregators), number], axis=-1)
        return jnp.concatenate([head, jax.lax.collapse(clause, 1)], axis=-1).astype(jnp.int32)

    def _limit(self, max_conditions: int | None) -> int:
        limit = self.number.shape[-1] - 1
        if max_conditions is None:
            return limit
        if max_conditions < 0:
            raise ValueError(f"max_conditions: expected at least 0, found {max_conditions}")
        return min(max_conditions, limit)

    def _heads(self, within: Support | None) -> Array:
        """``[B, C A]``, log-probabilities of selected column and aggregator."""
        heads = self.select[..., None] + self.aggregator
        if within is not None:
            heads = jnp.where(within.heads, heads, -jnp.inf)
        return jax.lax.collapse(heads, 1)

    def _conditions(self, within: Support | None) -> Conditions:
        if within is None:
            return AllConditions.of(self.column, self.operator, self.first, self.last)
        return self._linked(within)

    def _linked(self, within: Support) -> LinkedConditions:
        fields = (jnp.maximum(within.links[..., field], 0) for field in range(FIELDS))
        return LinkedConditions.of(self.column, within.links, self._operators_and_spans(*fields))

    def _operators_and_spans(
        self, column: Array, operator: Array, first: Array, last: Array
    ) -> Array:
        """``[B, ...]`` each -> ``[B, ...]``, what conditions add without their columns."""
        num_operators, num_words = self.first.shape[-2:]
        cell = column * num_operators + operator
        spans = gather(self.first, cell * num_words + first) + gather(
            self.last, cell * num_words + last
        )
        # Operators and words out of range would be read from another cell.
        real = (operator >= 0) & (operator < num_operators)
        for word in first, last:
            real &= (word >= 0) & (word < num_words)
        return jnp.where(real, gather(self.operator, cell) + spans, -jnp.inf)

    def _no_conditions(self) -> Array:
        """``[B]``, log-probability that no column has a condition."""
        return jnp.sum(self.column[..., 0], axis=-1)
