"""Queries, and which of them a question allows.

Z_tot of the paper's third category (Min et al., 2019, section 3.2) is every non-nested query with
at most three conditions

    SELECT aggregator(column) WHERE column operator value AND ...

whose values are spans of the question. One query is a `Query`; a whole set Z is an integer
array, see `Query.from_row`. `SqlRules` say which queries are in Z_tot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from hardem_jax.errors import require
from hardem_jax.tables.table import column_names

AGGREGATORS = ("", "max", "min", "count", "sum", "avg")
"""In the order of the official files; "" selects plain cells."""

NONE, MAX, MIN, COUNT, SUM, AVG = range(len(AGGREGATORS))
#: Aggregators that return the cell itself if there is only one.
CELL_AGGREGATORS = np.isin(np.arange(len(AGGREGATORS)), (MAX, MIN, SUM, AVG))

OPERATORS = ("=", ">", "<")
"""In the order of the official files."""

MAX_CONDITIONS = 3
"""K in the paper."""

ROW_WIDTH = 3 + 4 * MAX_CONDITIONS

Numbers = Literal["whole", "exact", "official"]


@dataclass(frozen=True)
class Condition:
    """``column operator value``, with column and operator (`OPERATORS`) by index."""

    column: int
    operator: int
    value: str | float | int


@dataclass(frozen=True)
class Query:
    """A non-nested query.

    Attributes:
        select: index of the selected column.
        aggregator: index in `AGGREGATORS`.
        conditions: joined by AND.

    Example:
        >>> from hardem_jax.tables.table import split_words
        >>> question = "Who wears number 42?"
        >>> words = split_words(question)
        >>> query = Query.from_row([0, 0, 1, 1, 0, 3, 3] + [-1] * 8, question, words)
        >>> query
        Query(select=0, aggregator=0, conditions=(Condition(column=1, operator=0, value='42'),))
        >>> query.text(("player", "no."))
        "SELECT player WHERE no. = '42'"
    """

    select: int
    aggregator: int
    conditions: tuple[Condition, ...] = ()

    @classmethod
    def from_row(cls, row, question: str, words: np.ndarray) -> Query:
        """The query encoded by a row of Z.

        Args:
            row: [ROW_WIDTH] integers: selected column, aggregator, number of conditions, then
                column, operator, first word and last word (inclusive) of each condition; entries
                after the last condition are ignored.
            question: the text whose spans are the values.
            words: [W, 2] character offsets, see `split_words`.
        """
        select, aggregator, count, *rest = (int(number) for number in row)
        parts = (rest[4 * i : 4 * i + 4] for i in range(count))
        conditions = (
            Condition(column, operator, question[words[first, 0] : words[last, 1]])
            for column, operator, first, last in parts
        )
        return cls(select, aggregator, tuple(conditions))

    def text(self, header: Sequence[str]) -> str:
        """The query as readable SQL, for display only; see `column_names` for repeated names.

        Example:
            >>> Query(1, 3, (Condition(0, 0, "oslo"),)).text(("city", "city"))
            "SELECT COUNT(city_2) WHERE city = 'oslo'"
        """
        names = column_names(header)
        selected, name = names[self.select], AGGREGATORS[self.aggregator].upper()
        shown = [
            f"{names[c.column]} {OPERATORS[c.operator]} "
            + (f"'{c.value}'" if isinstance(c.value, str) else f"{c.value}")
            for c in self.conditions
        ]
        where = f" WHERE {' AND '.join(shown)}" if shown else ""
        return f"SELECT {f'{name}({selected})' if name else selected}{where}"


def row_of(select: int, aggregator: int, conditions: ArrayLike) -> np.ndarray:
    """The row of Z of a query, ``[ROW_WIDTH]`` int16; conditions ``[N, 4]`` as in `from_row`."""
    numbers = np.ravel(conditions)
    content = [select, aggregator, len(numbers) // 4, *numbers]
    return np.array(content + [-1] * (ROW_WIDTH - len(content)), np.int16)


@dataclass(frozen=True)
class SqlRules:
    """Z_tot: which conditions a question allows, and how they are combined.

    Z_tot has every selected column, every aggregator, and every set of at most ``max_conditions``
    conditions that the rules allow. Conditions that hold for no row of the table are excluded, and
    so are sets of conditions that no row satisfies: a result over no rows says nothing about the
    values, and an answer that is such a result would match all of these queries.

    The paper does not say which spans are compared with which columns, nor which columns may be
    aggregated; it reports a mean |Z| of 346.1 and a median of 5. On 2,376 training questions the
    default gives 40.4 and 2; with aggregates of text and parts of numbers ("exact") it is 285.4 and
    6. Both have a solution and the annotated query for 99.7 %: all that is added is spurious.

    Attributes:
        max_conditions: 0 to 3.
        ranges_on_text: allow > and < on text columns.
        aggregates_on_text: allow MAX, MIN, SUM and AVG of text columns. No annotated query of
            WikiSQL has one, and SQLova's own decoding excludes them (`check_sc_sa_pairs`); leaving
            them out makes a query drawn from Z far more likely to be the intended one.
        shared_columns: allow several conditions on one column, in the order of `Solutions`. To
            look at: SQLova has no such queries.
        numbers: which spans are compared with real columns. "whole": numbers that are not part of
            a longer one; "exact": all; "official": any with a digit, as the official engine does.
        vacuous_conditions: allow conditions that hold for every row of the table.
        aggregates_of_one_row: allow MAX, MIN, SUM and AVG over a single row, where they are the
            cell itself, so that no answer distinguishes them from the plain column.
        distinct_values: keep only the first of the spans that give the same condition. This thins
            out Z without excluding any condition.
        cap: keep only the first ``cap`` queries of Z; None for all.
        max_combinations: bounds time and memory for very wide tables. A question with more
            combinations of conditions, counting those on one column with the same rows once,
            loses its queries with three conditions, then those with two.
    """

    max_conditions: int = MAX_CONDITIONS
    ranges_on_text: bool = False
    aggregates_on_text: bool = False
    shared_columns: bool = False
    numbers: Numbers = "whole"
    vacuous_conditions: bool = True
    aggregates_of_one_row: bool = True
    distinct_values: bool = False
    cap: int | None = None
    max_combinations: int = 2**22

    def __post_init__(self) -> None:
        require(self, "max_conditions", at_least=0, at_most=MAX_CONDITIONS)
        require(self, "cap", "max_combinations", at_least=1)
