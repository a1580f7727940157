"""A trained parser found again in the folder of its run, and how queries and results are shown."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from jax.sharding import Mesh

from experiments.devices import on_mesh, placing, whole_rows
from experiments.model_configs import SQLovaConfig
from experiments.runs import RunConfig
from experiments.sql_model import Parser
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.inputs.sqlova import QueryInputs
from hardem_jax.data.prepared.queries import QueryQuestion
from hardem_jax.data.readers.wikisql import read_wikisql
from hardem_jax.errors import InputError
from hardem_jax.solutions.sql.enumeration import Cell, Query, SqlRules, Table
from hardem_jax.tasks.shared import Progress
from hardem_jax.tasks.sql_qa import InferenceConfig, QueryAnswer, SqlQA, evaluate
from hardem_jax.training.checkpoint import load_params


class TrainedParser:
    """What a run folder holds, ready to answer.

    Args:
        run_dir: the folder.
        checkpoint: "best" or "last".
        mesh: devices to compute on; None for the first.

    Attributes:
        params: of the chosen checkpoint.

    Raises:
        InputError: if the folder holds no such run.
    """

    def __init__(self, run_dir: Path, checkpoint: str, mesh: Mesh | None = None):
        config = RunConfig(run_dir, "parser")
        model = config.flags("model", SQLovaConfig)
        self._inference = config.flags("inference", InferenceConfig)
        self._batches = config.flags("batches", BatchConfig)
        self._rules = config.section("rules", SqlRules)
        self._parser = Parser.restore(model, run_dir, config)
        self._mesh = mesh
        self.params = load_params(run_dir / checkpoint, on_mesh(self._parser.params, mesh))

    def ready(
        self,
        questions: Sequence[QueryQuestion],
        tables: Mapping[str, Table],
        batch_size: int,
        **inference: Any,
    ) -> tuple[SqlQA, QueryInputs]:
        """The task and the inputs for these questions."""
        inputs = self._parser.inputs(questions, tables)
        task = SqlQA(
            self._parser.graphdef,
            dataclasses.replace(
                self._inference, batch_size=whole_rows(batch_size, self._mesh), **inference
            ),
            batches=self._batches,
            pad=self._parser.pad(inputs, self._batches.num_solutions(inputs.sizes)),
            max_conditions=self._rules.max_conditions,
            semantics=self._rules.semantics,
            place=placing(self._mesh),
        )
        return task, inputs

    def evaluate(
        self,
        questions: Sequence[QueryQuestion],
        tables: Mapping[str, Table],
        batch_size: int,
        *,
        decoding: str | None = None,
        golds: Mapping[str, Query] | None = None,
        left_out: Collection[str] = (),
        progress: Progress = iter,
    ) -> tuple[dict[str, float], list[QueryAnswer | None]]:
        """See `hardem_jax.tasks.sql_qa.evaluate`."""
        changes = {} if decoding is None else {"decoding": decoding}
        task, inputs = self.ready(questions, tables, batch_size, **changes)
        sizes = inputs.sizes
        return evaluate(
            task,
            self.params,
            questions,
            tables,
            inputs,
            sizes,
            golds=golds,
            left_out=left_out,
            progress=progress,
        )


def annotated_queries(
    folder: Path, split: str, questions: Sequence[QueryQuestion]
) -> dict[str, Query]:
    """The official files' annotated queries by question id; for measuring.

    Args:
        folder: of the official files.
        split: name of the split there.
        questions: what they are needed for.

    Raises:
        InputError: the split holds other questions: none of these, or another one under an id.
    """
    examples = read_wikisql(folder, split, skips=ExclusionCounts())
    annotated = {example.id: example for example in examples if example.query is not None}
    ids = [question.id for question in questions]
    for question in questions:
        example = annotated.get(question.id)
        if example is not None and example.question != question.question:
            raise InputError(
                f"{folder}, split {split}: expected {question.question!r} as question "
                f"{question.id}, found {example.question!r}"
            )
    if ids and annotated.keys().isdisjoint(ids):
        raise InputError(
            f"{folder}, split {split}: expected queries of questions such as {ids[0]}, found "
            f"{f'those of {next(iter(annotated))} and others' if annotated else 'none'}"
        )
    return {id: example.query for id, example in annotated.items() if example.query is not None}


def shown(result: Sequence[Cell]) -> str:
    """A result for people: cells in one line, long lists cut."""
    cells = ["-" if cell is None else _cell_text(cell) for cell in result]
    if not cells:
        return "(no row)"
    return ", ".join(cells[:10]) + (f" and {len(cells) - 10} more" if len(cells) > 10 else "")


def _cell_text(cell: str | float | int) -> str:
    """All digits of a number, without those that say nothing."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e16:
        return f"{cell:.0f}"
    return str(cell)


def official_fields(query: Query) -> dict[str, Any]:
    """A query as the official evaluator reads it."""
    conditions = [[c.column, c.operator, c.value] for c in query.conditions]
    return {"sel": query.select, "agg": query.aggregator, "conds": conditions}
