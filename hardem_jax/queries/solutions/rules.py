"""Z_tot of semantic parsing: which queries a question allows (Min et al., 2019, section 3.2)."""

from __future__ import annotations

import dataclasses
from typing import Literal

from hardem_jax.errors import check_choice, require
from hardem_jax.queries.solutions.types import MAX_CONDITIONS

Numbers = Literal["whole", "exact", "official"]


@dataclasses.dataclass(frozen=True)
class SqlRules:
    """Z_tot: which conditions a question allows, and how they are combined.

    Z_tot has every selected column, every aggregator, and every set of at most ``max_conditions``
    conditions that the rules allow. Conditions that hold for no row of the table are excluded, and
    so are sets of conditions that no row satisfies: a result over no rows says nothing about the
    values, and an answer that is such a result would match all of these queries.

    The paper does not say which spans are compared with which columns, nor which columns may be
    aggregated; it reports a mean |Z| of 346.1 and a median of 5. On 2,376 training questions the
    default gives 40.4 and 2; with aggregates of text and parts of numbers ("exact") it is 285.4 and
    6. Both have a solution for 99.7 % of them and for 99.7 % the annotated query, so that all that
    these options add is spurious.

    Attributes:
        max_conditions: 0 to 3.
        ranges_on_text: allow > and < on text columns.
        aggregates_on_text: allow MAX, MIN, SUM and AVG of text columns. No annotated query of
            WikiSQL has one, and SQLova's own decoding excludes them (`check_sc_sa_pairs`); leaving
            them out makes a query drawn from Z far more likely to be the intended one.
        shared_columns: allow several conditions on one column, in the order of `Solutions`. To
            look at: SQLova has no such queries.
        numbers: which spans are compared with real columns. "whole": numbers that are not part of
            a longer one; "exact": all numbers; "official": all that the official engine accepts,
            that is, any with a digit.
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
        check_choice(self.numbers, Numbers, "numbers")
        require(self, "max_conditions", at_least=0, at_most=MAX_CONDITIONS)
        require(self, "cap", "max_combinations", at_least=1)
