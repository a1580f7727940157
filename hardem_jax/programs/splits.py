"""Splits of builds of questions on tables with programs as Z."""

from __future__ import annotations

from collections.abc import Mapping

from hardem_jax.data.builders.splits import BuiltSplit
from hardem_jax.data.json_stream import PathLike
from hardem_jax.programs.records import RECORDS
from hardem_jax.programs.solutions.rules import ProgramRules
from hardem_jax.tables.records import Tables
from hardem_jax.tables.table import Table


class ProgramSplit(BuiltSplit):
    """Questions on tables of a build, see `BuiltSplit`.

    Attributes:
        rules: Z_tot.
        tables: `Table` by id, read when it is asked for.
    """

    KIND = RECORDS

    def __init__(self, folder: PathLike, split: str, *, drawn: int | None = None):
        super().__init__(folder, split, drawn=drawn)
        self.rules = ProgramRules(**self.meta["rules"])
        self.tables: Mapping[str, Table] = Tables(self._index["tables"], self._records)
