"""Tests which selected columns and aggregates over given rows are the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from hardem_jax.queries.solutions.columns import TypedTable
from hardem_jax.queries.solutions.rules import SqlRules
from hardem_jax.queries.solutions.types import AGGREGATORS
from hardem_jax.tables.table import Cell, masks_to_matrix

NONE, MAX, MIN, COUNT, SUM, AVG = range(len(AGGREGATORS))
#: Aggregators that return the cell itself if there is only one.
CELL_AGGREGATORS = np.isin(np.arange(len(AGGREGATORS)), (MAX, MIN, SUM, AVG))

# Limits a temporary array to 8 MiB of float64.
_MAX_ELEMENTS = 2**20


def allowed(table: TypedTable, masks: Sequence[int], rules: SqlRules) -> np.ndarray:
    """``[M, S, 6]`` bool: which heads the rules allow, by set of rows, column and aggregator."""
    heads = np.ones((len(masks), len(table.columns), len(AGGREGATORS)), bool)
    if not rules.aggregates_on_text:
        texts = np.array([column.type == "text" for column in table.columns], bool)
        heads &= ~(texts[:, None] & CELL_AGGREGATORS)
    if not rules.aggregates_of_one_row:
        single = np.array([mask.bit_count() == 1 for mask in masks], bool)
        heads &= ~(single[:, None, None] & CELL_AGGREGATORS)
    return heads


def results_equal(table: TypedTable, masks: Sequence[int], answer: Sequence[Cell]) -> np.ndarray:
    """``[M, S, 6]`` bool: whether the result of each query equals the answer, in order.

    Array operations rule out most queries: lists with the wrong length or other cells, and float64
    sums too far from the answer. The rest are executed; for sums, SQLite's own summation decides.
    No set of rows is empty.
    """
    columns, num_rows = table.columns, table.num_rows
    tests = _one_cell(table, answer[0]) if len(answer) == 1 else [
        _rows_holding(column, answer) for column in columns
    ]  # fmt: skip
    tests = masks_to_matrix(tests, num_rows).T
    valid = np.zeros((len(masks), len(columns), len(AGGREGATORS)), bool)
    step = max(1, _MAX_ELEMENTS // max(num_rows, tests.shape[1]))
    for start in range(0, len(masks), step):
        block = slice(start, start + step)
        bits = masks_to_matrix(masks[block], num_rows)
        if len(answer) == 1:
            _judge_cells(table, masks[block], bits, tests, answer[0], valid[block])
        else:
            _judge_lists(table, masks[block], bits, tests, list(answer), valid[block])
    return valid


def results_matching(
    table: TypedTable, masks: Sequence[int], match: Callable[[list[Cell]], bool]
) -> np.ndarray:
    """As `results_equal`, but ``match`` decides; it is called once for each distinct result."""
    known: dict[tuple[tuple[type, Cell], ...], bool] = {}
    valid = np.zeros((len(masks), len(table.columns), len(AGGREGATORS)), bool)
    for m, mask in enumerate(masks):
        for s, column in enumerate(table.columns):
            for aggregator in range(len(AGGREGATORS)):
                if (result := column.result(aggregator, mask)) is None:
                    continue
                # With types: 1 and 1.0 are equal, but `match` may compare them as text.
                key = tuple((type(cell), cell) for cell in result)
                if (is_match := known.get(key)) is None:
                    is_match = known[key] = bool(match(result))
                valid[m, s, aggregator] = is_match
    return valid


def _rows_holding(column, answer: Sequence[Cell]) -> int:
    mask = 0
    for cell in set(answer):
        mask |= column.nulls if cell is None else column.rows_by_value.get(cell, 0)
    return mask


def _one_cell(table: TypedTable, cell: Cell) -> list[int]:
    """Masks of the rows that hold the cell, and of those that keep it from being MAX and MIN."""
    equal, above, below = [], [], []
    for column in table.columns:
        held = _rows_holding(column, [cell])
        beaten = column.compare(cell)[1:] if held else (0, 0)
        equal.append(held)
        above.append(beaten[0])
        below.append(beaten[1])
    return equal + above + below


def _judge_lists(table, masks, bits, tests, answer, valid) -> None:
    correct_length = bits.sum(1) == len(answer)
    candidates = correct_length[:, None] & (bits @ tests == len(answer))
    for m, s in np.argwhere(candidates).tolist():
        valid[m, s, NONE] = table.columns[s].select(masks[m]) == answer


def _judge_cells(table, masks, bits, tests, cell, valid) -> None:
    equal, above, below = np.split(bits @ tests, 3, axis=1)
    held = equal > 0
    valid[..., NONE] = held & (bits.sum(1) == 1)[:, None]
    with np.errstate(all="ignore"):  # infinite cells, sets of rows that are all NULL
        addends, counts = np.split(bits @ table.sums, 2, axis=1)
        averages = addends / counts
    if cell is None:
        valid[..., [MAX, MIN, SUM, AVG]] = (counts == 0)[..., None]
    else:
        valid[..., MAX] = held & (above == 0)
        valid[..., MIN] = held & (below == 0)
    if isinstance(cell, str):
        return
    valid[..., COUNT] = counts == _as_float(cell)
    for aggregator, values in ((SUM, addends), (AVG, averages)):
        sums = equal_sums(table, values, counts, cell)
        for m, s in np.argwhere(sums.uncertain).tolist():
            sums.certain[m, s] = table.columns[s].result(aggregator, masks[m]) == [cell]
        valid[..., aggregator] |= sums.certain


class _Sums(NamedTuple):
    certain: np.ndarray
    uncertain: np.ndarray


def equal_sums(table: TypedTable, values: np.ndarray, counts: np.ndarray, cell: Cell) -> _Sums:
    """Which sums or averages are certain to equal the cell, and which may equal it."""
    target, some = _as_float(cell), counts > 0
    # Without fractions and large numbers, sums are exact in any order.
    certain = some & table.exact_sums & (values == target)
    if cell is None:  # SQLite returns NULL for a sum that is NaN
        return _Sums(certain, some & ~np.isfinite(values))
    with np.errstate(all="ignore"):
        far = np.abs(values - target) > table.rounding
    return _Sums(certain, some & ~table.exact_sums & ~far)


def _as_float(cell: Cell) -> float:
    """The cell as float64; NaN, which equals nothing, for NULL, text and overflow."""
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        return np.nan
