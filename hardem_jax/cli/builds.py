"""Commands that write builds, see `hardem_jax.data.builders`, and that train on them."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from hardem_jax.cli.evaluate import EvaluateCommand
from hardem_jax.cli.train import Setting
from hardem_jax.data.data_sets import DataSet
from hardem_jax.data.exclusions import sizes
from hardem_jax.data.files import write_text
from hardem_jax.errors import InputError, require, require_different
from hardem_jax.progress import counted
from hardem_jax.show.record import View
from hardem_jax.training.fingerprint import may_change

# `hardem_jax.data.builders` imports TFDS, so it is imported only when a command runs.


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildCommand:
    """Read the official files, find Z of every question and write both to a TFDS data set.

    The build lies in a folder below ``out`` that is named after its options and the contents of its
    files. Running the same command again finds it there; other options or files make another build.

    Attributes:
        out: folder of all builds; the folder of this one is printed.
        folder: the official files; without it they are downloaded, where that is possible.
        splits: splits to build; by default those whose files are present.
        processes: number of processes that find Z; the result is the same.
        beam: options of Apache Beam, as ``name=value``, to build on many machines.
        shard_size: questions per shard, the unit of work of a process.
    """

    #: ``layout`` of the source files -> data set; "" for a command with one.
    LAYOUTS: ClassVar[Mapping[str, type[DataSet]]]

    out: Path
    folder: Path | None = None
    splits: tuple[str, ...] = ()
    processes: int = 1
    beam: tuple[str, ...] | None = None
    shard_size: int = 256

    def __post_init__(self) -> None:
        require(self, "processes", "shard_size", at_least=1)
        require_different(self, "splits")

    def data_set(self) -> DataSet:
        """What is built: the data set of the layout, with the flags that it has.

        Raises:
            InputError: a flag of another layout was given.
        """
        layout = getattr(self, "layout", "")
        kind = self.LAYOUTS[layout]
        known = {field.name for field in dataclasses.fields(kind)}
        common = {field.name for field in dataclasses.fields(BuildCommand)} | {"layout"}
        for field in dataclasses.fields(self):
            if field.name in known | common or getattr(self, field.name) == field.default:
                continue
            raise InputError(f"--{field.name}: expected another --layout, found {layout}")
        return kind(**{name: getattr(self, name) for name in known})

    def run(self) -> None:
        from hardem_jax.data import builders

        builders.quiet()
        builder = builders.SolutionBuilder(
            self.data_set(),
            data_dir=self.out,
            folder=self.folder,
            splits=self.splits,
            shard_size=self.shard_size,
            processes=self.processes,
            progress=functools.partial(counted, label=f"shards of {self.shard_size} questions"),
        )
        config = None if self.beam is None else builders.beam_config(self.beam)
        with contextlib.redirect_stdout(io.StringIO()):  # TFDS greets
            builder.download_and_prepare(download_config=config)
        build = builders.open_build(builder.data_dir)
        for split in builder.splits:
            found = build.meta["splits"][split]
            print(f"{split}:")
            for name, count in found["counts"]:
                print(f"{count:>9}  {name}")
            print(sizes(found["solutions per question"]))
            print("\n".join(found["report"]))
        print(build.folder)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildSetting(Setting):
    """All flags of a run on builds except its objective.

    Attributes:
        data: folder of the build to train on.
        dev: folder of the build to evaluate on; it may be the same.
        data_split: split of ``data`` to train on.
        dev_split: split of ``dev`` to evaluate on.
        first: the solution that First-only trains on: the first of Z in its documented order, or
            one "drawn" per question, with the seed of the run.
    """

    data: Path = may_change("identified by contents")
    data_split: str = may_change("identified by contents", default="train")
    dev_split: str = may_change("identified by contents", default="dev")
    first: Literal["documented", "drawn"] = "documented"

    @abc.abstractmethod
    def view(self, task: Any, data: Any, index: int, inputs: Any, reading: Any) -> View:
        """What a model says about a question, from the reading of its input."""

    def views(
        self, task: Any, data: Any, inputs: Any, readings: Sequence[tuple[int, Any]]
    ) -> list[View]:
        ordered = sorted(readings, key=lambda pair: pair[0])
        return [self.view(task, data, i, inputs[i], reading) for i, reading in ordered]

    def open_data(self) -> Any:
        drawn = self.loop.seed if self.first == "drawn" else None
        return _open(self.kind(), self.data, self.data_split, drawn=drawn)

    def open_dev(self, count: int | None) -> Any:
        return _open(self.kind(), self.dev, self.dev_split).first(count)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOnBuild(EvaluateCommand):
    """Score a trained model with the official metric.

    Attributes:
        data: folder of the build.
        split: split of the build to score.
        official: write the answers here, in the layout that the official evaluator reads.
    """

    split: str = may_change("identified by contents", default="dev")
    official: Path | None = may_change("what is written", default=None)

    @abc.abstractmethod
    def official_text(self, data: Any, answers: Any) -> str:
        """Content of the file for the official evaluator."""

    def outputs(self) -> tuple[Path, ...]:
        return (*super().outputs(), *(() if self.official is None else (self.official,)))

    def report(self, data: Any, answers: Any, scores: Mapping[str, float]) -> None:
        super().report(data, answers, scores)
        if self.official is not None:
            write_text(self.official, self.official_text(data, answers))

    def open(self) -> Any:
        return _open(self.kind(), self.data, self.split)

    def split_and_digest(self) -> tuple[str, str]:
        from hardem_jax.data.builders.read import open_build

        build = open_build(self.data)
        build.check_split(self.split)
        return self.split, build.meta["splits"][self.split]["content"]


def _open(kind: Any, folder: Path, split: str, **options: Any) -> Any:
    return kind.QUESTIONS.open(folder, split, **options)
