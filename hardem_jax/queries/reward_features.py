"""What a learned reward reads of queries, see `hardem_jax.tables.learned_rewards`."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from hardem_jax.queries.solutions.types import AGGREGATORS, MAX_CONDITIONS, OPERATORS
from hardem_jax.tables.learned_rewards import Array, crossed, crossed_names, look_up


def query_features(queries: Array, cues: Array, batch: Mapping[str, Array]) -> Array:
    """The features `QUERY_FEATURES` of queries: ``[B, N, 15]`` int32 -> ``[B, N, F]`` float32.

    Crossed with ``cues`` ``[B, K]`` bool are the aggregator and how many conditions have each
    operator. The others: the number of conditions; which share of the tokens of the selected
    column's name, and on average of the conditions' columns, is in the question; words in values,
    by 10; whether a column of the conditions is the one selected, or is in several of them.
    Features of rows of -1 mean nothing.

    Two of "COUNT(no.) WHERE no. = ..." and "no.", to "how many teams" with columns "team" and
    "no."; tokens are words:

    >>> from hardem_jax.tables.learned_rewards import cues_of
    >>> batch = dict(token_ids=jnp.array([[1, 5, 6, 7, 2, 7, 2, 8, 2]]),
    ...     question_tokens=jnp.array([[1, 2, 3]]), question_where=jnp.ones((1, 3), bool),
    ...     header_tokens=jnp.array([[[5], [7]]]), header_where=jnp.ones((1, 2, 1), bool))
    >>> queries = jnp.array([[[1, 3, 1, 1, 0, 2, 2] + [-1] * 8, [0, 0, 0] + [-1] * 12]])
    >>> features = jax.jit(query_features)(queries, cues_of(["how many teams"]), batch)
    >>> for query in features[0]:
    ...     found = zip(QUERY_FEATURES, query.tolist(), strict=True)
    ...     print([name for name, value in found if value == 1])
    ['count', 'count, how many', '=', '=, how many', '1 conditions', 'selects a condition']
    ['no aggregator', 'no aggregator, how many', '0 conditions', 'named']
    """
    select, aggregator, number = (queries[..., i] for i in range(3))
    column, operator, first, last = (
        queries[..., 3 + i : 3 + 4 * MAX_CONDITIONS : 4] for i in range(4)
    )
    there = jnp.arange(MAX_CONDITIONS)[None, None] < number[..., None]
    operators = jnp.sum(jax.nn.one_hot(operator, len(OPERATORS)), axis=2, where=there[..., None])
    named = _named(batch)
    count = jnp.maximum(number, 1).astype(jnp.float32)
    conditions = jnp.sum(jnp.where(there, look_up(named, column), 0.0), axis=-1) / count
    words = jnp.sum(last - first + 1, axis=-1, where=there, dtype=jnp.float32) / 10
    selected = jnp.any(there & (column == select[..., None]), axis=-1)
    equal = (column[..., None, :] == column[..., None]) & there[..., None, :] & there[..., None]
    again = jnp.any(jnp.triu(equal, 1), axis=(-2, -1))
    fit = [look_up(named, select), conditions, words, selected, again]
    return jnp.concatenate(
        [
            crossed(jax.nn.one_hot(aggregator, len(AGGREGATORS)), cues),
            crossed(operators, cues),
            jax.nn.one_hot(number, MAX_CONDITIONS + 1),
            jnp.stack(jnp.broadcast_arrays(*map(jnp.float32, fit)), axis=-1),
        ],
        axis=-1,
    )


def _named(batch: Mapping[str, Array]) -> Array:
    """``[B, C]``: which share of the tokens of each column's name is in the question."""
    tokens = batch["token_ids"]
    asked = jnp.take_along_axis(tokens, batch["question_tokens"], axis=1)
    where = batch["header_where"]
    header = look_up(tokens, batch["header_tokens"])
    equal = (header[..., None] == asked[:, None, None]) & batch["question_where"][:, None, None]
    there = jnp.any(equal, axis=-1) & where
    found, tokens = (jnp.sum(x, axis=-1, dtype=jnp.float32) for x in (there, where))
    return found / jnp.maximum(tokens, 1)


#: Names of the features, in their order.
QUERY_FEATURES = (
    *crossed_names([*(name or "no aggregator" for name in AGGREGATORS), *OPERATORS]),
    *(f"{count} conditions" for count in range(MAX_CONDITIONS + 1)),
    *("named", "conditions named", "words in values", "selects a condition", "column again"),
)
