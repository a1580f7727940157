"""Questions on tables, from answers alone: ``python -m experiments.wikisql --help``.

WikiSQL (Zhong et al., 2017), from the official files. They hold queries and no answers, so
the first step executes each query once; everything after it works from questions, tables and
answers::

    python -m experiments.wikisql answers --folder data --name train --out train.answers.jsonl
    python -m experiments.wikisql answers --folder data --name dev --out dev.answers.jsonl
    python -m experiments.wikisql prepare --questions train.answers.jsonl --out prepared/train
    python -m experiments.wikisql prepare --questions dev.answers.jsonl --out prepared/dev \
        --split dev
    python -m experiments.wikisql train --data prepared/train --dev prepared/dev \
        --out runs/wikisql --model.encoder bert-base-uncased objective:hard-em
    python -m experiments.wikisql evaluate --run-dir runs/wikisql --data prepared/dev --gold data
    python -m experiments.wikisql predict --run-dir runs/wikisql --table mine.csv \
        --question "Who scored most?"

WikiTableQuestions (Pasupat and Liang, 2015) has no queries at all; ``answers`` with
``--layout wikitablequestions`` reads its files, ``--name random-split-1-train``.

``supervise`` makes a training split of the annotated queries: the upper bound to compare with.
"""

import dataclasses
from pathlib import Path
from typing import Literal

from hardem_jax.cli.command import run_command
from hardem_jax.cli.preparing import determined_by, print_summary, watched
from hardem_jax.cli.queries import Compare, Evaluate, Predict, Train
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.prepared.queries import PreparedQueries, prepare_queries, supervised_split
from hardem_jax.data.readers.table_jsonl import read_table_questions, write_table_questions
from hardem_jax.data.readers.wikisql import write_answers
from hardem_jax.data.readers.wikitablequestions import read_wikitablequestions
from hardem_jax.errors import require
from hardem_jax.metrics.wikitablequestions import Denotation
from hardem_jax.solutions.sql.enumeration import SqlRules


@dataclasses.dataclass(frozen=True)
class Answers:
    """Write questions, tables and answers of an official release into one file, without queries.

    Attributes:
        folder: of the official files.
        name: of the split there, such as "train" (WikiSQL) or "random-split-1-train".
        out: file to write.
        layout: "wikisql" executes each annotated query once; "wikitablequestions" has answers.
        tagged: of WikiTableQuestions, read the numbers and dates of the answers from the release's
            ``.tagged`` files, as its evaluator does.
    """

    folder: Path
    name: str
    out: Path
    layout: Literal["wikisql", "wikitablequestions"] = "wikisql"
    tagged: bool = False

    def run(self) -> None:
        skips = ExclusionCounts()
        if self.layout == "wikisql":
            count = write_answers(self.folder, self.name, self.out, skips=skips)
        else:
            questions = read_wikitablequestions(
                self.folder, self.name, skips=skips, tagged=self.tagged
            )
            count = write_table_questions(questions, self.out)
        print(f"{count:>9}  questions with an answer")
        print(skips)


@dataclasses.dataclass(frozen=True)
class Prepare:
    """Find every query that executes to the answer.

    Attributes:
        questions: file that ``answers`` wrote, or a person.
        out: folder to write.
        split: "train" leaves out questions that no query answers, "dev" keeps them.
        rules: what counts as a query.
        processes: that search at the same time; the outcome is the same.
        force: replace the split that is in ``out``.
    """

    questions: Path
    out: Path
    split: Literal["train", "dev"] = "train"
    rules: SqlRules = SqlRules(cap=4096)
    processes: int = 1
    force: bool = False

    def __post_init__(self) -> None:
        require(self, "processes", at_least=1)

    def run(self) -> None:
        exclusions = ExclusionCounts()
        meta = prepare_queries(
            watched(read_table_questions(self.questions, skips=exclusions)),
            self.out,
            rules=self.rules,
            sources=determined_by(self),
            exclusions=exclusions,
            keep_without_solution=self.split == "dev",
            processes=self.processes,
            denotation=Denotation,
            replace=self.force,
        )
        print_summary(meta, exclusions)
        print("(the paper, WikiSQL: mean 346.1, median 5)")


@dataclasses.dataclass(frozen=True)
class Supervise:
    """Replace Z of a prepared split by the annotated query: full supervision, to compare with.

    Attributes:
        data: prepared split.
        folder: of the official files.
        name: of the split there.
        out: folder to write.
        force: replace the split that is in ``out``.
    """

    data: Path
    folder: Path
    out: Path
    name: str = "train"
    force: bool = False

    def run(self) -> None:
        from hardem_jax.tasks.queries import annotated_queries  # imports jax

        exclusions = ExclusionCounts()
        questions = PreparedQueries(self.data).questions
        golds = annotated_queries(self.folder, self.name, questions)
        meta = supervised_split(
            self.data, golds, self.out, exclusions=exclusions, replace=self.force
        )
        print_summary(meta, exclusions)


COMMANDS = {
    "answers": Answers,
    "prepare": Prepare,
    "supervise": Supervise,
    "train": Train,
    "compare": Compare,
    "evaluate": Evaluate,
    "predict": Predict,
}

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.wikisql")
