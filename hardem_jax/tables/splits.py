"""Splits of builds of questions on tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from hardem_jax.data.built import BuiltSplit
from hardem_jax.data.json_stream import PathLike
from hardem_jax.tables.records import Tables
from hardem_jax.tables.table import Table


class TableSplit(BuiltSplit):
    """Questions on tables of a build, see `BuiltSplit`.

    Attributes:
        RULES: the type of ``rules``.
        rules: Z_tot.
        tables: `Table` by id, read when it is asked for.
    """

    RULES: ClassVar[type[Any]]

    def __init__(self, folder: PathLike, split: str, *, drawn: int | None = None):
        super().__init__(folder, split, drawn=drawn)
        self.rules = self.RULES(**self.meta["rules"])
        self.tables: Mapping[str, Table] = Tables(self._index["tables"], self._records)
