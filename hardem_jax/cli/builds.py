"""Commands that write builds, see `hardem_jax.data.builders`, and that train on them."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from hardem_jax.cli.command import with_flags_of
from hardem_jax.cli.evaluate import EvaluateCommand, written
from hardem_jax.cli.train import TrainCommand
from hardem_jax.data.data_sets import DataSet
from hardem_jax.data.exclusions import sizes
from hardem_jax.data.files import write_text
from hardem_jax.errors import InputError, require, require_different
from hardem_jax.progress import counted
from hardem_jax.registry import task_type
from hardem_jax.training.fingerprint import may_change

# `hardem_jax.data.builders` imports TFDS, so it is imported only when a command runs.


@dataclasses.dataclass(frozen=True, kw_only=True)
class WriteBuild(abc.ABC):
    """Find Z of every question and write both to a TFDS data set.

    Attributes:
        out: folder of all builds. That of this one, which is printed, is named after its options
            and the contents of its files: the same command finds it there, and other options or
            files make another build.
        processes: number of processes that find Z; the result is the same.
        beam: options of Apache Beam, as ``name=value``, to build on many machines.
        shard_size: questions per shard, the unit of work of a process.
    """

    #: ``layout`` of the source files -> data set; "" for a command with one.
    LAYOUTS: ClassVar[Mapping[str, type[DataSet]]]

    out: Path
    processes: int = 1
    beam: tuple[str, ...] | None = None
    shard_size: int = 256

    def __post_init__(self) -> None:
        require(self, "processes", "shard_size", at_least=1)

    def data_set(self) -> DataSet:
        """What is built: the data set of the layout, with the flags that it has."""
        layout = getattr(self, "layout", "")
        kind = self.LAYOUTS[layout]
        known = {field.name for field in dataclasses.fields(kind)}
        others = {x.name for other in self.LAYOUTS.values() for x in dataclasses.fields(other)}
        for field in dataclasses.fields(self):
            of_another = field.name in others - known - {"layout"}
            if of_another and getattr(self, field.name) != field.default:
                raise InputError(f"--{field.name}: expected another --layout, found {layout}")
        return kind(**{name: getattr(self, name) for name in known if hasattr(self, name)})

    @abc.abstractmethod
    def sources(self) -> dict[str, Any]:
        """The folder of the files and the splits that are built of them."""

    def run(self) -> Any:
        """Writes the build and prints what is in it; returns its folder."""
        from hardem_jax.data.builders.base import SolutionBuilder, quiet
        from hardem_jax.data.built import open_build

        quiet()
        builder = SolutionBuilder(
            self.data_set(),
            data_dir=self.out,
            shard_size=self.shard_size,
            processes=self.processes,
            progress=functools.partial(counted, label=f"shards of {self.shard_size} questions"),
            **self.sources(),
        )
        config = None
        if self.beam is not None:
            from hardem_jax.data.builders.beam import beam_config

            config = beam_config(self.beam)
        with contextlib.redirect_stdout(io.StringIO()):  # TFDS greets
            builder.download_and_prepare(download_config=config)
        build = open_build(builder.data_dir)
        for split in builder.splits:
            meta = build.meta["splits"][split]
            print(f"{split}:")
            for name, count in meta["counts"]:
                print(f"{count:>9}  {name}")
            print(sizes(meta["solutions per question"]))
            print("\n".join(meta["report"]))
        print(build.folder)
        return build.folder


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildCommand(WriteBuild):
    """Read the official files, find Z of every question and write both to a TFDS data set.

    Attributes:
        folder: the official files.
        splits: splits to build; by default those whose files are present.
    """

    folder: Path
    splits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        require_different(self, "splits")
        self.data_set()  # refuses what it does not take

    def sources(self) -> dict[str, Any]:
        return {"folder": self.folder, "splits": self.splits}


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildFiles(WriteBuild):
    """Find Z of your own questions, a row each, and write both to a TFDS data set.

    Attributes:
        train: questions to train on: CSV, JSON lines or a list.
        dev: questions to evaluate on.
        test: more of them.
    """

    train: Path | None = None
    dev: Path | None = None
    test: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.data_set().files:
            raise InputError("--train, --dev, --test: expected a file of questions, found none")

    def data_set(self) -> DataSet:
        files = {"train": self.train, "dev": self.dev, "test": self.test}
        return super().data_set().with_files({name: x for name, x in files.items() if x})

    def sources(self) -> dict[str, Any]:
        return {"folder": Path(), "splits": tuple(self.data_set().files)}

    @classmethod
    def of_files(
        cls, files: Mapping[str, Path], out: Path, encoder: str, **flags: Any
    ) -> tuple[dict[str, Any], int]:
        """Builds these files; fields of ``train`` with the data, and the questions in training."""
        del encoder
        from hardem_jax.data.built import open_build

        folder = cls(out=out, **files, **flags).run()
        counts = dict(open_build(folder).meta["splits"]["train"]["counts"])
        return {"data": folder, "dev": folder}, counts["questions with a solution"]


def prepare(base: type[WriteBuild], layouts: Mapping[str, type[DataSet]] | None = None) -> Any:
    """The command ``prepare`` of a data set, or, with ``layouts``, of a task: the fields of every
    layout are flags as well."""
    layouts = layouts or base.LAYOUTS
    kinds, options = dict.fromkeys(layouts.values()), {"defaults": {}, "LAYOUTS": layouts}
    return with_flags_of(*kinds, name="Prepare", base=base, without=("layout",), **options)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainOnBuild(TrainCommand):
    """Train a model, or continue the run in ``out`` where it stopped.

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

    def task(self, data: Any, dev: Any) -> Any:
        return task_type(self.TASK)(self.inference, data.rules)

    def open_data(self) -> Any:
        drawn = self.loop.seed if self.first == "drawn" else None
        return task_type(self.TASK).QUESTIONS.open(self.data, self.data_split, drawn=drawn)

    def open_dev(self, count: int | None) -> Any:
        return task_type(self.TASK).QUESTIONS.open(self.dev, self.dev_split).first(count)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOnBuild(EvaluateCommand):
    """Score a trained model with the official metric.

    Attributes:
        data: folder of the build.
        split: split of the build to score.
        official: write the answers here, in the layout that the official evaluator reads.
    """

    split: str = may_change("identified by contents", default="dev")
    official: Path | None = written()

    @abc.abstractmethod
    def official_text(self, data: Any, answers: Any) -> str:
        """Content of the file for the official evaluator."""

    def report(self, data: Any, answers: Any, scores: Mapping[str, float]) -> None:
        super().report(data, answers, scores)
        if self.official is not None:
            write_text(self.official, self.official_text(data, answers))

    def open(self) -> Any:
        return task_type(self.TASK).QUESTIONS.open(self.data, self.split)

    def split_and_digest(self) -> tuple[str, str]:
        from hardem_jax.data.built import open_build

        build = open_build(self.data)
        build.check_split(self.split)
        return self.split, build.meta["splits"][self.split]["content"]
