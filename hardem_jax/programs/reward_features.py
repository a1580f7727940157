"""What a learned reward reads of programs, see `hardem_jax.tables.learned_rewards`."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from hardem_jax.programs.solutions.types import (
    CONNECTIVES,
    MODIFIERS,
    PARTS,
    RESULTS,
    SHAPES,
    TEXT_PARTS,
)
from hardem_jax.programs.solutions.types import OPERATORS as LINK_OPERATORS
from hardem_jax.tables.learned_rewards import Array, crossed, crossed_names, look_up

#: Names of the parts of a program's shape, and of each of `SHAPES` which of them it has.
_DECISIONS = {"result": RESULTS, "modifier": MODIFIERS, "connective": CONNECTIVES}
_PARTS_OF_SHAPE = {
    kind: np.array([names.index(getattr(shape, kind)) for shape in SHAPES], np.int32)
    for kind, names in _DECISIONS.items()
}
_NUM_LINKS = np.array([shape.num_links for shape in SHAPES], np.int32)
_FIELD_FACTS = ("rows", "distinct", "named", "equal words", "alone")
_LINK_FACTS = ("rows", "one row", "words", "longest")


def program_features(programs: Array, cues: Array, batch: Mapping[str, Array]) -> Array:
    """The features `PROGRAM_FEATURES` of programs: ``[B, N, 5]`` int32 -> ``[B, N, F]`` float32.

    Crossed with ``cues`` ``[B, K]`` bool are result, modifier, connective, how many links have each
    operator, and whether the select field has numbers. The others: the number of links and of
    fields; the facts of both fields, and the sums of those of the links, as the parser reads them;
    whether a link is about the selected column. Features of rows of -1 mean nothing.

    >>> from hardem_jax.tables.learned_rewards import cues_of
    >>> fields, none = 2 * len(PARTS), jnp.zeros
    >>> batch = dict(links=jnp.array([[[0, 0, 1, 1]]]), link_facts=none((1, 1, 4)),
    ...     field_facts=none((1, fields, 5)))
    >>> shape = [(s.result, s.modifier, s.connective) for s in SHAPES]
    >>> count = shape.index(("count", "none", "one"))
    >>> programs, cues = jnp.array([[[count, -1, -1, 0, -1]]]), cues_of(["how many teams"])
    >>> [[features]] = jax.jit(program_features)(programs, cues, batch).tolist()
    >>> names = [n for n, x in zip(PROGRAM_FEATURES, features, strict=True) if x]
    >>> names[:4] + names[-2:]
    ['count', 'count, how many', 'no modifier', 'no modifier, how many', '1 links', '0 fields']
    """
    shape, select, modify = (programs[..., i] for i in range(3))
    place = jnp.maximum(shape, 0)
    decisions = [
        jax.nn.one_hot(jnp.asarray(_PARTS_OF_SHAPE[kind])[place], len(names))
        for kind, names in _DECISIONS.items()
    ]
    links = programs[..., 3:]
    there = links >= 0
    chosen = look_up(batch["links"], links)
    each = {"axis": 2, "where": there[..., None]}
    operators = jnp.sum(jax.nn.one_hot(chosen[..., 1], len(LINK_OPERATORS)), **each)
    link_facts = jnp.sum(look_up(batch["link_facts"], links), **each)
    fields = [
        jnp.where((field >= 0)[..., None], look_up(batch["field_facts"], field), 0.0)
        for field in (select, modify)
    ]
    number = (select >= 0) & (select % len(PARTS) >= len(TEXT_PARTS))
    about = chosen[..., 0] // len(PARTS) == (select // len(PARTS))[..., None]
    about = jnp.any(there & about & (select >= 0)[..., None], axis=-1)
    about, number = (x[..., None].astype(jnp.float32) for x in (about, number))
    used = jnp.sum(programs[..., 1:3] >= 0, axis=-1)
    counts = [jax.nn.one_hot(n, 3) for n in (jnp.asarray(_NUM_LINKS)[place], used)]
    with_cues = crossed(jnp.concatenate([*decisions, number, operators], axis=-1), cues)
    return jnp.concatenate([with_cues, *counts, *fields, link_facts, about], axis=-1)


_MODIFIERS = ["no modifier" if name == "none" else name for name in MODIFIERS]
PROGRAM_FEATURES = (
    *crossed_names([*RESULTS, *_MODIFIERS, *CONNECTIVES, "number", *LINK_OPERATORS]),
    *(f"{count} {kind}" for kind in ("links", "fields") for count in range(3)),
    *(f"{slot}: {fact}" for slot in ("select", "modify") for fact in _FIELD_FACTS),
    *(f"links: {fact}" for fact in _LINK_FACTS),
    "link of the selected column",
)
