"""The sets of rows that links of a question select, and which links select each."""

from __future__ import annotations

import numpy as np

from hardem_jax.programs.solutions.execute import connect
from hardem_jax.programs.solutions.rules import ProgramRules, may_pair
from hardem_jax.programs.solutions.types import Links

Pairs = list[tuple[int, int]]
SetsOfRows = dict[int, Pairs]
"""For each set of rows, the pairs of links that select it; -1 where there is no link."""


def joined(links: Links, ordinary: int, pairs: Pairs, rules: ProgramRules) -> dict[str, SetsOfRows]:
    """The sets of rows of each connective that joins links into one set.

    ``ordinary`` are all rows but totals, ``pairs`` those of `separate_pairs`. Unless the rules
    allow redundancy, both links of a pair count.
    """
    sets: dict[str, SetsOfRows] = {name: {} for name in ("all", "one", "and", "or", "and not")}
    if ordinary:
        sets["all"][ordinary] = [(-1, -1)]
    if rules.max_links:
        for index, mask in enumerate(links.masks):
            sets["one"].setdefault(mask, []).append((index, -1))
    fields = links.array[:, 0].tolist()
    for i, j in pairs:
        for connective, first, second in _ways(i, j, fields[i] == fields[j], rules):
            a, b = links.masks[first], links.masks[second]
            rows = connect(connective, a, b)
            if rows and (rules.redundant or rows not in (a, b)):
                if may_pair(connective, links, first, second):
                    sets[connective].setdefault(rows, []).append((first, second))
    return sets


def _ways(i: int, j: int, same_field: bool, rules: ProgramRules) -> list[tuple[str, int, int]]:
    ways = [("and", i, j)]
    if same_field and rules.alternatives:
        ways.append(("or", i, j))
    if rules.negation:
        ways += [("and not", i, j), ("and not", j, i)]
    return ways


def separate_pairs(links: Links) -> np.ndarray:
    """``[P, 2]`` int: pairs of links, ascending, that share no word and do not both lack a span."""
    first, last = links.array[:, 2], links.array[:, 3]
    separate = np.maximum(first[:, None], first) > np.minimum(last[:, None], last)
    return np.argwhere(np.triu(separate, 1))


def links_and_pairs(links: Links, rules: ProgramRules) -> tuple[int, Pairs]:
    """How many links a program of this question may have, and its `separate_pairs` if two."""
    if rules.max_links < 2:
        return rules.max_links, []
    pairs = separate_pairs(links)
    if len(pairs) > rules.max_pairs:
        return 1, []
    return 2, [(i, j) for i, j in pairs.tolist()]


def by_pair_of_sets(links: Links, pairs: Pairs) -> dict[tuple[int, int], Pairs]:
    """The ordered pairs of links, in both orders, by the two sets of rows they select."""
    found: dict[tuple[int, int], Pairs] = {}
    for i, j in pairs:
        a, b = links.masks[i], links.masks[j]
        found.setdefault((a, b), []).append((i, j))
        found.setdefault((b, a), []).append((j, i))
    return found
