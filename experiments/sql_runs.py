"""What the commands of `experiments.sql_qa` do: data, model and scores of a run of a parser."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jax.sharding import Mesh

from experiments.compare import ShownAnswer
from experiments.devices import placing
from experiments.runs import Scored, TaskRun
from experiments.sql_model import Parser
from experiments.trained_parser import TrainedParser, annotated_queries, official_fields, shown
from hardem_jax.analysis.query_differences import RightAnswer, differences_page
from hardem_jax.data.batching.padding import Chosen
from hardem_jax.data.files import json_text, write_text
from hardem_jax.data.inputs.sqlova import QueryInputs
from hardem_jax.data.prepared.queries import PreparedQueries, QueryQuestion
from hardem_jax.errors import InputError
from hardem_jax.objectives import Objective
from hardem_jax.solutions.sql.enumeration import Query, Table
from hardem_jax.tasks.sql_qa import (
    GOLD_METRIC_NAMES,
    METRIC_NAMES,
    QueryAnswer,
    SqlQA,
    evaluate,
    is_answer,
    make_loss,
)
from hardem_jax.training.devices.distributed import is_primary

if TYPE_CHECKING:
    from experiments.sql_qa import Compare, Evaluate, SqlSetting


def start(setting: SqlSetting, objective: Objective, mesh: Mesh) -> TaskRun:
    """See `Setting.start`."""
    split, dev = PreparedQueries(setting.data), PreparedQueries(setting.dev)
    parser = Parser.start(setting.model, seed=setting.loop.seed)
    if not len(split.questions):
        raise InputError(f"{setting.data}: expected questions with a solution, found none")
    inputs = parser.inputs(split.questions, split.tables)
    dev_questions = list(dev.questions)[: setting.dev_questions]
    if not dev_questions:
        raise InputError(f"{setting.dev}: expected questions to evaluate on, found none")
    dev_inputs = parser.inputs(dev_questions, dev.tables)
    usable = np.flatnonzero(inputs.sizes[:, 1])
    sizes = inputs.sizes[usable]
    training = setting.training_data(
        Chosen(inputs, usable),
        sizes,
        parser.pad(inputs, setting.batches.num_solutions(sizes)),
        mesh,
    )
    task = SqlQA(
        parser.graphdef,
        setting.inference_on(mesh),
        batches=setting.batches,
        pad=parser.pad(dev_inputs, setting.batches.num_solutions(dev_inputs.sizes)),
        max_conditions=dev.rules.max_conditions,
        semantics=dev.rules.semantics,
        place=placing(mesh),
    )
    golds = (
        None
        if setting.gold is None
        else annotated_queries(setting.gold, setting.gold_split, dev_questions)
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
            left_out=dev.left_out if setting.dev_questions is None else (),
        )[0]

    def save(run_dir: Path) -> dict[str, Any]:
        return {"parser": parser.save(run_dir), "rules": dev.meta["rules"]}

    return TaskRun(
        loss_fn=make_loss(parser.graphdef, objective, conditions=setting.conditions),
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


def shown_answers(command: Compare, run_dir: Path, count: int) -> list[ShownAnswer]:
    """See `CompareCommand.answers`."""
    split = PreparedQueries(command.dev)
    questions = list(split.questions)[:count]
    trained = TrainedParser(run_dir, "last")
    _, answers = trained.evaluate(questions, split.tables, command.inference.batch_size)
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


def score(command: Evaluate, mesh: Mesh) -> Scored:
    """See `EvaluateCommand.score`."""
    if command.differences is not None and command.gold is None:
        raise InputError("--differences: expected annotated queries (--gold), found none")
    split = PreparedQueries(command.data)
    questions = list(split.questions)
    if not questions:
        raise InputError(f"{command.data}: expected questions, found none")
    trained = TrainedParser(command.run_dir, command.checkpoint, mesh)
    golds = (
        None
        if command.gold is None
        else annotated_queries(command.gold, command.gold_split, questions)
    )
    scores, answers = trained.evaluate(
        questions,
        split.tables,
        command.batch_size,
        decoding=command.decoding,
        golds=golds,
        left_out=split.left_out,
        progress=command.progress(len(questions), "questions"),
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
    if command.differences is not None and golds is not None and is_primary():
        rights = _right_answers(questions, split.tables, answers, golds)
        write_text(command.differences, differences_page(rights))
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
