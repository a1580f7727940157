"""The command ``predict`` of the parsers of questions on tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardem_jax.cli.predict import PredictCommand
from hardem_jax.errors import InputError
from hardem_jax.tables.csv import file_inside, read_csv_table

if TYPE_CHECKING:
    from hardem_jax.tables.table import Table


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictOnTable(PredictCommand):
    """Ask a trained parser questions about a table of your own.

    Attributes:
        table: CSV file with a header.
        top: solutions to print.
    """

    ABOUT = "table"

    table: Path | None = None

    def sources(self) -> Sequence[Path]:
        return () if self.table is None else (self.table,)

    def read(self, files: Sequence[Path]) -> Table:
        [file] = files
        table = read_csv_table(file, id=file.stem)
        if not table.header:
            raise InputError(f"{file}: expected columns to select from, found none")
        return table

    def of_row(self, row: Mapping[str, Any]) -> Any:
        assert self.questions is not None
        return file_inside(self.questions.parent / "tables", row["table"], str(self.questions))
