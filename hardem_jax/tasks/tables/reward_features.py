"""What a learned reward reads of a question and a solution, see `search.likelihoods.MERL`.

A reward is log-linear in a few hundred features, so that it cannot learn single questions by heart.
Most are *crossed* with the question: a decision of the solution, such as its aggregator, together
with each of `CUES`, groups of English words that ask for something. The others say how well a
solution fits its question, whatever either is about.

Cues are found in the text once, before training. All else is computed on the device from what a
batch has anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from hardem_jax.solutions.programs.types import (
    CONNECTIVES,
    MODIFIERS,
    PARTS,
    RESULTS,
    SHAPES,
    TEXT_PARTS,
)
from hardem_jax.solutions.programs.types import OPERATORS as LINK_OPERATORS
from hardem_jax.solutions.sql.types import AGGREGATORS, MAX_CONDITIONS, OPERATORS

Array = jax.Array

#: Groups of words, as regular expressions between word boundaries, in lower case.
CUES = {
    "how many": r"how many|number of|amount of",
    "how much": r"how (much|long|old|tall|far)",
    "total": r"total|sum|combined|altogether|in all",
    "average": r"average|mean",
    "difference": r"difference|than|between",
    "more": r"more|over|greater|above|higher|larger|exceeds?|at least|after|later",
    "less": r"less|under|fewer|below|lower|smaller|at most|before|earlier",
    "most": r"most|highest|largest|maximum|max|biggest|greatest|best|longest|latest|last|top",
    "least": r"least|lowest|smallest|minimum|min|fewest|worst|shortest|earliest|first",
    "next": r"next|previous|following|right (after|before)",
    "same": r"same|other|also|besides|share[ds]?",
    "not": r"not|no|never|without|except|\w+n't",
    "or": r"or|either",
    "when": r"when|what (year|date|day|month)|which (year|date|day|month)",
    "who": r"who|whose|whom|name",
}
_PATTERNS = [re.compile(rf"(?<!\w)(?:{words})(?!\w)") for words in CUES.values()]

#: Names of the parts of a program's shape, and of each of `SHAPES` which of them it has.
_DECISIONS = {"result": RESULTS, "modifier": MODIFIERS, "connective": CONNECTIVES}
_PARTS_OF_SHAPE = {
    kind: np.array([names.index(getattr(shape, kind)) for shape in SHAPES], np.int32)
    for kind, names in _DECISIONS.items()
}
_NUM_LINKS = np.array([shape.num_links for shape in SHAPES], np.int32)
_FIELD_FACTS = ("rows", "distinct", "named", "equal words", "alone")
_LINK_FACTS = ("rows", "one row", "words", "longest")


def cues_of(questions: Iterable[str]) -> np.ndarray:
    """Which of `CUES` each question has, ``[N, K]`` bool.

    Example:
        >>> [found] = cues_of(["How many teams scored more than 9 ?"])
        >>> [name for name, there in zip(CUES, found) if there]
        ['how many', 'difference', 'more']
    """
    rows = [[bool(p.search(text.lower())) for p in _PATTERNS] for text in questions]
    return np.array(rows, bool).reshape(-1, len(CUES))


def crossed(decisions: Array, cues: Array) -> Array:
    """Each decision by itself, and together with each cue.

    Args:
        decisions: ``[B, N, D]``, of each solution.
        cues: ``[B, K]`` bool.

    Returns:
        ``[B, N, D (1 + K)]`` float32.

    Example:
        >>> crossed(jnp.array([[[0, 1], [2, 0]]]), jnp.array([[True, False]])).tolist()
        [[[0.0, 0.0, 0.0, 1.0, 1.0, 0.0], [2.0, 2.0, 0.0, 0.0, 0.0, 0.0]]]
    """
    always = jnp.concatenate([jnp.ones((len(cues), 1)), cues.astype(jnp.float32)], axis=1)
    products = decisions.astype(jnp.float32)[..., None] * always[:, None, None]
    return products.reshape(*decisions.shape[:2], -1)


def query_features(queries: Array, cues: Array, batch: Mapping[str, Array]) -> Array:
    """The features of queries, in the order of `QUERY_FEATURES`.

    Crossed are the aggregator and how many conditions have each operator. The others: the number of
    conditions; which share of the tokens of the selected column's name, and on average of the
    conditions' columns, is in the question; words in values, by 10; whether a column of the
    conditions is the one selected, or is in several of them.

    Args:
        queries: ``[B, N, 15]`` int32; rows of -1 have features that mean nothing.
        cues: ``[B, K]`` bool.
        batch: of SQLova, see `hardem_jax.data.inputs.sqlova`.

    Returns:
        ``[B, N, F]`` float32.

    Example:
        Two of "COUNT(no.) WHERE no. = ..." and "no.", to "how many teams" with columns "team" and
        "no."; tokens are words:

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
    conditions = jnp.sum(jnp.where(there, _look_up(named, column), 0.0), axis=-1) / count
    words = jnp.sum(last - first + 1, axis=-1, where=there, dtype=jnp.float32) / 10
    selected = jnp.any(there & (column == select[..., None]), axis=-1)
    equal = (column[..., None, :] == column[..., None]) & there[..., None, :] & there[..., None]
    again = jnp.any(jnp.triu(equal, 1), axis=(-2, -1))
    fit = [_look_up(named, select), conditions, words, selected, again]
    return jnp.concatenate(
        [
            crossed(jax.nn.one_hot(aggregator, len(AGGREGATORS)), cues),
            crossed(operators, cues),
            jax.nn.one_hot(number, MAX_CONDITIONS + 1),
            jnp.stack(jnp.broadcast_arrays(*map(jnp.float32, fit)), axis=-1),
        ],
        axis=-1,
    )


def program_features(programs: Array, cues: Array, batch: Mapping[str, Array]) -> Array:
    """The features of programs, in the order of `PROGRAM_FEATURES`.

    Crossed are result, modifier, connective, how many links have each operator, and whether the
    select field has numbers. The others: the number of links and of fields; the facts of both
    fields, and the sums of those of the links, as the parser reads them; whether a link is about
    the selected column.

    Args:
        programs: ``[B, N, 5]`` int32; rows of -1 have features that mean nothing.
        cues: ``[B, K]`` bool.
        batch: of a parser of programs, see `hardem_jax.data.inputs.programs`.

    Returns:
        ``[B, N, F]`` float32.

    Example:
        >>> fields, none = 2 * len(PARTS), jnp.zeros
        >>> batch = dict(links=jnp.array([[[0, 0, 1, 1]]]), link_facts=none((1, 1, 4)),
        ...     field_facts=none((1, fields, 5)))
        >>> shape = [(s.result, s.modifier, s.connective) for s in SHAPES]
        >>> count = shape.index(("count", "none", "one"))
        >>> programs, cues = jnp.array([[[count, -1, -1, 0, -1]]]), cues_of(["how many teams"])
        >>> [[features]] = jax.jit(program_features)(programs, cues, batch).tolist()
        >>> names = [n for n, x in zip(PROGRAM_FEATURES, features, strict=True) if x]
        >>> names[:4], names[-3:]
        (['count', 'count, how many', 'no modifier', 'no modifier, how many'], \
['=, how many', '1 links', '0 fields'])
    """
    shape, select, modify = (programs[..., i] for i in range(3))
    place = jnp.maximum(shape, 0)
    decisions = [
        jax.nn.one_hot(jnp.asarray(_PARTS_OF_SHAPE[kind])[place], len(names))
        for kind, names in _DECISIONS.items()
    ]
    links = programs[..., 3:]
    there = links >= 0
    chosen = _look_up(batch["links"], links)
    each = {"axis": 2, "where": there[..., None]}
    operators = jnp.sum(jax.nn.one_hot(chosen[..., 1], len(LINK_OPERATORS)), **each)
    link_facts = jnp.sum(_look_up(batch["link_facts"], links), **each)
    fields = [
        jnp.where((field >= 0)[..., None], _look_up(batch["field_facts"], field), 0.0)
        for field in (select, modify)
    ]
    number = (select >= 0) & (select % len(PARTS) >= len(TEXT_PARTS))
    about = chosen[..., 0] // len(PARTS) == (select // len(PARTS))[..., None]
    about = jnp.any(there & about & (select >= 0)[..., None], axis=-1)
    used = jnp.sum(programs[..., 1:3] >= 0, axis=-1)
    return jnp.concatenate(
        [
            crossed(
                jnp.concatenate(
                    [*decisions, number[..., None].astype(jnp.float32), operators], axis=-1
                ),
                cues,
            ),
            jax.nn.one_hot(jnp.asarray(_NUM_LINKS)[place], 3),
            jax.nn.one_hot(used, 3),
            *fields,
            link_facts,
            about[..., None].astype(jnp.float32),
        ],
        axis=-1,
    )


def _named(batch: Mapping[str, Array]) -> Array:
    """``[B, C]``: which share of the tokens of each column's name is in the question."""
    tokens = batch["token_ids"]
    asked = jnp.take_along_axis(tokens, batch["question_tokens"], axis=1)
    where = batch["header_where"]
    header = _look_up(tokens, batch["header_tokens"])
    equal = (header[..., None] == asked[:, None, None]) & batch["question_where"][:, None, None]
    there = jnp.any(equal, axis=-1) & where
    found, tokens = (jnp.sum(x, axis=-1, dtype=jnp.float32) for x in (there, where))
    return found / jnp.maximum(tokens, 1)


def _look_up(values: Array, places: Array) -> Array:
    """``[B, M, ...]``, ``[B, *S]`` int -> ``[B, *S, ...]``; any value where a place is below 0."""
    return jax.vmap(lambda row, place: row[jnp.maximum(place, 0)])(values, places)


def _crossed_names(decisions: Iterable[str]) -> list[str]:
    return [name for one in decisions for name in (one, *(f"{one}, {cue}" for cue in CUES))]


#: Names of the features, in their order.
QUERY_FEATURES = (
    *_crossed_names([*(name or "no aggregator" for name in AGGREGATORS), *OPERATORS]),
    *(f"{count} conditions" for count in range(MAX_CONDITIONS + 1)),
    *("named", "conditions named", "words in values", "selects a condition", "column again"),
)
PROGRAM_FEATURES = (
    *_crossed_names(
        [
            *RESULTS,
            *("no modifier" if name == "none" else name for name in MODIFIERS),
            *CONNECTIVES,
            "number",
            *LINK_OPERATORS,
        ]
    ),
    *(f"{count} {kind}" for kind in ("links", "fields") for count in range(3)),
    *(f"{slot}: {fact}" for slot in ("select", "modify") for fact in _FIELD_FACTS),
    *(f"links: {fact}" for fact in _LINK_FACTS),
    "link of the selected column",
)
