"""Questions with Z, programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ProgramQuestion:
    """A question with its Z, programs.

    Attributes:
        id, question, table_id, words: as in `QueryQuestion`.
        answer: items, written by a person (a list once it has been on disk).
        values: number or date of each item if the data gives it, likewise.
        fields: ``[F, 3]`` int32, of every field that has values: its code, the number of rows that
            have one, and the number of distinct ones. See `hardem_jax.programs.solutions.types`.
        links: ``[M, 4]`` int16, conditions that the question's words allow, see `Links`.
        link_rows: ``[M]`` int32, how many rows satisfy each.
        programs: ``[Z, 5]`` int16, see `Program.from_row`.
        num_programs: |Z| before the rules' cap.
    """

    id: str
    question: str
    table_id: str
    answer: Sequence[str]
    values: Sequence[str] | None
    words: np.ndarray
    fields: np.ndarray
    links: np.ndarray
    link_rows: np.ndarray
    programs: np.ndarray
    num_programs: int
