"""Data sets with Z built once, on one machine or on many: ``python -m experiments.build --help``.

A build holds questions, documents and Z, in the shards of TFDS; no tokens, so that it serves every
encoder. With the folder of the official files, or without one where there is a lasting record of
the download's digest (TriviaQA, DROP, WikiSQL)::

    python -m experiments.build build --out built --folder drop data-set:drop-num
    python -m experiments.build build --out built --folder drop --beam direct_num_workers=8 \
        data-set:drop-num --data-set.rules.percent term
    python -m experiments.build show --folder built/hardem_drop_num --split train
    python -m experiments.build prepare --folder built/hardem_drop_num --out prepared/drop-train

What ``prepare`` writes is what ``prepare`` of the data set's own module writes of the same files,
and is trained on in the same way. Builds of other options or other files lie in folders of their
own; name the one that is meant.

``--beam`` takes the options of Apache Beam, without dashes, for Dataflow, Flink and Spark, too: see
`hardem_jax.data.builders.beam`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import subcommand

from hardem_jax.analysis import equation_text
from hardem_jax.cli import spans
from hardem_jax.cli.command import run_command
from hardem_jax.cli.preparing import print_summary, sizes
from hardem_jax.data import build_options
from hardem_jax.data.examples import ReadingExample
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.prepared.windows import WindowConfig
from hardem_jax.errors import printable, require
from hardem_jax.metrics.wikitablequestions import Denotation
from hardem_jax.solutions.equations.enumeration import EquationRules
from hardem_jax.solutions.spans import execute_span
from hardem_jax.solutions.sql.enumeration import Query

if TYPE_CHECKING:
    from hardem_jax.data import builders

# `hardem_jax.data.builders` brings in TFDS and jax, and is imported by what builds and reads.

DataSet = (
    Annotated[build_options.TriviaQAOptions, subcommand("triviaqa")]
    | Annotated[build_options.NarrativeQAOptions, subcommand("narrativeqa")]
    | Annotated[build_options.TriviaQAOpenOptions, subcommand("triviaqa-open")]
    | Annotated[build_options.NQOpenOptions, subcommand("nq-open")]
    | Annotated[build_options.DropNumOptions, subcommand("drop-num")]
    | Annotated[build_options.WikiSQLOptions, subcommand("wikisql")]
    | Annotated[build_options.WikiTableQuestionsOptions, subcommand("wikitablequestions")]
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildDataSet:
    """Read the official files, find Z of every question and write both to a TFDS data set.

    Attributes:
        data_set: which one, and its rules.
        out: folder of all builds; this one gets a folder below it, which is printed.
        folder: the official files; without it they are downloaded, where that is possible.
        splits: to build; by default those whose files are there.
        beam: options of Apache Beam, as ``name=value``; without the flag, this process builds.
        shard_size: questions of a shard, which is what a worker does at a time.
    """

    data_set: DataSet
    out: Path
    folder: Path | None = None
    splits: tuple[str, ...] = ()
    beam: tuple[str, ...] | None = None
    shard_size: int = 256

    def __post_init__(self) -> None:
        require(self, "shard_size", at_least=1)

    def run(self) -> None:
        from hardem_jax.data import builders

        builders.quiet()
        kind = type(self.data_set)
        more: dict[str, Any] = {}
        if kind is build_options.WikiTableQuestionsOptions:
            more["denotation"] = Denotation
        builder = builders.BUILDERS[kind](
            data_dir=self.out,
            folder=self.folder,
            options=self.data_set,
            splits=self.splits,
            shard_size=self.shard_size,
            **more,
        )
        config = None if self.beam is None else builders.beam_config(self.beam)
        builder.download_and_prepare(download_config=config)
        build = builders.open_build(builder.data_dir)
        for split, counts in build.meta["splits"].items():
            print(f"{counts['questions']:>9}  questions in {split}")
            print(f"{counts['questions with a solution']:>9}  of them with a solution")
            print(sizes(counts["solutions per question"]))
            for reason, count in (counts["excluded"] | counts["warnings"]).items():
                note = "left out: " if reason in counts["excluded"] else "kept: "
                print(f"{count:>9}  {note}{reason}")
        print(build.folder)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Show:
    """Print the first questions of a build with their Z.

    Attributes:
        folder: of the build, or one that holds no other.
        split: of the build.
        count: questions.
        solutions: of each, at most.
    """

    folder: Path
    split: str = "train"
    count: int = 5
    solutions: int = 10

    def __post_init__(self) -> None:
        require(self, "count", at_least=1)
        require(self, "solutions", at_least=0)

    def run(self) -> None:
        from hardem_jax.data import builders

        build = builders.open_build(self.folder)
        records = build.records(self.split)
        for index in range(min(self.count, len(records))):
            record = records[index]
            question, golds, shown, size = _described(build, record)
            print(printable(f"{record['id'].decode()}  {question}"))
            print(printable(f"    answer: {' | '.join(golds)}"))
            for line in shown[: self.solutions]:
                print(printable(f"    {line}"))
            if size > min(len(shown), self.solutions):
                print(f"    ... |Z| = {size}")
            elif not size:
                print("    Z is empty")


def _described(
    build: builders.Build, record: dict[str, Any]
) -> tuple[str, Sequence[str], list[str], int]:
    """Question, golds, Z as texts (perhaps cut) and |Z| of a record."""
    from hardem_jax.data import builders

    if build.kind == "reading":
        example = builders.to_reading_example(record)
        shown = list(_mentions(example))
        return example.question, example.golds, shown, len(shown)
    if build.kind == "numeric":
        numeric = builders.to_numeric_question(record)
        rules = EquationRules(**build.meta["options"]["rules"])
        shown = [equation_text.describe(row, numeric, rules) for row in numeric.equations]
        return numeric.question, [gold["number"] for gold in numeric.golds], shown, len(shown)
    query, table = builders.to_query_question(record), builders.to_table(record)
    shown = [
        Query.from_row(row, query.question, query.words).text(table.header) for row in query.queries
    ]
    return query.question, [str(cell) for cell in query.answer], shown, query.num_queries


def _mentions(example: ReadingExample) -> Iterator[str]:
    for document, start, end in example.mentions or ():
        text = example.documents[document].text
        found = execute_span(text, start, end)
        context = f"{text[max(0, start - 30) : start]}[{found}]{text[end : end + 30]}"
        yield f"{' '.join(context.split())}  ({example.documents[document].id}, {start}-{end})"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepare:
    """Make a prepared split of a build, to train on or to evaluate on.

    Attributes:
        folder: of the build, or one that holds no other.
        out: folder to write.
        split: of the build.
        keep_without_solution: keep questions whose Z is empty; None for all splits but "train".
        tokenizer: for reading, Hugging Face name or folder of the encoder's checkpoint.
        windows: for reading, sizes; ``max_windows`` is 16 by default, and None (all windows) is
            what the open data sets take.
        processes: for reading, that cut windows; the outcome is the same.
        force: replace the split that is in ``out``.
    """

    folder: Path
    out: Path
    split: str = "train"
    keep_without_solution: bool | None = None
    tokenizer: str = "bert-base-uncased"
    windows: WindowConfig = WindowConfig()
    processes: int = 1
    force: bool = False

    def run(self) -> None:
        from hardem_jax.data import builders
        from hardem_jax.data.builders.prepare import add_left_out, source_of

        build = builders.open_build(self.folder)
        keep = self.keep_without_solution
        keep = self.split != "train" if keep is None else keep
        exclusions = ExclusionCounts()
        if build.kind == "reading":
            examples = build.examples(self.split)
            add_left_out(build, self.split, exclusions)
            spans.prepare(
                iter(examples),
                self.out,
                tokenizer=self.tokenizer,
                windows=self.windows,
                metric=build.meta["metric"],
                sources=source_of(build, self.split),
                exclusions=exclusions,
                for_training=not keep,
                force=self.force,
                processes=self.processes,
            )
            return
        numeric = build.kind == "numeric"
        prepare = builders.prepare_numeric if numeric else builders.prepare_queries
        meta = prepare(
            build,
            self.split,
            self.out,
            exclusions=exclusions,
            keep_without_solution=keep,
            replace=self.force,
        )
        print_summary(meta, exclusions)


COMMANDS = {"build": BuildDataSet, "show": Show, "prepare": Prepare}

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.build")
