"""Semantic parsing (Min et al., 2019, section 4.3): from batches to answers.

question and table -> batch -> SQLova -> P(z | x) over queries -> log P(z) of all of Z -> objective
at test:  batch -> SQLova -> the likeliest query of Z_tot -> its result on the table
"""

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from flax import nnx

from hardem_jax.data.batching.padding import Batch, BatchConfig, Pad
from hardem_jax.data.prepared.queries import QueryQuestion, gold_in_solutions
from hardem_jax.distributions.sql import QueryDistribution
from hardem_jax.metrics.wikisql import (
    execution_match,
    logical_form_match,
)
from hardem_jax.metrics.wikitablequestions import Denotation
from hardem_jax.solutions.sql.enumeration import (
    Cell,
    ExecutionError,
    Query,
    Semantics,
    Table,
    execute_sql,
)
from hardem_jax.tasks.shared import (
    SPARSITY_THRESHOLDS,
    Progress,
    make_loss,
    names_by_size,
    percentages,
    read_rows,
    size_group,
)
from hardem_jax.tasks.sql_config import InferenceConfig

__all__ = ["InferenceConfig", "QueryReading", "SqlQA", "evaluate", "make_loss"]

Array = jax.Array
#: Groups of |Z|, see `tasks.shared.size_group`.
SIZE_BOUNDS = (0, 1, 2, 4, 8, 16, 64, 256)
#: Ranks at which the annotated query is looked for in Z.
HITS = (1, 3, 5)
#: All scores that `evaluate` can return, without and with annotated queries.
METRIC_NAMES = frozenset(
    [
        *("accuracy", "non-empty accuracy", "in Z", *names_by_size("accuracy", SIZE_BOUNDS)),
        *(f"P<{threshold:g}" for threshold in SPARSITY_THRESHOLDS),
    ]
)
GOLD_METRIC_NAMES = frozenset(
    ["logical form", "annotated if right", "gold in Z", *(f"hit@{limit}" for limit in HITS)]
)


@dataclasses.dataclass(frozen=True)
class QueryReading:
    """What the model says about one question.

    Attributes:
        queries: ``[K, 15]`` int32, the likeliest of all well-formed queries, best first.
        log_probs: ``[K]`` float32, their log P(z | x).
        greedy: ``[15]`` int32, what SQLova's decoding gives.
        solutions: ``[Z]`` float32, log P(z | x) of Z, in its order.
    """

    queries: np.ndarray
    log_probs: np.ndarray
    greedy: np.ndarray
    solutions: np.ndarray


@dataclasses.dataclass(frozen=True)
class QueryAnswer:
    """A query and what it executes to; None if it cannot be executed."""

    query: Query
    result: list[Cell] | None


class SqlQA:
    """A parser ready to answer: compiled once per bucket, for any parameters of its shape.

    Args:
        graphdef: of a model whose call gives a `QueryDistribution`.
        config: how answers are read off.
        batches: buckets to pad to; its batch size is not used.
        pad: makes batches of the model's inputs.
        max_conditions: of the queries that are looked for.
        semantics: of the engine that executes them.
        place: puts a batch of numpy arrays on the devices.
    """

    def __init__(
        self,
        graphdef: nnx.GraphDef,
        config: InferenceConfig,
        *,
        batches: BatchConfig,
        pad: Pad,
        max_conditions: int,
        semantics: Semantics = "official",
        place: Callable[[Batch], Mapping[str, Array]] = lambda batch: batch,
    ):
        self.config = config
        self.semantics: Semantics = semantics

        @jax.jit
        def read(params: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
            found: QueryDistribution = nnx.merge(graphdef, params)(batch)
            queries, log_probs = found.top(config.top, max_conditions=max_conditions)
            return {
                "queries": queries,
                "log_probs": log_probs,
                "greedy": found.greedy(),
                "solutions": found.log_prob(batch["solutions"]),
            }

        self._rows = functools.partial(
            read_rows,
            read,
            batches=dataclasses.replace(batches, batch_size=config.batch_size),
            pad=pad,
            place=place,
        )

    def read(
        self, params: Any, inputs: Sequence, sizes: np.ndarray
    ) -> Iterator[tuple[int, QueryReading]]:
        """Yields ``(index, QueryReading)`` for every input, grouped by length.

        Args:
            params: of the model.
            inputs: what ``pad`` takes, by index.
            sizes: ``[N, 2]`` int, tokens and solutions of each.
        """
        for index, out, entries in self._rows(params, inputs, sizes):
            possible = np.isfinite(out["log_probs"])
            yield (
                index,
                QueryReading(
                    queries=out["queries"][possible],
                    log_probs=out["log_probs"][possible],
                    greedy=out["greedy"],
                    solutions=out["solutions"][entries["solutions_where"]],
                ),
            )

    def answers(
        self, question: QueryQuestion, table: Table, reading: QueryReading
    ) -> Iterator[QueryAnswer]:
        """The queries of a reading with their results, best first, executed as they are asked for.

        With greedy decoding there is one.
        """
        rows = reading.greedy[None] if self.config.decoding == "greedy" else reading.queries
        for row in rows:
            query = Query.from_row(row, question.question, question.words)
            try:
                result = execute_sql(table, query, semantics=self.semantics)
            except ExecutionError:
                result = None
            yield QueryAnswer(query, result)

    def written(self, table: Table, answer: QueryAnswer) -> list[Cell]:
        """The result of an answer with cells as the table holds them, to show it to people.

        Raises:
            ExecutionError: the answer's query cannot be executed; its result is None.
        """
        return execute_sql(table, answer.query, semantics=self.semantics, as_written=True)

    def answer(
        self, question: QueryQuestion, table: Table, reading: QueryReading
    ) -> QueryAnswer | None:
        """The answer to a question; None if the table has no columns to select."""
        answers = self.answers(question, table, reading)
        first = next(answers, None)
        if self.config.decoding != "execution-guided" or first is None:
            return first
        if _is_something(first):
            return first
        return next(filter(_is_something, answers), first)


def evaluate(
    task: SqlQA,
    params: Any,
    questions: Sequence[QueryQuestion],
    tables: Mapping[str, Table],
    inputs: Sequence,
    sizes: np.ndarray,
    *,
    golds: Mapping[str, Query] | None = None,
    left_out: Collection[str] = (),
    progress: Progress = iter,
) -> tuple[dict[str, float], list[QueryAnswer | None]]:
    """Scores of a split, and the answer to each question, in order.

    Args:
        task: a model and how to read it.
        params: of the model.
        questions: with their answers.
        tables: by id.
        inputs: of the model, one for each question.
        sizes: ``[N, 2]`` int, tokens and solutions of each.
        golds: annotated query by question id, to measure with; None if there are none.
        left_out: ids of questions of the data set that are not in ``questions``; they are wrong.
        progress: wraps the iterator over questions.

    Returns:
        In percent of all questions, those left out counting 0: ``accuracy``, questions whose
        result is the answer, by the official metric of their data set; ``non-empty accuracy``, the
        same where the result is not empty; with ``golds``, ``logical form``, of all questions that
        have one. In percent of the questions read: ``accuracy |Z|=...`` by size of Z; ``in Z``,
        questions with a Z where the most likely query is in it; ``P<0.001`` and ``P<0.0001``,
        queries of all Z with less probability (the paper's sparsity). With ``golds`` also
        ``annotated if right``, right answers whose query is the annotated one; ``gold in Z``; and
        ``hit@1`` to ``hit@5``, questions with the annotated query in Z where it ranks that high.
    """
    answers: list[QueryAnswer | None] = [None] * len(questions)
    groups = defaultdict(list)
    for name in ("accuracy", "non-empty accuracy"):
        groups[name] += [False] * len(left_out)
    groups["logical form"] += [False] * len(set(left_out) & set(golds or ()))
    for index, reading in progress(task.read(params, inputs, sizes)):
        question = questions[index]
        answer = answers[index] = task.answer(question, tables[question.table_id], reading)
        right = answer is not None and is_answer(question, answer.result)
        groups["accuracy"].append(right)
        groups[f"accuracy |Z|={size_group(question.num_queries, SIZE_BOUNDS)}"].append(right)
        groups["non-empty accuracy"].append(right and answer is not None and bool(answer.result))
        if len(question.queries):
            likeliest = reading.queries[:1]
            groups["in Z"].append((question.queries == likeliest).all(axis=1).any())
        for threshold in SPARSITY_THRESHOLDS:
            groups[f"P<{threshold:g}"].extend(reading.solutions < np.log(threshold))
        gold = None if golds is None else golds.get(question.id)
        if gold is not None:
            _compare_with_gold(groups, question, reading, answer, gold, right)
    return percentages(groups, measure="accuracy", bounds=SIZE_BOUNDS), answers


def is_answer(question: QueryQuestion, result: Sequence[Cell] | None) -> bool:
    """Whether a result is the answer, by the official metric of the question's data set."""
    if question.match == "execution":
        return execution_match(result, list(question.answer))
    texts = [cell for cell in question.answer if isinstance(cell, str)]
    return result is not None and Denotation(texts, question.values).matches(result)


def _compare_with_gold(groups, question, reading, answer, gold: Query, right: bool) -> None:
    same = answer is not None and logical_form_match(answer.query, gold)
    groups["logical form"].append(same)
    if right:
        groups["annotated if right"].append(same)
    place = gold_in_solutions(question, gold)
    groups["gold in Z"].append(place >= 0)
    # Z of the input may lack queries about what was cut off; ranks are told where it is whole.
    if place >= 0 and len(reading.solutions) == len(question.queries):
        rank = int(np.sum(reading.solutions > reading.solutions[place]))
        for limit in HITS:
            groups[f"hit@{limit}"].append(rank < limit)


def _is_something(answer: QueryAnswer) -> bool:
    return bool(answer.result) and answer.result != [None]
