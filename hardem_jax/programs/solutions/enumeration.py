"""Z of programs: all that execute to the answer, from a table and a question.

Programs are not executed one by one. Pairs of links with the same rows have the same results, so
each distinct set of rows is looked at once; and a set of rows can only have the answer as values of
a field if it holds a row for each item of the answer, which a bit mask tells.

Z is sorted by the integers of its rows (`types`), so simple shapes come first. `AnswerTest` tells
whether single programs are in Z, without enumerating it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from hardem_jax.errors import check_text
from hardem_jax.programs.solutions.execute import arrive, connect, execute, modify_rows, reach
from hardem_jax.programs.solutions.judge import Judge, Target
from hardem_jax.programs.solutions.links import find_links
from hardem_jax.programs.solutions.rules import (
    AllowedPrograms,
    Pairs,
    ProgramRules,
    links_and_pairs,
    may_modify,
    may_pair,
)
from hardem_jax.programs.solutions.table import FieldValues, ProgramTable, program_table
from hardem_jax.programs.solutions.types import LOCAL, MOVES, ROW_WIDTH, SHAPES, Links, Shape
from hardem_jax.tables.table import Table, split_words

SetsOfRows = dict[int, Pairs]
"""For each set of rows, the pairs of links that select it; -1 where there is no link."""
#: Programs whose results are kept, for those that come again.
_PROGRAMS_IN_MEMORY = 256


@dataclasses.dataclass(frozen=True)
class Solutions:
    """Z of a question: ``programs`` ``[Z, ROW_WIDTH]`` int16, sorted, without duplicates. They
    refer to ``links``. There were ``size`` before `ProgramRules.cap`, of at most ``max_links``
    links: 1 if there were too many pairs."""

    programs: np.ndarray
    links: Links
    size: int
    max_links: int


class _Group(NamedTuple):
    """Solutions that differ only in their links."""

    shape: int
    select: int
    modify: int
    pairs: Pairs


def enumerate_programs(
    table: Table,
    question: str,
    target: Target,
    rules: ProgramRules | None = None,
    *,
    words: np.ndarray | None = None,
    seed: int = 0,
) -> Solutions:
    """Z: every program of Z_tot that executes to the answer, or a sample by ``seed``. ``words`` are
    those of `split_words` unless given; ``rules`` None stands for the default."""
    rules = rules or ProgramRules()
    check_text(question, "question")
    words = split_words(question) if words is None else np.asarray(words)
    indexed = program_table(table)
    links = find_links(indexed, question, words, rules)
    max_links, pairs = links_and_pairs(links, rules)
    search = _Search(indexed, links, target, rules, pairs)
    groups = [*search.local(), *search.moved(), *search.versus()]
    sizes = np.array([len(group.pairs) for group in groups], np.int64)
    size = int(sizes.sum())
    if rules.cap is None or size <= rules.cap:
        chosen = np.arange(size)
    else:
        chosen = np.sort(np.random.default_rng(seed).choice(size, rules.cap, replace=False))
    owners = np.searchsorted(ends := np.cumsum(sizes), chosen, side="right")
    places = (chosen - (ends - sizes)[owners]).tolist()
    rows = [
        (*groups[owner][:3], *groups[owner].pairs[place])
        for owner, place in zip(owners.tolist(), places, strict=True)
    ]
    programs = np.array(sorted(rows), np.int16).reshape(-1, ROW_WIDTH)
    return Solutions(programs, links, size, max_links)


class _Search:
    """The correct programs of a question, group by group."""

    def __init__(
        self, table: ProgramTable, links: Links, target: Target, rules: ProgramRules, pairs: Pairs
    ):
        self._links, self._rules, self._pairs = links, rules, pairs
        self._columns, self._ordinary = len(table.header), table.ordinary
        self._fields = {
            code: values
            for code, values in table.fields.items()
            if rules.allows_field(values.field, self._columns)
        }
        self._shapes = {SHAPES[index]: index for index in rules.shapes()}
        self._judge = Judge(table, self._fields, target, rules, links.truths)

    def _group(self, shape: Shape, select: int, modify: int, pairs: Pairs) -> Iterator[_Group]:
        if (index := self._shapes.get(shape)) is not None:
            yield _Group(index, select, modify, pairs)

    def _modifiers(self, names: Sequence[str]) -> list[tuple[str, int, FieldValues | None]]:
        """Modifiers by name, each with the code and values of every field it can have."""
        found: list[tuple[str, int, FieldValues | None]] = []
        for name in names:
            shape = Shape("values", name, "one")
            if not self._rules.allows_shape(shape._replace(connective="all")):
                continue
            if not shape.has_modify:
                found.append((name, -1, None))
                continue
            for code, values in self._fields.items():
                if may_modify(shape, values.field, self._columns):
                    found.append((name, code, values))
        return found

    def local(self) -> Iterator[_Group]:
        """Programs whose final rows are among those they start from."""
        sets = joined(self._links, self._ordinary, self._pairs, self._rules)
        distinct = list(dict.fromkeys(rows for found in sets.values() for rows in found))
        sums = self._judge.sums(distinct)
        modifiers = self._modifiers(LOCAL)
        correct = {
            rows: [
                *self._values(rows, modifiers),
                *((result, "none", f, g) for result, f, g in self._judge.results(rows)),
                *((result, "none", f, g) for result, f, g in sums.get(rows, ())),
            ]
            for rows in distinct
        }
        for connective, found in sets.items():
            for rows, pairs in found.items():
                for result, modifier, select, modify in correct[rows]:
                    shape = Shape(result, modifier, connective)
                    yield from self._group(shape, select, modify, pairs)

    def _values(
        self, rows: int, modifiers: list[tuple[str, int, FieldValues | None]]
    ) -> Iterator[tuple[str, str, int, int]]:
        if not rows & self._judge.relevant:
            return
        for name, code, values in modifiers:
            final = modify_rows(name, values, rows, rows)
            if final != rows or name == "none" or self._rules.redundant:
                for select in self._judge.selected(final):
                    yield "values", name, select, code

    def moved(self) -> Iterator[_Group]:
        """Programs that go from the rows of link 1 to others."""
        if not self._rules.max_links:
            return
        origins: SetsOfRows = {}
        for index, mask in enumerate(self._links.masks):
            origins.setdefault(mask, []).append((index, -1))
        targets: dict[int, dict[int, Pairs]] = {rows: {} for rows in origins}
        for (a, b), pairs in by_pair_of_sets(self._links, self._pairs).items():
            targets[a][b] = pairs
        for name, code, values in self._modifiers(MOVES):
            counts = ("values", "count") if name in ("same", "higher", "lower") else ("values",)
            for origin, pairs in origins.items():
                reached = reach(name, values, origin)
                final = arrive(name, values, reached & self._ordinary)
                yield from self._arrived(name, "one", code, final, counts, pairs)
                if not reached:
                    continue
                for target, ordered in targets[origin].items():
                    if filtered := reached & target:
                        chosen = arrive(name, values, filtered)
                        if chosen != final or self._rules.redundant:
                            yield from self._arrived(name, "to", code, chosen, counts, ordered)

    def _arrived(
        self,
        modifier: str,
        connective: str,
        modify: int,
        final: int,
        results: Sequence[str],
        pairs: Pairs,
    ) -> Iterator[_Group]:
        for select in self._judge.selected(final):
            yield from self._group(Shape("values", modifier, connective), select, modify, pairs)
        if "count" in results and final and self._judge.equals(final.bit_count()):
            yield from self._group(Shape("count", modifier, connective), -1, modify, pairs)

    def versus(self) -> Iterator[_Group]:
        """Programs that compare the rows of two links."""
        by_sets = by_pair_of_sets(self._links, self._pairs)
        sets = list(dict.fromkeys(self._links.masks)) if by_sets else []
        for (result, select, _), a, b in self._judge.compared(sets):
            shape = Shape(result, "none", "versus")
            pairs = by_sets.get((a, b), [])
            if shape.is_symmetric:
                pairs = [pair for pair in pairs if pair[0] < pair[1]]
            yield from self._group(shape, select, -1, pairs)


def joined(links: Links, ordinary: int, pairs: Pairs, rules: ProgramRules) -> dict[str, SetsOfRows]:
    """The sets of rows of each connective that joins links into one set. ``ordinary`` are all rows
    but totals. Unless the rules allow redundancy, both links count."""
    sets: dict[str, SetsOfRows] = {name: {} for name in ("all", "one", "and", "or", "and not")}
    if ordinary:
        sets["all"][ordinary] = [(-1, -1)]
    if rules.max_links:
        for index, mask in enumerate(links.masks):
            sets["one"].setdefault(mask, []).append((index, -1))
    fields = links.array[:, 0].tolist()
    for i, j in pairs:
        ways = [("and", i, j)]
        if fields[i] == fields[j] and rules.alternatives:
            ways.append(("or", i, j))
        if rules.negation:
            ways += [("and not", i, j), ("and not", j, i)]
        for connective, first, second in ways:
            a, b = links.masks[first], links.masks[second]
            rows = connect(connective, a, b)
            if rows and (rules.redundant or rows not in (a, b)):
                if may_pair(connective, links, first, second):
                    sets[connective].setdefault(rows, []).append((first, second))
    return sets


def by_pair_of_sets(links: Links, pairs: Pairs) -> dict[tuple[int, int], Pairs]:
    """The ordered pairs of links, in both orders, by the two sets of rows they select."""
    found: dict[tuple[int, int], Pairs] = {}
    for i, j in pairs:
        a, b = links.masks[i], links.masks[j]
        found.setdefault((a, b), []).append((i, j))
        found.setdefault((b, a), []).append((j, i))
    return found


class AnswerTest:
    """Tells which of some programs, ``[N, ROW_WIDTH]`` int, are in Z: ``[N]`` bool. A program is in
    Z if the rules allow it and its result is the answer. `ProgramRules.cap` only limits enumeration
    and is ignored here. The links are from `find_links` by the same rules."""

    def __init__(self, table: Table, links: Links, target: Target, rules: ProgramRules):
        self._table, self._links, self._target = table, links, target
        self._allowed = AllowedPrograms(program_table(table), links, rules)
        self._is_right = functools.lru_cache(_PROGRAMS_IN_MEMORY)(self._execute)

    def __call__(self, programs: np.ndarray) -> np.ndarray:
        return np.array([self._is_right(*row) for row in programs.tolist()], bool)

    def _execute(self, *row: int) -> bool:
        if row not in self._allowed:
            return False
        result = execute(self._table, row, self._links)
        return result is not None and self._target.matches(result)
