"""Semantic parsing (Min et al., 2019, section 4.3): queries on a table.

question and table -> batch -> SQLova -> P(z | x) over queries -> log P(z) of all of Z -> objective
at test:  batch -> SQLova -> the most likely query of Z_tot -> its result on the table
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import jax
import numpy as np
from flax import nnx

from hardem_jax.data.batching.plans import Plan
from hardem_jax.data.tokenizer import load_tokenizer
from hardem_jax.encoders.base import Encoder
from hardem_jax.encoders.pretrained import load_config
from hardem_jax.objectives import Objective
from hardem_jax.queries.annotations import annotated_queries, gold_in_solutions
from hardem_jax.queries.config import QueryInference, SQLovaConfig
from hardem_jax.queries.distribution import QueryDistribution
from hardem_jax.queries.examples import QueryQuestion
from hardem_jax.queries.inputs import QueryInputs
from hardem_jax.queries.metrics import execution_match, logical_form_match
from hardem_jax.queries.model import SQLova
from hardem_jax.queries.most_likely import AllowedQueries, QueryScores, execution_guided
from hardem_jax.queries.records import RECORDS, answer_match
from hardem_jax.queries.solutions.engine import execute_sql
from hardem_jax.queries.solutions.types import MAX_CONDITIONS, Query, SqlRules
from hardem_jax.queries.solutions.values import ExecutionError, in_lower_case
from hardem_jax.tables.base import (
    QuestionsOnTables,
    TableModel,
    TableSplit,
    TableTask,
    metric_names,
)
from hardem_jax.tables.table import Cell, Table
from hardem_jax.task.base import SPARSITY_THRESHOLDS, LossFn, make_loss
from hardem_jax.task.encoder import check_vocabulary

Array = jax.Array
#: Tokens of the longest input of naver/sqlova.
ORIGINAL_MAX_TOKENS = 222
#: Groups of |Z|, see `hardem_jax.task.base.size_group`.
SIZE_BOUNDS = (0, 1, 2, 4, 8, 16, 64, 256)
#: The tables of P(z | x) that the search on the host reads.
SCORES = tuple(field.name for field in dataclasses.fields(QueryScores))
#: Ranks at which the annotated query is looked for in Z.
HITS = (1, 3, 5)
#: All scores that a split can have, without and with annotated queries.
METRIC_NAMES = metric_names(SIZE_BOUNDS, "non-empty accuracy")
GOLD_METRIC_NAMES = frozenset(
    ["logical form", "annotated if right", "gold in Z", *(f"hit@{limit}" for limit in HITS)]
)
_SHARES = {
    "in Z": "questions with a Z",
    "annotated if right": "correct answers",
    "gold in Z": "questions with an annotated query",
    **{f"P<{threshold:g}": "queries in Z" for threshold in SPARSITY_THRESHOLDS},
    **{f"hit@{limit}": "questions with that query in Z" for limit in HITS},
}


class QuerySplit(TableSplit):
    KIND = RECORDS
    RULES = SqlRules


@dataclasses.dataclass(frozen=True, kw_only=True)
class QueryQuestions(QuestionsOnTables):
    """Questions on tables whose Z are queries.

    Attributes:
        golds: annotated query by question id, to measure with; None if there are none.
    """

    SPLIT = QuerySplit

    questions: Sequence[QueryQuestion]
    rules: SqlRules = SqlRules()
    golds: Mapping[str, Query] | None = None

    def with_golds(self, folder: Path | None, split: str) -> Self:
        """With the annotated queries of the official files in a folder; as it is if None.

        Raises:
            InputError: see `annotated_queries`.
        """
        if folder is None:
            return self
        return dataclasses.replace(self, golds=annotated_queries(folder, split, self.questions))


@dataclasses.dataclass(frozen=True)
class QueryModel(TableModel):
    """SQLova on a pretrained encoder, see `SQLovaConfig`."""

    INPUTS = QueryInputs

    config: SQLovaConfig

    @staticmethod
    def module(config: SQLovaConfig, encoder: Encoder, *, seed: int) -> SQLova:
        return SQLova(
            encoder,
            hidden_size=config.hidden_size,
            num_lstm_layers=config.num_lstm_layers,
            num_target_layers=config.num_target_layers,
            dropout=config.dropout,
            max_conditions=MAX_CONDITIONS,
            value_units=config.value_units,
            rngs=nnx.Rngs(seed),
        )

    @classmethod
    def convert(cls, model_file: Path, bert_file: Path, encoder: str) -> Self:
        """A parser that naver/sqlova trained, with inputs of up to 222 tokens, as there.

        Args:
            model_file, bert_file: see `load_sqlova`.
            encoder: Hugging Face name or folder with the sizes and the vocabulary of its BERT.

        Raises:
            InputError: a file cannot be read, or does not fit the encoder.
        """
        from hardem_jax.queries.checkpoint import load_sqlova

        tokenizer, sizes = load_tokenizer(encoder), load_config(encoder)
        check_vocabulary(encoder, sizes, tokenizer)
        module = load_sqlova(model_file, bert_file, sizes)
        max_tokens = min(ORIGINAL_MAX_TOKENS, sizes.max_tokens)
        config = SQLovaConfig(
            encoder=encoder,
            hidden_size=module.value.context.out_features,
            num_lstm_layers=len(module.question.recurrent),
            num_target_layers=module.num_target_layers,
            max_tokens=max_tokens,
            max_header_tokens=max_tokens,  # no limit of their own there
            value_units=module.value_units,
        )
        return cls(*nnx.split(module, nnx.Param), config, sizes, tokenizer)


@dataclasses.dataclass(frozen=True)
class QueryReading:
    """What the model says about one question.

    Attributes:
        scores: the tables of P(z | x).
        decoded: ``[K, 15]`` int32, best first, if the device decodes ("well-formed", "greedy").
        solutions: ``[Z]`` float32, log P(z | x) of Z, in its order.
    """

    scores: QueryScores
    decoded: np.ndarray | None
    solutions: np.ndarray


@dataclasses.dataclass(frozen=True)
class QueryAnswer:
    """A query and what it executes to.

    Attributes:
        row: ``[15]`` int, see `Query.from_row`.
        query: the query.
        result: the list of cells that the engine returns; None if the query cannot be executed.
        log_prob: log P(query), or that of the result if results are decoded.
    """

    row: np.ndarray
    query: Query
    result: list[Cell] | None
    log_prob: float

    def text(self, header: Sequence[str]) -> str:
        return self.query.text(header)


@dataclasses.dataclass(frozen=True)
class QueryTask(TableTask[QueryQuestions, QueryReading, list[QueryAnswer | None]]):
    """Answers are the results of queries.

    Scores are in percent. Of all questions, those left out counting 0: ``accuracy``, questions
    whose result is the answer, see `is_answer`; ``non-empty accuracy``, the same where the result
    is not empty; with golds, ``logical form``, questions whose query is the annotated one. Of the
    questions read: ``accuracy |Z|=...`` by size of Z; ``in Z``, of those with a Z, whether it has
    the query of the answer; ``P<0.001`` and ``P<0.0001``, of the queries of all Z, those with less
    probability (the paper's sparsity). With golds also ``annotated if right``, of correct answers,
    those whose query is the annotated one; ``gold in Z``; and ``hit@1`` to ``hit@5``, of questions
    with the annotated query in Z, those where it ranks that high.

    Attributes:
        inference: how answers are read off.
        rules: Z_tot that answers are looked for in, and the engine that executes them.
        conditions: "sum" or "mean" over the conditions of a query, see
            `hardem_jax.queries.distribution.QueryDistribution.log_prob`.
    """

    NAME = "queries"
    QUESTIONS = QueryQuestions
    MODELS = {SQLovaConfig: QueryModel}
    INFERENCE = QueryInference
    SHARES = _SHARES
    RULES = SqlRules
    SIZE_BOUNDS = SIZE_BOUNDS

    inference: QueryInference
    rules: SqlRules = SqlRules()
    conditions: Literal["sum", "mean"] = "sum"

    def check(self, data: QueryQuestions, model: Any, other: str) -> None:
        """Queries of any rules can be compared with the results of others."""

    def loss(self, graphdef: nnx.GraphDef, objective: Objective, plan: Plan) -> LossFn:
        del plan
        return make_loss(graphdef, objective, conditions=self.conditions)

    def decode(self, found: QueryDistribution, batch: Mapping[str, Array]) -> dict[str, Array]:
        tables = {field: getattr(found, field) for field in SCORES}
        if self.inference.decoding == "well-formed":
            limit = self.rules.max_conditions
            tables["decoded"], _ = found.top(self.inference.top, max_conditions=limit)
        elif self.inference.decoding == "greedy":
            tables["decoded"] = found.greedy()[:, None]
        return {"solutions": found.log_prob(batch["solutions"]), **tables}

    def reading(
        self, inputs: Any, index: int, out: Mapping[str, Any], entries: Mapping[str, Any]
    ) -> QueryReading:
        del inputs, index
        return QueryReading(
            scores=QueryScores(**{field: out[field] for field in SCORES}),
            decoded=out.get("decoded"),
            solutions=out["solutions"][entries["solutions_where"]],
        )

    def answers(
        self, question: QueryQuestion, table: Table, reading: QueryReading
    ) -> Iterator[QueryAnswer]:
        """The queries of a reading with their results, best first; none if there are no columns.

        At most ``inference.top``, and one if decisions are taken one after the other.
        """
        text, words, scores = question.question, question.words, reading.scores
        decoding, top = self.inference.decoding, self.inference.top
        if not table.header:
            return
        if decoding == "result":
            results, _ = AllowedQueries(table, text, words, self.rules).results(scores)
            for result, log_prob, row in results[:top]:
                yield QueryAnswer(row, Query.from_row(row, text, words), result, log_prob)
            return
        if decoding == "query":
            rows, _ = AllowedQueries(table, text, words, self.rules).top(scores, top)
        elif decoding == "execution-guided":
            rows = execution_guided(table, text, words, scores, self.rules)[None]
        else:
            assert reading.decoded is not None
            rows = reading.decoded
        for row in rows[rows[:, 0] >= 0]:  # there may be fewer than were asked for
            log_prob = scores.log_prob(row)
            if log_prob > -np.inf or decoding == "greedy":
                query = Query.from_row(row, text, words)
                result = None
                with contextlib.suppress(ExecutionError):
                    result = execute_sql(table, query)
                yield QueryAnswer(row, query, result, log_prob)

    def answer(
        self, question: QueryQuestion, table: Table, reading: QueryReading
    ) -> QueryAnswer | None:
        """The answer to a question; None if there is no query, as on a table without columns."""
        return next(self.answers(question, table, reading), None)

    def is_correct(self, question: QueryQuestion, answer: QueryAnswer | None) -> bool:
        return answer is not None and is_answer(question, answer.result)

    def outcomes(self, data: QueryQuestions, question: Any, answer: Any) -> dict[str, bool]:
        correct = self.is_correct(question, answer)
        outcomes = {"accuracy": correct, "non-empty accuracy": correct and bool(answer.result)}
        if data.golds is not None:
            gold = data.golds.get(question.id)
            same = answer and gold and logical_form_match(answer.query, gold)
            outcomes["logical form"] = bool(same)
        return outcomes

    def more_outcomes(
        self, data: QueryQuestions, question: Any, reading: QueryReading, answer: Any
    ) -> dict[str, bool]:
        """How an answer and Z compare with the annotated query."""
        if data.golds is None or (gold := data.golds.get(question.id)) is None:
            return {}
        outcomes = {}
        if self.is_correct(question, answer):
            outcomes["annotated if right"] = logical_form_match(answer.query, gold)
        places = gold_in_solutions(question, gold)
        outcomes["gold in Z"] = bool(places)
        # The Z of a cut input may lack queries; ranks count only where it is whole.
        if places and len(reading.solutions) == len(question.queries):
            rank = int(np.sum(reading.solutions > max(reading.solutions[places])))
            outcomes |= {f"hit@{limit}": rank < limit for limit in HITS}
        return outcomes

    def answer_text(self, question: QueryQuestion) -> str:
        return cells_text(question.answer)

    def metric_names(self, data: QueryQuestions) -> frozenset[str]:
        return METRIC_NAMES if data.golds is None else METRIC_NAMES | GOLD_METRIC_NAMES


def is_answer(question: QueryQuestion, result: Sequence[Cell] | None) -> bool:
    """Whether a result is the answer, by the comparison that made Z.

    Args:
        question: its ``match`` decides, see `answer_match`.
        result: cells as the engine compares them; None if the query cannot be executed.
    """
    matches = answer_match(question)
    if matches is not None:
        return result is not None and matches(result)
    return execution_match(result, in_lower_case(question.answer))


def cells_text(result: Sequence[Cell], most: int | None = 10) -> str:
    """A result for people: cells in one line, longer lists cut."""
    cells = ["-" if cell is None else _cell_text(cell) for cell in result]
    if not cells:
        return "(no row)"
    more = len(cells[most:]) if most else 0
    return ", ".join(cells[:most]) + (f" and {more} more" if more else "")


def _cell_text(cell: str | float | int) -> str:
    """All digits of a number, without those that say nothing."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e16:
        return f"{cell:.0f}"
    return str(cell)


def official_fields(query: Query) -> dict[str, Any]:
    """A query as the official evaluator reads it."""
    conditions = [[c.column, c.operator, c.value] for c in query.conditions]
    return {"sel": query.select, "agg": query.aggregator, "conds": conditions}


TASK = QueryTask
