"""Z_tot of programs: which of them a question allows."""

from __future__ import annotations

import dataclasses

from hardem_jax.errors import require


@dataclasses.dataclass(frozen=True)
class ProgramRules:
    """Z_tot: which fields, links and shapes there are, and how many programs are kept.

    Two links of a program never share a word of the question. Those of "or" have the same field
    and both "=" or both "contains"; the second of "and not" has "=" or "contains".

    Attributes:
        parts: allow parts of cells other than the whole text and the number of a cell that is one.
        dates: allow dates, years, months, days and times (only with ``parts``).
        superlatives: allow "highest", "lowest", "first" and "last".
        neighbours: allow "previous" and "next".
        nested: allow "same", "higher", "lower", "next higher" and "next lower".
        groups: allow "most common", "least common" and "repeated".
        distinct: allow "count distinct".
        sums: allow "sum", "average", "range" and "total".
        differences: allow "difference", "count difference" and "gap".
        comparisons: allow "is higher", "is same" and "is more".
        negation: allow "!=" and "and not".
        alternatives: allow "or".
        inclusive: allow ">=" and "<=".
        contains: allow "contains".
        empty: allow "empty" and "not empty".
        row_numbers: allow the row number as a field.
        max_links: 0 to 2.
        max_sets: bounds time and memory: pairs of links are given up for a question with more
            distinct sets of rows than this.
        cap: size from which Z is a uniform sample of ``cap`` programs; None keeps all.
    """

    parts: bool = True
    dates: bool = True
    superlatives: bool = True
    neighbours: bool = True
    nested: bool = True
    groups: bool = True
    distinct: bool = True
    sums: bool = True
    differences: bool = True
    comparisons: bool = True
    negation: bool = True
    alternatives: bool = True
    inclusive: bool = True
    contains: bool = True
    empty: bool = True
    row_numbers: bool = True
    max_links: int = 2
    max_sets: int = 2**14
    cap: int | None = 2**12

    def __post_init__(self) -> None:
        require(self, "max_links", at_least=0, at_most=2, integer=True)
        require(self, "max_sets", "cap", at_least=1, integer=True)
