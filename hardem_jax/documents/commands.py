"""The command ``prepare`` of the tasks on documents, for a file of a person's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.files import read_meta
from hardem_jax.data.json_stream import first_list, iter_json_items
from hardem_jax.data.rows import USUAL, Columns
from hardem_jax.documents.examples import ReadingExample
from hardem_jax.documents.prepared import PrepareCommand
from hardem_jax.documents.squad import AnswersAre, read_squad_layout, read_squad_rows
from hardem_jax.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrepareFile(PrepareCommand):
    """Find every mention and cut the documents into windows.

    Attributes:
        file: the questions: a row each, with its text (CSV, JSON lines or a list, also as Hugging
            Face's data sets have them), or in SQuAD's layout.
        layout: "squad" or "rows"; None for the one that the file has.
        columns: names of the columns of "rows", or of the keys of objects.
    """

    file: Path
    layout: Literal["squad", "rows"] | None = None
    columns: Columns = USUAL
    split: Literal["train", "dev", "test"] = "train"

    def sources(self) -> dict[str, Any]:
        sources = super().sources() | {"layout": self.found_layout()}
        if self.columns == USUAL:  # as in splits from before this flag existed
            del sources["columns"]
        return sources

    def found_layout(self) -> Literal["squad", "rows"]:
        """``layout``, or the one that the file has: only SQuAD's has a list of paragraphs."""
        if self.layout is not None:
            return self.layout
        if not first_list(self.file, "data"):
            return "rows"
        _, article = next(iter_json_items(self.file, "data"), (0, {}))
        return "squad" if not article or "paragraphs" in article else "rows"

    @classmethod
    def of_files(
        cls, files: Mapping[str, Path], out: Path, encoder: str, **flags: Any
    ) -> tuple[dict[str, Any], int]:
        """Prepares files if ``out`` lacks them; fields of ``train``, and windows in training."""
        for split, file in files.items():
            own: Any = {"split": split, "file": file, "out": out / split, "tokenizer": encoder}
            if not own["out"].exists():
                cls(**own, **flags).run()
        counts = read_meta(out / "train", format=cls.FORMAT)["counts"]
        return {"data": (out / "train",), "dev": out / "dev"}, counts["windows with a mention"]

    def read(
        self, skips: ExclusionCounts, answers_are: AnswersAre, *, keep_several: bool
    ) -> Iterator[ReadingExample]:
        """The questions of the file, see `read_squad_layout`."""
        options: dict[str, Any] = {
            "skips": skips,
            "answers_are": answers_are,
            "require_answers": self.scored(),
            "keep_several": keep_several,
            "choices": self.windows.choices,
        }
        if self.found_layout() == "rows":
            return read_squad_rows(self.file, columns=self.columns, **options)
        if self.columns != USUAL:
            raise InputError(f"--columns: expected none, for {self.file} is in SQuAD's layout")
        return read_squad_layout(self.file, **options)
