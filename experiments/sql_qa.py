"""The commands of semantic parsing; `experiments.wikisql` adds the rest.

What all tasks share is in `experiments.runs`.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from rich.console import Console

from experiments.compare import CompareCommand, ShownAnswer
from experiments.model_configs import SQLovaConfig
from experiments.runs import EvaluateCommand, Scored, Setting, TaskRun, TrainCommand
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.examples import TableQuestion
from hardem_jax.data.prepared.queries import query_question
from hardem_jax.data.readers.csv_tables import read_csv_table
from hardem_jax.errors import InputError, printable, require
from hardem_jax.objectives import AnyObjective, HardEM, Objective
from hardem_jax.solutions.sql.enumeration import SqlRules
from hardem_jax.tasks.sql_config import InferenceConfig
from hardem_jax.training.config import LoopConfig, OptimizerConfig
from hardem_jax.training.fingerprint import may_change

if TYPE_CHECKING:
    from jax.sharding import Mesh

# What the commands do is imported when they do it, so that jax does not delay their help.

#: Adam as SQLova has it: 1e-3, and 1e-5 for the encoder; no decay, no warmup, no clipping.
OPTIMIZER = OptimizerConfig(
    learning_rate=1e-3,
    warmup_fraction=0.0,
    weight_decay=0.0,
    clip_norm=None,
    eps=1e-8,
    rate_multipliers=(("encoder", 0.01),),
    schedule="constant",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SqlSetting(Setting):
    """Everything about a run of a parser but its objective.

    Attributes:
        data: prepared training split.
        dev: prepared split to evaluate on.
        gold: folder with the official files of ``gold_split``, whose annotated queries are
            measured with and never trained on; None for none.
        gold_split: official name of the split in ``dev``.
        conditions: "sum" over the conditions of a query, which makes a probability, or
            their "mean" as in the released code.
    """

    data: Path = may_change("identified by contents")
    dev: Path = may_change("identified by contents")
    gold: Path | None = None
    gold_split: str = "dev"
    conditions: Literal["sum", "mean"] = "sum"
    model: SQLovaConfig = SQLovaConfig()
    optimizer: OptimizerConfig = OPTIMIZER
    batches: BatchConfig = BatchConfig(batch_size=10, buckets=(64, 96, 128, 180), negatives=0)
    loop: LoopConfig = LoopConfig(num_steps=20_000, monitor="accuracy")
    inference: InferenceConfig = InferenceConfig()

    def start(self, objective: Objective, mesh: Mesh) -> TaskRun:
        from experiments import sql_runs

        return sql_runs.start(self, objective, mesh)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(SqlSetting, TrainCommand):
    """Train a parser, or continue the run in ``out`` where it stopped.

    Attributes:
        objective: which queries are trusted.
    """

    objective: AnyObjective = HardEM()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compare(SqlSetting, CompareCommand):
    """Train First-only, MML and hard EM, and tabulate them."""

    TRAIN = Train
    CURVES = {
        "loss": "training loss over Z",
        "accuracy": "accuracy (%)",
        "hit@1": "hit@1 of the annotated query in Z (%)",
        "hit@5": "hit@5 of the annotated query in Z (%)",
    }

    loop: LoopConfig = LoopConfig(num_steps=20_000, monitor="accuracy", patience=None)

    def answers(self, run_dir: Path, count: int) -> list[ShownAnswer]:
        from experiments import sql_runs

        return sql_runs.shown_answers(self, run_dir, count)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(EvaluateCommand):
    """Score a trained parser with the official metric.

    Attributes:
        predictions: write queries and results here, as one JSON list in the order of the questions.
        gold: folder with the official files, for the scores that need annotated queries.
        gold_split: official name of the split.
        decoding: another way to read answers off than that of the run.
        differences: write a page about right answers by queries that are not the annotated ones
            here, in Markdown; needs ``gold``.
    """

    predictions: Path | None = None
    gold: Path | None = None
    gold_split: str = "dev"
    differences: Path | None = None
    decoding: Literal["query", "execution-guided", "greedy"] | None = None

    IMMATERIAL = EvaluateCommand.IMMATERIAL | {"differences"}

    def outputs(self) -> tuple[Path, ...]:
        page = () if self.differences is None else (self.differences,)
        return (*super().outputs(), *page)

    def score(self, mesh: Mesh) -> Scored:
        from experiments import sql_runs

        return sql_runs.score(self, mesh)


@dataclasses.dataclass(frozen=True)
class Predict:
    """Ask a trained parser a question about a table of your own.

    Attributes:
        run_dir: folder of the run.
        table: CSV file with a header.
        question: the question.
        checkpoint: "best" or "last".
        top: queries to print.
    """

    run_dir: Path
    table: Path
    question: str
    checkpoint: Literal["best", "last"] = "best"
    top: int = 5

    def __post_init__(self) -> None:
        require(self, "top", at_least=1)

    def run(self) -> None:
        from experiments.trained_parser import TrainedParser, shown

        if not self.question.strip():
            raise InputError("--question: expected a question, found nothing but blanks")
        table = read_csv_table(self.table)
        if not table.header:
            raise InputError(f"{self.table}: expected columns to select from, found none")
        trained = TrainedParser(self.run_dir, self.checkpoint)
        asked = TableQuestion("question", self.question, table, ())
        # Z is not needed: no query is compared with an answer.
        question = query_question(asked, SqlRules(max_conditions=0))
        task, inputs = trained.ready([question], {table.id: table}, batch_size=1, top=self.top)
        if inputs.cut_columns:
            print(f"note: only the first {len(inputs[0].headers)} columns were read")
        if inputs.cut_questions:
            print(f"note: only the first {inputs[0].num_question_tokens} wordpieces were read")
        [(_, reading)] = task.read(trained.params, inputs, inputs.sizes)
        console = Console(highlight=False, soft_wrap=True, emoji=False)
        answers = task.answers(question, table, reading)
        for rank, (answer, log_prob) in enumerate(zip(answers, reading.log_probs, strict=False)):
            result = "no result" if answer.result is None else shown(task.written(table, answer))
            line = f"{np.exp(log_prob):6.1%}  {printable(answer.query.text(table.header))}"
            console.print(line, style="bold" if rank == 0 else None, markup=False)
            console.print(f"        {printable(result)}", markup=False)
