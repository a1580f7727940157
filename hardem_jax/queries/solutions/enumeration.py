"""SQL queries as solutions (Min et al., 2019, section 3.2): Z from a table, a question, an answer.

Z_tot holds every query allowed by `SqlRules`; Z holds those that execute to the answer. They are
not executed one by one: sets of conditions with the same rows have the same results, so each
distinct set of rows is compared with the answer once per column and aggregator, in arrays, and
only the matching queries are written out.

Z is ordered by number of conditions, selected column, aggregator, and then by the first, second
and third condition, each by column, operator, first word and last word; "first-only" takes its
first query. Conditions within a query are sorted in the same way, so each set is one query.

`AnswerTest` tells whether single queries are in Z, without enumerating it.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from hardem_jax.errors import check_many, check_text
from hardem_jax.queries.solutions.conditions import Combinations, find_conditions
from hardem_jax.queries.solutions.engine import TypedTable, allowed, typed_table
from hardem_jax.queries.solutions.types import (
    AGGREGATORS,
    AVG,
    COUNT,
    MAX,
    MIN,
    NONE,
    ROW_WIDTH,
    SUM,
    SqlRules,
)
from hardem_jax.queries.solutions.values import in_lower_case
from hardem_jax.tables.table import Cell, Table, masks_to_matrix, plain_cell, split_words

# Longer results are hardly ever the same, and remembering them takes gigabytes.
_MAX_KEY = 64
# Limits a temporary array to 8 MiB of float64.
_MAX_ELEMENTS = 2**20


@runtime_checkable
class CellMatch(Protocol):
    """A `match` that compares results with the cells ``wanted``, in order, so that products of
    matrices rule out most. It allows numbers a relative difference of up to 1e-12."""

    wanted: Sequence[Cell]

    def __call__(self, result: Sequence[Cell]) -> bool: ...

    def holds(self, cell: Cell) -> bool:
        """Whether a cell is one of the wanted ones."""
        ...


@dataclasses.dataclass(frozen=True)
class Solutions:
    """Z of a question.

    Attributes:
        queries: ``[Z, ROW_WIDTH]`` int16, see `Query.from_row`; without duplicates, in the order
            described in the module docstring.
        size: number of solutions before `SqlRules.cap`.
        max_conditions: maximum number of conditions searched; below that of the rules if there
            were too many combinations (`SqlRules.max_combinations`).
    """

    queries: np.ndarray
    size: int
    max_conditions: int


def enumerate_sql(
    table: Table,
    question: str,
    answer: Sequence[Cell] = (),
    rules: SqlRules | None = None,
    *,
    words: np.ndarray | None = None,
    match: Callable[[list[Cell]], bool] | None = None,
) -> Solutions:
    """Z: every query of Z_tot that executes to the answer.

    Process the questions on one table consecutively: only recently used tables stay indexed.

    Args:
        table: the table of the question.
        question: its spans are the values of conditions.
        answer: y, the list of cells that the official engine returns, even for a single cell. A
            result is correct if the lists are equal, ignoring case; the text "7" is not the
            number 7. Ignored if ``match`` is given.
        rules: Z_tot; None for the default.
        words: the words of the question; None for `split_words`.
        match: decides whether a result is correct, if equality is not the criterion. It gets each
            distinct result list once. Unless it is a `CellMatch`, this is slow: every column and
            aggregator is executed over every set of rows.

    Raises:
        InputError: SQLite cannot hold a cell of the table, or the question has too many words.
        TypeError: an argument has the wrong type, such as a string instead of a list of cells.

    Example:
        >>> from hardem_jax.queries.solutions.types import Query
        >>> rows = (("ann", 7.0), ("bo", 9.0), ("cy", 9.0))
        >>> table = Table("1-1", ("player", "no."), ("text", "real"), rows)
        >>> question = "Who has 7?"
        >>> solutions = enumerate_sql(table, question, ["ann"])
        >>> for row in solutions.queries:
        ...     print(Query.from_row(row, question, split_words(question)).text(table.header))
        SELECT player WHERE no. = '7'
    """
    rules = rules or SqlRules()
    check_text(question, "question")
    check_many(answer, "answer", "cells")
    answer = in_lower_case(plain_cell(cell, "answer") for cell in answer)
    words = split_words(question) if words is None else np.asarray(words)
    typed = typed_table(table)
    conditions = find_conditions(typed, question, words, rules)
    combinations = Combinations(conditions, typed, rules)
    masks = list(dict.fromkeys(mask for level in combinations.levels for mask in level))
    valid = _valid(typed, masks, answer, rules, match)
    places = {mask: m for m, mask in enumerate(masks)}
    total = valid.sum(axis=1).tolist()
    sizes = [
        sum(count * total[places[mask]] for mask, count in level.items())
        for level in combinations.levels
    ]
    table_of = np.array([condition[:4] for condition in conditions], np.int16).reshape(-1, 4)
    blocks, left = [np.empty((0, ROW_WIDTH), np.int16)], rules.cap
    for number, level in enumerate(combinations.levels):
        if left == 0 or not sizes[number]:
            continue
        here = [places[mask] for mask in level]
        used = np.flatnonzero(valid[here].any(axis=0))
        # All selections at once if all are written out, else one after the other up to the cap.
        whole = left is None or sizes[number] <= left
        for heads in used[None] if whole else used[:, None]:
            if left == 0:
                break
            wanted = {masks[m] for m in here if valid[m, heads].any()}
            codes, found = combinations.write_out(number, wanted, left)
            correct = valid[np.ix_([places[mask] for mask in found], heads)]
            place, index = np.nonzero(correct.T)
            rows = np.full((len(index), ROW_WIDTH), -1, np.int16)
            rows[:, 0], rows[:, 1] = np.divmod(heads[place], len(AGGREGATORS))
            rows[:, 2] = number
            chosen = np.array(codes, np.int64)[index]
            for i in range(number):
                indices = chosen // combinations.base ** (number - 1 - i) % combinations.base
                rows[:, 3 + 4 * i : 7 + 4 * i] = table_of[indices]
            blocks.append(rows)
            left = None if left is None else left - len(rows)
    return Solutions(np.concatenate(blocks), sum(sizes), combinations.max_conditions)


class AnswerTest:
    """Tells which of some queries are in Z, without enumerating Z.

    A query is in Z if the rules allow it, at least one row meets its conditions, and its result is
    the answer. `SqlRules.cap` and `SqlRules.max_combinations` only limit enumeration and are
    ignored here. A set of rows is compared with the answer once; later queries on it are look-ups.

    Args:
        table, question, answer, rules, words, match: as for `enumerate_sql`.

    Attributes:
        conditions: ``[M, 4]`` int16, every condition of Z_tot: column, operator, first and last
            word. They do not depend on the answer.
        heads: ``[S, 6]`` bool, columns and aggregators that the rules allow over several rows.

    Example:
        >>> table = Table("1-1", ("player", "no."), ("text", "real"), (("ann", 7.0), ("bo", 9.0)))
        >>> test = AnswerTest(table, "Who has 7?", ["ann"])
        >>> test(np.array([[0, 0, 1, 1, 0, 2, 2] + [-1] * 8, [0, 0, 0] + [-1] * 12]))
        array([ True, False])
    """

    def __init__(
        self,
        table: Table,
        question: str,
        answer: Sequence[Cell] = (),
        rules: SqlRules | None = None,
        *,
        words: np.ndarray | None = None,
        match: Callable[[list[Cell]], bool] | None = None,
    ):
        self._rules = rules or SqlRules()
        self._answer = in_lower_case(plain_cell(cell, "answer") for cell in answer)
        self._match = match
        self._table = typed_table(table)
        words = split_words(question) if words is None else np.asarray(words)
        found = find_conditions(self._table, question, words, self._rules)
        self._masks = {condition[:4]: condition.mask for condition in found}
        self._valid: dict[int, np.ndarray] = {}
        self.conditions = np.array([*self._masks], np.int16).reshape(-1, 4)
        self.heads = allowed(self._table, [0b11], self._rules)[0]

    def __call__(self, queries: np.ndarray) -> np.ndarray:
        """Whether each query is in Z.

        Args:
            queries: ``[N, ROW_WIDTH]`` int, see `Query.from_row`; any numbers. Those whose
                conditions are not on ascending columns, one each, are not in Z.

        Returns:
            ``[N]`` bool.
        """
        rows = queries.tolist()
        masks = [self._rows_of(row) for row in rows]
        new = list({mask for mask in masks if mask and mask not in self._valid})
        valid = _valid(self._table, new, self._answer, self._rules, self._match)
        self._valid.update(zip(new, valid, strict=True))
        columns, aggregators = len(self._table.columns), len(AGGREGATORS)
        return np.array(
            [
                bool(mask)
                and 0 <= select < columns
                and 0 <= aggregator < aggregators
                and bool(self._valid[mask][select * aggregators + aggregator])
                for mask, (select, aggregator, *_) in zip(masks, rows, strict=True)
            ],
            bool,
        )

    def _rows_of(self, query: Sequence[int]) -> int:
        """The mask of the rows that meet the conditions of a query; 0 if it is not in Z_tot."""
        if not 0 <= (count := query[2]) <= self._rules.max_conditions:
            return 0
        mask, previous = self._table.every_row, -1
        for start in range(3, 3 + 4 * count, 4):
            column, operator, first, last = query[start : start + 4]
            if column <= previous:
                return 0
            mask &= self._masks.get((column, operator, first, last), 0)
            previous = column
        return mask


def _valid(
    table: TypedTable,
    masks: Sequence[int],
    answer: Sequence[Cell],
    rules: SqlRules,
    match: Callable[[list[Cell]], bool] | None,
) -> np.ndarray:
    """``[M, 6 S]`` bool: which results are allowed and correct, by selected column and aggregator.
    No set of rows is empty."""
    if not masks or not table.columns:
        return np.zeros((len(masks), 0), bool)
    heads = allowed(table, masks, rules)
    if match is not None:
        if isinstance(match, CellMatch):
            heads &= _possible(table, masks, match)
        _keep_matching(table, masks, match, heads)
    else:
        heads &= _equal(table, masks, list(answer))
        if len(answer) == 1 and not isinstance(answer[0], str):
            _decide_sums(table, masks, answer[0], heads)
    return heads.reshape(len(masks), -1)


def _keep_matching(
    table: TypedTable, masks: Sequence[int], match: Callable[[list[Cell]], bool], heads: np.ndarray
) -> None:
    """Leaves those whose results match; ``match`` is asked once about each short one."""
    known: dict[tuple[tuple[type, Cell], ...], bool] = {}
    for mask, valid in zip(masks, heads, strict=True):
        for s, aggregator in np.argwhere(valid).tolist():
            result = table.columns[s].result(aggregator, mask)
            if result is None or len(result) > _MAX_KEY:
                valid[s, aggregator] = result is not None and match(result)
                continue
            # With types: 1 and 1.0 are equal, but `match` may compare them as text.
            key = tuple((type(cell), cell) for cell in result)
            if key not in known:
                known[key] = bool(match(result))
            valid[s, aggregator] = known[key]


def _possible(table: TypedTable, masks: Sequence[int], match: CellMatch) -> np.ndarray:
    """``[M, S, 6]`` bool: which results could match, by products as in `_equal`."""
    possible = np.zeros((len(masks), len(table.columns), len(AGGREGATORS)), bool)
    held = []
    for column in table.columns:
        rows = [column.nulls] if match.holds(None) else [0]
        rows += [mask for value, mask in column.rows_by_value.items() if match.holds(value)]
        held.append(functools.reduce(operator.or_, rows))
    some = [column.not_null for column in table.columns]
    tests, (sums, rounding) = masks_to_matrix(held + some, table.num_rows).T, table.sums
    count, [wanted] = len(match.wanted), match.wanted if len(match.wanted) == 1 else [None]
    is_text = isinstance(wanted, str)
    target = np.nan if is_text else _as_float(wanted)
    step = max(1, _MAX_ELEMENTS // max(1, *tests.shape))
    for start in range(0, len(masks), step):
        bits, own = masks_to_matrix(masks[start : start + step], table.num_rows), possible[start:]
        own = own[: len(bits)]
        holding, some = np.split(bits @ tests, 2, axis=1)
        own[..., NONE] = (holding == count) & (bits.sum(1) == count)[:, None]
        if count != 1:
            continue
        own[..., [MAX, MIN]] = (holding > 0)[..., None]
        own[..., COUNT] = np.isclose(some, target, rtol=1e-11, atol=0)
        with np.errstate(all="ignore"):  # infinite cells, sets of rows that are all NULL
            addends, counts = np.split(bits @ sums, 2, axis=1)
            for aggregator, values in ((SUM, addends), (AVG, addends / counts)):
                far = np.abs(values - target) > rounding + 1e-11 * abs(target)
                own[..., aggregator] = ~far & (not is_text)
        if wanted is None:
            own[..., [MAX, MIN]] = True
    return possible


def _equal(table: TypedTable, masks: Sequence[int], answer: list[Cell]) -> np.ndarray:
    """``[M, S, 6]`` bool: whether results equal the answer; of sums, whether they could. Products
    count the rows that decide for all sets and columns at once: tens of millions on wide tables."""
    valid = np.zeros((len(masks), len(table.columns), len(AGGREGATORS)), bool)
    [cell] = answer if len(answer) == 1 else [None]
    rows: list[list[int]] = [[], [], [], []]  # by column: hold the answer, exceed it, ...
    for column in table.columns:
        held = 0
        for value in set(answer):
            held |= column.nulls if value is None else column.rows_by_value.get(value, 0)
        _, above, below = column.compare(cell) if held else (0, 0, 0)
        for which, mask in zip(rows, (held, above, below, column.not_null), strict=True):
            which.append(mask)
    tests = masks_to_matrix([mask for which in rows for mask in which], table.num_rows).T
    step = max(1, _MAX_ELEMENTS // max(table.num_rows, tests.shape[1], 1))
    for start in range(0, len(masks), step):
        bits, own = masks_to_matrix(masks[start : start + step], table.num_rows), valid[start:]
        own = own[: len(bits)]
        holding, above, below, some = np.split(bits @ tests, 4, axis=1)
        own[..., NONE] = (holding == len(answer)) & (bits.sum(1) == len(answer))[:, None]
        if len(answer) != 1:  # whether the order is the same, too
            for m, s in np.argwhere(own[..., NONE]).tolist():
                own[m, s, NONE] = table.columns[s].select(masks[start + m]) == answer
            continue
        if not isinstance(cell, str):
            own[..., COUNT] = some == _as_float(cell)
            own[..., SUM:] = True
        if cell is None:
            own[..., [MAX, MIN]] = (some == 0)[..., None]
        else:
            own[..., MAX] = (holding > 0) & (above == 0)
            own[..., MIN] = (holding > 0) & (below == 0)
    return valid


def _decide_sums(table: TypedTable, masks: Sequence[int], cell: Cell, heads: np.ndarray) -> None:
    """Leaves those of the sums and averages that are the answer. Float64 sums rule out most;
    SQLite's own summation decides."""
    target = _as_float(cell)
    sums, rounding = table.sums
    step = max(1, _MAX_ELEMENTS // max(1, *sums.shape))
    for start in range(0, len(masks), step):
        with np.errstate(all="ignore"):  # infinite cells, sets of rows that are all NULL
            bits = masks_to_matrix(masks[start : start + step], table.num_rows)
            addends, counts = np.split(bits @ sums, 2, axis=1)
            for aggregator, values in ((SUM, addends), (AVG, addends / counts)):
                if cell is None:
                    far = (counts > 0) & np.isfinite(values)
                else:
                    far = (counts == 0) | (np.abs(values - target) > rounding)
                heads[start : start + step, :, aggregator] &= ~far
    for m, s, place in np.argwhere(heads[..., SUM:]).tolist():
        heads[m, s, SUM + place] = table.columns[s].result(SUM + place, masks[m]) == [cell]


def _as_float(cell: Cell) -> float:
    """The cell as float64; NaN, which equals nothing, for NULL and a number that is too large."""
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        return np.nan
