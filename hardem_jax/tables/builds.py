"""Where questions on tables are read from, for queries and for programs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.rows import USUAL, Columns
from hardem_jax.errors import require
from hardem_jax.tables.jsonl import read_table_questions
from hardem_jax.tables.records import OnTables
from hardem_jax.tables.wikitablequestions import read_wikitablequestions, tagged_name


@dataclasses.dataclass(frozen=True)
class OwnTables(OnTables):
    """Your own tables: ``{split}.jsonl``, or ``.csv`` or ``.tsv``, see `hardem_jax.tables.jsonl`.

    Attributes:
        layout: of the questions; "csv" reads ``train.csv`` or ``train.tsv`` and so on.
        columns: names of their columns, or of the keys of objects.
    """

    SPLITS = ("train", "dev", "test")
    HOME = "hardem_jax.tables.jsonl, which describes the layout"

    layout: Literal["jsonl", "csv"] = "jsonl"
    columns: Columns = USUAL

    def source_names(self, folder: Path | None, split: str) -> tuple[str, ...]:
        name = f"{split}.{self.layout}"
        if folder is None:
            return (name,)
        if self.layout == "csv" and not os.path.isfile(folder / name):
            name = f"{split}.tsv" if os.path.isfile(folder / f"{split}.tsv") else name
        return (name, "tables") if os.path.isdir(folder / "tables") else (name,)

    def read(self, folder: Path, split: str, skips: ExclusionCounts) -> Iterator[Any]:
        file, *_ = self.source_files(folder, split).values()
        return read_table_questions(file, skips=skips, columns=self.columns)

    def source_files(self, folder: Path, split: str) -> dict[str, Path]:
        sources = super().source_files(folder, split)
        if split in self.files and os.path.isdir(tables := self.files[split].parent / "tables"):
            sources["tables"] = tables
        return sources


@dataclasses.dataclass(frozen=True)
class WikiTables(OnTables):
    """WikiTableQuestions (Pasupat and Liang, 2015): ``data/{split}.tsv`` and ``csv/``.

    Attributes:
        number: number of the random split, 1 to 5; "test" is the unseen tables.
        tagged: read numbers and dates of the answers from the release's ``.tagged`` files.
    """

    SPLITS = ("train", "dev", "test")
    HOME = "https://github.com/ppasupat/WikiTableQuestions"

    number: int = 1
    tagged: bool = False

    def __post_init__(self) -> None:
        require(self, "number", at_least=1, at_most=5)

    def source_names(self, folder: Path | None, split: str) -> tuple[str, ...]:
        name = self._file(split)
        tagged = (tagged_name(name),) if self.tagged else ()
        return f"data/{name}.tsv", *tagged, "csv"

    def read(self, folder: Path, split: str, skips: ExclusionCounts) -> Iterator[Any]:
        return read_wikitablequestions(folder, self._file(split), skips=skips, tagged=self.tagged)

    def _file(self, split: str) -> str:
        if split == "test":
            return "pristine-unseen-tables"
        return f"random-split-{self.number}-{split}"
