"""Tables, queries and the words of a question.

Z_tot of the paper's third category (Min et al., 2019, section 3.2) is every non-nested query with
at most three conditions

    SELECT aggregator(column) WHERE column operator value AND ...

whose values are spans of the question. One query is a `Query`; a whole set Z is an integer
array, see `Query.from_row`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardem_jax.tables.table import column_names

AGGREGATORS = ("", "max", "min", "count", "sum", "avg")
"""In the order of the official files; "" selects plain cells."""

OPERATORS = ("=", ">", "<")
"""In the order of the official files."""

MAX_CONDITIONS = 3
"""K in the paper."""

ROW_WIDTH = 3 + 4 * MAX_CONDITIONS


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
    def from_row(cls, row, question: str, words: np.ndarray) -> "Query":
        """The query encoded by a row of Z.

        Args:
            row: [ROW_WIDTH] integers: selected column, aggregator, number of conditions, then
                column, operator, first word and last word (inclusive) of each condition; entries
                after the last condition are ignored.
            question: the text whose spans are the values.
            words: [W, 2] character offsets, see `split_words`.
        """
        select, aggregator, count, *rest = (int(number) for number in row)
        conditions = []
        for i in range(count):
            column, operator, first, last = rest[4 * i : 4 * i + 4]
            conditions.append(
                Condition(column, operator, question[words[first, 0] : words[last, 1]])
            )
        return cls(select, aggregator, tuple(conditions))

    def text(self, header: Sequence[str]) -> str:
        """The query as readable SQL, for display only; see `column_names` for repeated names.

        Example:
            >>> Query(1, 3, (Condition(0, 0, "oslo"),)).text(("city", "city"))
            "SELECT COUNT(city_2) WHERE city = 'oslo'"
        """
        names = column_names(header)
        column = names[self.select]
        selected = (
            f"{AGGREGATORS[self.aggregator].upper()}({column})" if self.aggregator else column
        )
        shown = [
            f"{names[c.column]} {OPERATORS[c.operator]} "
            + (f"'{c.value}'" if isinstance(c.value, str) else f"{c.value}")
            for c in self.conditions
        ]
        return f"SELECT {selected}" + (f" WHERE {' AND '.join(shown)}" if shown else "")
