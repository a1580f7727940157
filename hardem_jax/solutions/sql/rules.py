"""Which queries a question has: Z_tot of semantic parsing (Min et al., 2019, section 3.2)."""

from __future__ import annotations

import dataclasses
from typing import Literal

from hardem_jax.errors import InputError, require
from hardem_jax.solutions.arguments import check_choice
from hardem_jax.solutions.sql.columns import Semantics
from hardem_jax.solutions.sql.types import MAX_CONDITIONS

Numbers = Literal["whole", "exact", "official"]


@dataclasses.dataclass(frozen=True)
class SqlRules:
    """Z_tot: which conditions a question gives rise to, and how they are combined.

    Z_tot has every selected column, every aggregator, and every set of at most ``max_conditions``
    conditions that the rules allow. A condition that holds for no row of the table is none of
    them, nor is a set of conditions that no row meets: results over no row say nothing about the
    values, and a question whose answer is such a result has all of these queries.

    The paper leaves open which spans face which column; it reports a mean |Z| of 346.1 and a median
    of 5. On 2,376 training questions the default gives 57.5 and 6, spans that are pieces of numbers
    ("exact") 285.4 and 6; either way 99.7 % of the questions have a solution, and 99.7 % the
    annotated query, so that all that "exact" adds is spurious.
    `python -m experiments.solution_sets.sql` prints these figures for every variant.

    Attributes:
        max_conditions: 0 to 3.
        ranges_on_text: > and < may face text columns.
        shared_columns: several conditions may be on one column. Their order is that of `Solutions`.
        numbers: which spans may face a real column. "whole": those that are a number and not part
            of a longer one; "exact": those that are a number; "official": all that the official
            engine accepts, that is, any with a digit.
        vacuous_conditions: a condition may hold for every row of the table.
        aggregates_of_one_row: MAX, MIN, SUM and AVG may stand over a single row, where they are the
            cell itself, so that no answer tells them from the plain column.
        distinct_values: of the spans that are one and the same condition, the first alone counts.
            It thins out Z, not what a query may mean.
        semantics: of conditions and aggregators, see `hardem_jax.solutions.sql.columns`.
        cap: rows of Z that are kept, the first in its order; None for all.
        max_combinations: a question with more combinations of conditions than this, counting those
            on one column with the same rows as one, has its queries of three conditions left
            out, then those of two: what bounds time and memory for very wide tables.
    """

    max_conditions: int = MAX_CONDITIONS
    ranges_on_text: bool = False
    shared_columns: bool = False
    numbers: Numbers = "whole"
    vacuous_conditions: bool = True
    aggregates_of_one_row: bool = True
    distinct_values: bool = False
    semantics: Semantics = "official"
    cap: int | None = None
    max_combinations: int = 2**22

    def __post_init__(self) -> None:
        check_choice(self.numbers, Numbers, "numbers")
        check_choice(self.semantics, Semantics, "semantics")
        require(self, "max_conditions", at_least=0, at_most=MAX_CONDITIONS)
        require(self, "cap", "max_combinations", at_least=1)
        if self.semantics == "sane" and self.numbers == "official":
            raise InputError(
                'numbers: expected "whole" or "exact" for sane semantics, found official'
            )
