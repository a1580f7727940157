"""Reading queries off the tables of one question, on the host.

`AllowedQueries` has the most likely queries and results of Z_tot, exactly. Conditions that hold for
the same rows are interchangeable except for their scores, so one pass over the distinct sets of
rows finds the best sets of conditions, as it counts them in
`hardem_jax.queries.solutions.conditions`. Every query obeys `SqlRules`, and at least one row meets
its conditions: it is what training could have shown.

`execution_guided` decodes as SQLova (Hwang et al., 2019; Wang et al., 2018): decisions are made one
after the other, and those that cannot be executed or select no row are passed over.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
import itertools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from hardem_jax.queries.solutions.conditions import Combinations, find_conditions, fold
from hardem_jax.queries.solutions.engine import TypedTable, allowed, typed_table
from hardem_jax.queries.solutions.types import AGGREGATORS, ROW_WIDTH, SqlRules, row_of
from hardem_jax.queries.solutions.values import ExecutionError
from hardem_jax.tables.table import Cell, Table

# Share of the probability of Z_tot that may remain unseen.
_TOLERANCE = 1e-3
# Of execution-guided decoding.
_BEAM = _MAX_COLUMNS = 4


@dataclasses.dataclass(frozen=True)
class QueryScores:
    """The tables of P(z | x) of one question, see `QueryDistribution`, as numpy arrays. The model
    may have read only the first columns and words; what it has not read is impossible."""

    select: np.ndarray
    aggregator: np.ndarray
    number: np.ndarray
    column: np.ndarray
    operator: np.ndarray
    first: np.ndarray
    last: np.ndarray

    @property
    def no_conditions(self) -> float:
        """log P(no column has a condition), the constant of every query's log-probability."""
        return float(self.column[:, 0].sum(dtype=np.float64))

    def log_prob(self, query: np.ndarray) -> float:
        """log P(z | x) of one query, ``[ROW_WIDTH]`` int; -inf for one about what was not read."""
        select, aggregator, number = query[:3].tolist()
        if select >= len(self.select):
            return -math.inf
        head = self.select[select] + self.aggregator[select, aggregator] + self.number[number]
        conditions = self.conditions(query[3 : 3 + 4 * number].reshape(-1, 4)).sum()
        return float(head) + self.no_conditions + float(conditions)

    def conditions(self, fields: np.ndarray) -> np.ndarray:
        """``[M, 4]`` int -> ``[M]`` float64: what conditions add to the log-probability."""
        column, operator, first, last = fields.T
        read = (column < len(self.select)) & (last < self.first.shape[-1])
        column, operator, first, last = (
            np.where(read, x, 0) for x in (column, operator, first, last)
        )
        parts = (
            self.column[column, 1].astype(np.float64)
            - self.column[column, 0]
            + self.operator[column, operator]
            + self.first[column, operator, first]
            + self.last[column, operator, last]
        )
        return np.where(read, parts, -np.inf)


class ScoredResult(NamedTuple):
    """A result, log P of the queries seen to lead to it, and the most likely of them."""

    result: list[Cell]
    log_prob: float
    query: np.ndarray


class _Sets(NamedTuple):
    """All sets of conditions with the same rows: log of the sum of their probabilities, and the
    scores and conditions of the most likely ones, best first.
    """

    log_sum: float
    best: tuple[tuple[float, tuple[int, ...]], ...]


class AllowedQueries:
    """Z_tot of one question, to be searched: its ``conditions``, ``[M, 4]`` int16. A query has at
    most ``max_conditions``, fewer than in the rules if there are too many combinations."""

    def __init__(self, table: Table, question: str, words: np.ndarray, rules: SqlRules):
        self._table = typed_table(table)
        found = find_conditions(self._table, question, words, rules)
        self._combinations = Combinations(found, self._table, rules)
        self._several, self._single = allowed(self._table, [0b11, 0b1], rules)
        self.conditions = np.array([c[:4] for c in found], np.int16).reshape(-1, 4)
        self.max_conditions = self._combinations.max_conditions

    def top(self, scores: QueryScores, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The ``k`` most likely queries of Z_tot, best first, and their log-probabilities. There
        are fewer than ``k`` if Z_tot has fewer about what the model has read."""
        groups = self._groups(scores, k)
        found = []
        for single, heads in enumerate(self._heads(scores)):
            sets = (sets.best for mask, sets in groups.items() if _is_single(mask) == single)
            pairs = itertools.product(heads[:k], _best(k, itertools.chain.from_iterable(sets)))
            found += [(h + c, head, conditions) for (h, head), (c, conditions) in pairs]
        found = _best(k, found)
        rows = [self._row(head, conditions) for _, head, conditions in found]
        log_probs = [score + scores.no_conditions for score, *_ in found]
        return np.array(rows, np.int16).reshape(-1, ROW_WIDTH), np.array(log_probs, np.float64)

    def results(
        self, scores: QueryScores, *, max_executions: int = 10_000
    ) -> tuple[list[ScoredResult], float]:
        """Results by probability, that of all queries of Z_tot that lead to them (marginalised).

        Executes heads over sets of rows, most likely first, until no result can overtake the best
        and all but a thousandth of the probability of Z_tot was seen. Also returns the share not
        seen: the first result is certain to be the most likely one if it leads the second by more.
        """
        heads, groups = self._heads(scores), self._groups(scores, 1)
        mass = [_log_sum(score for score, _ in best) for best in heads]
        groups = {mask: sets for mask, sets in groups.items() if heads[_is_single(mask)]}
        total = _log_sum(sets.log_sum + mass[_is_single(mask)] for mask, sets in groups.items())
        queue = [
            (-(sets.log_sum + heads[_is_single(mask)][0][0]), mask, 0)
            for mask, sets in groups.items()
        ]
        heapq.heapify(queue)
        found: dict[tuple[Cell, ...], tuple[float, float, np.ndarray]] = {}
        leader: tuple[Cell, ...] = ()
        left, lead, second = 1.0, 0.0, 0.0
        while queue and max_executions and left > min(_TOLERANCE, lead - second):
            cost, mask, place = heapq.heappop(queue)
            best, (score, conditions) = heads[_is_single(mask)], groups[mask].best[0]
            share = math.exp(-cost - total)
            left -= share
            max_executions -= 1
            if place + 1 < len(best):
                next_cost = cost + best[place][0] - best[place + 1][0]
                heapq.heappush(queue, (next_cost, mask, place + 1))
            select, aggregator = best[place][1]
            if (result := self._table.columns[select].result(aggregator, mask)) is None:
                continue
            key, score = tuple(result), score + best[place][0]
            row = self._row(best[place][1], conditions)
            before, top_score, top_row = found.get(key, (0.0, score, row))
            if score > top_score:
                top_score, top_row = score, row
            found[key] = before + share, top_score, top_row
            if key != leader and before + share > lead:
                leader, second = key, lead
            elif key != leader:
                second = max(second, before + share)
            lead = found[leader][0]
        constant = total + scores.no_conditions
        results = [
            ScoredResult(list(result), constant + math.log(share), row)
            for result, (share, _, row) in sorted(found.items(), key=lambda item: -item[1][0])
        ]
        return results, max(left, 0.0) if queue else 0.0

    def _heads(self, scores: QueryScores) -> list[list[tuple[float, tuple[int, int]]]]:
        """The heads over several rows and over one row, see `_best_heads`."""
        return [_best_heads(scores, allowed) for allowed in (self._several, self._single)]

    def _groups(self, scores: QueryScores, k: int) -> dict[int, _Sets]:
        """The sets of conditions for each row mask, with their ``k`` best."""
        gains = scores.conditions(self.conditions).tolist()
        columns = []
        for clauses in self._combinations.columns:
            merged: dict[tuple[int, int], _Sets] = {}
            for clause in clauses:
                chosen = self._combinations.conditions_of(clause)
                score = sum(gains[index] for index in chosen)
                if score > -math.inf:
                    key, sets = (clause.size, clause.mask), _Sets(score, ((score, chosen),))
                    merged[key] = _plus(k, merged[key], sets) if key in merged else sets
            columns.append(merged)
        levels = fold(
            columns,
            self._combinations.every_row,
            self.max_conditions,
            one=_Sets(0.0, ((0.0, ()),)),
            times=functools.partial(_times, k),
            plus=functools.partial(_plus, k),
        )
        groups: dict[int, _Sets] = {}
        for level, log_prob in zip(levels, scores.number.tolist(), strict=False):
            for mask, sets in level.items():
                sets = _times(k, sets, _Sets(log_prob, ((log_prob, ()),)))
                groups[mask] = _plus(k, groups[mask], sets) if mask in groups else sets
        return groups

    def _row(self, head: tuple[int, int], conditions: tuple[int, ...]) -> np.ndarray:
        return row_of(*head, self.conditions[list(conditions)])


def _plus(k: int, one: _Sets, two: _Sets) -> _Sets:
    return _Sets(_log_add(one.log_sum, two.log_sum), tuple(_best(k, one.best + two.best)))


def _times(k: int, before: _Sets, clause: _Sets) -> _Sets:
    pairs = [(s + t, c + d) for s, c in before.best for t, d in clause.best]
    best = pairs if len(pairs) == 1 else _best(k, pairs)
    return _Sets(before.log_sum + clause.log_sum, tuple(best))


def _best(k: int, found: Iterable[Any]) -> list[Any]:
    """The first ``k`` by score; of equal ones, those that come first."""
    return heapq.nlargest(k, found, key=lambda item: item[0])


def _log_add(one: float, two: float) -> float:
    if one == two == -math.inf:
        return one
    return max(one, two) + math.log1p(math.exp(-abs(one - two)))


def _log_sum(values: Iterable[float]) -> float:
    return functools.reduce(_log_add, values, -math.inf)


def _is_single(mask: int) -> bool:
    return mask.bit_count() == 1


def _best_heads(scores: QueryScores, allowed: np.ndarray) -> list[tuple[float, tuple[int, int]]]:
    """Log-probability, column and aggregator of the heads that are allowed, best first."""
    columns = min(len(scores.select), len(allowed))
    heads = scores.select[:columns, None].astype(np.float64) + scores.aggregator[:columns]
    heads = np.where(allowed[:columns], heads, -np.inf)
    places = [divmod(flat, len(AGGREGATORS)) for flat in _first(heads, heads.size)]
    return [(float(heads[place]), place) for place in places if heads[place] > -np.inf]


def execution_guided(
    table: Table, question: str, words: np.ndarray, scores: QueryScores, rules: SqlRules
) -> np.ndarray:
    """The query that SQLova's execution-guided decoding finds, ``[ROW_WIDTH]`` int16.

    1. Of the four best heads on the four most likely columns, the first that the rules allow; if
       none is, the last.
    2. Of the conditions on the four most likely columns, with values from the four most likely
       first and last words, the four best; those that no row meets are dropped.
    3. The number n of conditions that maximises P(n) times the probability of the n-th.

    Two things differ from the original. It keeps a condition that no row meets if the aggregator is
    COUNT, since 0 is a result; here it is passed over. And a column has at most one condition.
    """
    typed = typed_table(table)
    head = _head(typed, scores, rules)
    kept: list[tuple[float, tuple[int, int, int, int]]] = []
    for log_prob, condition in _conditions(scores):
        column, operator, first, last = condition
        value = question[words[first, 0] : words[last, 1]]
        if any(column == used for _, (used, *_) in kept) or column >= len(typed.columns):
            continue
        try:
            bound = typed.columns[column].bind(value)
        except ExecutionError:
            continue
        if typed.columns[column].compare(bound)[operator]:
            kept.append((log_prob, condition))
    limit = min(rules.max_conditions, len(scores.number) - 1)
    totals = [float(scores.number[0])]
    totals += [float(scores.number[n + 1]) + kept[n][0] for n in range(min(limit, len(kept)))]
    return row_of(*head, sorted(condition for _, condition in kept[: int(np.argmax(totals))]))


def _head(typed: TypedTable, scores: QueryScores, rules: SqlRules) -> tuple[int, int]:
    columns = min(len(typed.columns), len(scores.select))
    heads = scores.select[:columns, None] + scores.aggregator[:columns]
    heads[_first(scores.select[:columns], columns)[_BEAM:]] = -np.inf
    places = [divmod(flat, heads.shape[1]) for flat in _first(heads, _BEAM)]
    is_allowed = allowed(typed, [typed.every_row], rules)[0]
    return next((place for place in places if is_allowed[place]), places[-1])


def _conditions(scores: QueryScores) -> list[tuple[float, tuple[int, int, int, int]]]:
    """The best conditions and their log-probabilities, best first."""
    found = []
    columns = _first(scores.column[:, 1], _MAX_COLUMNS)
    for column, relation in itertools.product(columns, range(scores.operator.shape[1])):
        head = scores.column[column, 1] + scores.operator[column, relation]
        firsts, lasts = scores.first[column, relation], scores.last[column, relation]
        for first, last in itertools.product(_first(firsts, _BEAM), _first(lasts, _BEAM)):
            log_prob = float(head + firsts[first] + lasts[last])
            if first <= last and log_prob > -np.inf:
                found.append((log_prob, (column, relation, first, last)))
    return _best(_BEAM, found)


def _first(scores: np.ndarray, count: int) -> list[int]:
    """The places of the ``count`` largest, best first; of equal ones, those that come first."""
    return np.argsort(-scores, axis=None, kind="stable")[:count].tolist()
