"""Train, evaluate and predict for semantic parsing; `experiments.wikisql` adds the rest.

What all tasks share is in `experiments.runs`.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jax.sharding import Mesh
from rich.console import Console

from experiments.compare import CompareCommand, ShownAnswer
from experiments.devices import placing
from experiments.runs import EvaluateCommand, Scored, Setting, TaskRun, TrainCommand
from experiments.sql_model import SQLovaConfig
from experiments.trained_parser import TrainedParser, annotated_queries, official_fields, shown
from hardem_jax.analysis.query_differences import RightAnswer, differences_page
from hardem_jax.analysis.release_2019 import ReleasedMML
from hardem_jax.data.batches import BatchConfig, Chosen
from hardem_jax.data.queries import PreparedQueries, QueryQuestion, query_question
from hardem_jax.data.query_inputs import QueryInputs
from hardem_jax.data.records import json_text, write_text
from hardem_jax.data.table_file import read_csv_table
from hardem_jax.data.table_questions import TableQuestion
from hardem_jax.errors import InputError, printable, require
from hardem_jax.objectives import MML, FirstOnly, HardEM, Objective
from hardem_jax.solutions.sql import Query, SqlRules, Table
from hardem_jax.tasks.sql_qa import (
    GOLD_METRIC_NAMES,
    METRIC_NAMES,
    InferenceConfig,
    QueryAnswer,
    SqlQA,
    evaluate,
    is_answer,
    make_loss,
)
from hardem_jax.training.fingerprint import may_change
from hardem_jax.training.loop import LoopConfig
from hardem_jax.training.optimizer import OptimizerConfig
from hardem_jax.training.processes import is_primary

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
        split, dev = PreparedQueries(self.data), PreparedQueries(self.dev)
        parser = self.model.start(seed=self.loop.seed)
        if not len(split.questions):
            raise InputError(f"{self.data}: expected questions with a solution, found none")
        inputs = parser.inputs(split.questions, split.tables)
        dev_questions = list(dev.questions)[: self.dev_questions]
        if not dev_questions:
            raise InputError(f"{self.dev}: expected questions to evaluate on, found none")
        dev_inputs = parser.inputs(dev_questions, dev.tables)
        usable = np.flatnonzero(inputs.sizes[:, 1])
        sizes = inputs.sizes[usable]
        training = self.training_data(
            Chosen(inputs, usable),
            sizes,
            parser.pad(inputs, self.batches.num_solutions(sizes)),
            mesh,
        )
        task = SqlQA(
            parser.graphdef,
            self.inference_on(mesh),
            batches=self.batches,
            pad=parser.pad(dev_inputs, self.batches.num_solutions(dev_inputs.sizes)),
            max_conditions=dev.rules.max_conditions,
            semantics=dev.rules.semantics,
            place=placing(mesh),
        )
        golds = (
            None
            if self.gold is None
            else annotated_queries(self.gold, self.gold_split, dev_questions)
        )

        def score(params: Any) -> dict[str, float]:
            sizes = dev_inputs.sizes
            return evaluate(
                task,
                params,
                dev_questions,
                dev.tables,
                dev_inputs,
                sizes,
                golds=golds,
                left_out=dev.left_out if self.dev_questions is None else (),
            )[0]

        def save(run_dir: Path) -> dict[str, Any]:
            return {"parser": parser.save(run_dir), "rules": dev.meta["rules"]}

        return TaskRun(
            loss_fn=make_loss(parser.graphdef, objective, conditions=self.conditions),
            params=parser.params,
            training=training,
            evaluate=score,
            metric_names=METRIC_NAMES if golds is None else {*METRIC_NAMES, *GOLD_METRIC_NAMES},
            data={
                "data": json.dumps(split.meta, sort_keys=True),
                "dev": json.dumps(dev.meta, sort_keys=True),
            },
            about=(
                f"{len(usable)} questions ({inputs.lost} more whose queries were all cut"
                f"{_cuts(inputs)}); {training.plan.steps_per_epoch} steps per epoch; "
                f"{len(dev_questions)} questions to evaluate on{_cuts(dev_inputs)}"
            ),
            save=save,
        )


def _cuts(inputs: QueryInputs) -> str:
    """How many questions do not fit an input as they are; nothing if all do."""
    counts = {
        "column names shortened": inputs.cut_headers,
        "question cut": inputs.cut_questions,
        "columns left out": inputs.cut_columns,
    }
    return "".join(f", {count} with {what}" for what, count in counts.items() if count)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(SqlSetting, TrainCommand):
    """Train a parser, or continue the run in ``out`` where it stopped.

    Attributes:
        objective: which queries are trusted.
    """

    objective: HardEM | MML | FirstOnly | ReleasedMML = HardEM()


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
        split = PreparedQueries(self.dev)
        questions = list(split.questions)[:count]
        trained = TrainedParser(run_dir, "last")
        _, answers = trained.evaluate(questions, split.tables, self.inference.batch_size)
        return [
            ShownAnswer(
                question=question.question,
                gold=shown(question.answer),
                answer=""
                if answer is None
                else answer.query.text(split.tables[question.table_id].header),
                right=answer is not None and is_answer(question, answer.result),
            )
            for question, answer in zip(questions, answers, strict=True)
        ]


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
        if self.differences is not None and self.gold is None:
            raise InputError("--differences: expected annotated queries (--gold), found none")
        split = PreparedQueries(self.data)
        questions = list(split.questions)
        if not questions:
            raise InputError(f"{self.data}: expected questions, found none")
        trained = TrainedParser(self.run_dir, self.checkpoint, mesh)
        golds = (
            None if self.gold is None else annotated_queries(self.gold, self.gold_split, questions)
        )
        scores, answers = trained.evaluate(
            questions,
            split.tables,
            self.batch_size,
            decoding=self.decoding,
            golds=golds,
            left_out=split.left_out,
            progress=self.progress(len(questions), "questions"),
        )
        rows = [
            {
                "id": question.id,
                "question": question.question,
                "sql": None if answer is None else official_fields(answer.query),
                "result": None if answer is None else answer.result,
            }
            for question, answer in zip(questions, answers, strict=True)
        ]
        if self.differences is not None and golds is not None and is_primary():
            rights = _right_answers(questions, split.tables, answers, golds)
            write_text(self.differences, differences_page(rights))
        return Scored(len(questions), split.left_out, scores, json_text(rows))


def _right_answers(
    questions: Sequence[QueryQuestion],
    tables: Mapping[str, Table],
    answers: Sequence[QueryAnswer | None],
    golds: Mapping[str, Query],
) -> Iterator[RightAnswer]:
    for question, answer in zip(questions, answers, strict=True):
        gold = golds.get(question.id)
        if gold is not None and answer is not None and is_answer(question, answer.result):
            header = tables[question.table_id].header
            result = shown(question.answer)
            yield RightAnswer(question.question, header, answer.query, gold, result)


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
