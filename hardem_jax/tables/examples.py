"""Questions about tables, as readers yield them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hardem_jax.tables.table import Cell, Table

#: How results are compared with an answer, see `hardem_jax.queries.records.answer_match`.
Match = Literal["cells", "execution", "denotation"]


@dataclass(frozen=True)
class TableQuestion:
    """A question about a table with its answer but no query.

    Attributes:
        id: question id, by which predictions are keyed.
        question: non-empty text.
        table: the table; readers convert its texts to lower case.
        answer: cells of a query's result, or an answer written by a person.
        match: how results are compared with the answer: "cells" as a person does, see `SameCells`;
            "execution" requires equality (WikiSQL); "denotation" uses
            `hardem_jax.tables.metrics`.
        values: for "denotation", the number or date of each item if the data gives it.
    """

    id: str
    question: str
    table: Table
    answer: tuple[Cell, ...]
    match: Match = "execution"
    values: tuple[str, ...] | None = None

    @property
    def answer_texts(self) -> tuple[str, ...]:
        """Returns the answer of a question that is matched by denotation.

        Raises:
            TypeError: a cell is not text, which only "denotation" rules out.
        """
        texts = tuple(cell for cell in self.answer if isinstance(cell, str))
        if len(texts) != len(self.answer):
            raise TypeError(f"question {self.id}: expected texts, found {self.answer}")
        return texts
