"""Data sets with Z built once, on one machine or on many: ``python -m experiments.build --help``.

A build holds questions, documents and Z, in the shards of TFDS; no tokens, so that it serves every
encoder. `experiments.download` gets official files::

    python -m experiments.build build --out built --folder drop data-set:drop-num
    python -m experiments.build build --out built --folder drop --beam direct_num_workers=8 \
        data-set:drop-num --data-set.rules.percent term
    python -m experiments.build show --folder built/hardem_drop_num --split train

Numeric and table questions are trained on as they are built; for reading, ``prepare`` cuts the
documents of a build into windows. Builds with other options or files lie in folders of their own.
``--beam`` takes the options of Apache Beam, without dashes: see `hardem_jax.data.builders.beam`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union

from tyro.conf import arg, subcommand

from hardem_jax.cli.builds import BuildCommand
from hardem_jax.cli.command import run_command
from hardem_jax.data.data_sets import DataSet
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.documents.examples import ReadingExample
from hardem_jax.documents.prepared import PrepareCommand
from hardem_jax.documents.windows import WindowConfig
from hardem_jax.errors import InputError, require
from hardem_jax.registry import task_module, tasks_with
from hardem_jax.show.record import as_text

if TYPE_CHECKING:
    from hardem_jax.data.built import Build

# `hardem_jax.data.built` brings in TFDS and jax, and is imported by what reads a build.

_subcommands = tuple(
    Annotated[kind, subcommand(name)]
    for task in tasks_with("builds")
    for name, kind in task_module(task, "builds").DATA_SETS.items()
)
if TYPE_CHECKING:
    AnyDataSet = DataSet
else:
    AnyDataSet = Annotated[Union[_subcommands], arg(name="data-set")]  # noqa: UP007


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildDataSet(BuildCommand):
    """Read the official files, find Z of every question and write both to a TFDS data set.

    Attributes:
        chosen: which one, and its rules.
    """

    chosen: AnyDataSet

    def data_set(self) -> DataSet:
        return self.chosen


@dataclasses.dataclass(frozen=True, kw_only=True)
class Show:
    """Print the first questions of a build with their Z.

    Attributes:
        folder: of the build, or one that holds no other.
        split: of the build.
        count: number of questions.
        solutions: maximum number per question.
    """

    folder: Path
    split: str = "train"
    count: int = 5
    solutions: int = 10

    def __post_init__(self) -> None:
        require(self, "count", at_least=1)
        require(self, "solutions", at_least=0)

    def run(self) -> None:
        from hardem_jax.data.built import open_build

        build = open_build(self.folder)
        draw = task_module(build.kind, "show").built_record
        records = build.records(self.split)
        for index in range(min(self.count, len(records))):
            record = records[index]
            shown = draw(
                record, build.meta["options"], lambda all: range(len(all))[: self.solutions]
            )
            shown = dataclasses.replace(shown, title=f"{record['id']}  {shown.title}")
            if not shown.size:
                shown = dataclasses.replace(shown, notes=["Z is empty"])
            print(as_text(shown, most=self.solutions, width=200))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepare(PrepareCommand):
    """Cut a split of a reading data set into windows, to train on or to evaluate on.

    Numeric and table questions need no such step: their commands take the build.

    Attributes:
        folder: of the build, or one that holds no other.
        split: of the build.
        keep_without_solution: keep questions whose Z is empty; None for all splits but "train".
        windows: sizes; for the open data sets, a ``max_windows`` of 16 is None (all windows).
    """

    folder: Path
    keep_without_solution: bool | None = None

    @functools.cached_property
    def _build(self) -> Build:
        from hardem_jax.data.built import open_build

        build = open_build(self.folder)
        if build.kind != "documents":
            raise InputError(
                f"{build.folder}: expected a build of a reading data set, found one that is "
                "trained on as it is (--data)"
            )
        return build

    def examples(self, skips: ExclusionCounts) -> Iterator[ReadingExample]:
        for id, reason in self._build.index(self.split)["left_out"]:
            skips.add(reason, id)
        return iter(self._build.examples(self.split))

    def official_metric(self) -> str:
        return self._build.meta["metric"]

    def sources(self) -> dict[str, Any]:
        """The build records its own."""
        meta = self._build.meta
        return {"build": meta["fingerprint"], "data set": meta["data set"], "split": self.split}

    def scored(self) -> bool:
        return True

    def keep_without_mention(self) -> bool:
        keep = self.keep_without_solution
        return super().keep_without_mention() if keep is None else keep

    def run(self) -> None:
        usual = self.windows.max_windows == WindowConfig().max_windows
        if usual and "train_passages" in self._build.meta["options"]:
            every = dataclasses.replace(self.windows, max_windows=None)
            return dataclasses.replace(self, windows=every).run()
        return super().run()


COMMANDS = {"build": BuildDataSet, "show": Show, "prepare": Prepare}

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.build")
