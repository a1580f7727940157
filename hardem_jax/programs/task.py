"""Semantic parsing with programs: superlatives, neighbours, groups, differences on a table.

question, table, links -> batch -> ProgramParser -> P(z | x) over programs -> log P(z) of all of Z
at test:  batch -> ProgramParser -> the most likely program of Z_tot with a result -> that result
"""

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from flax import nnx

from hardem_jax.data.batching.plans import Plan
from hardem_jax.encoders.base import Encoder
from hardem_jax.errors import InputError
from hardem_jax.objectives import Objective
from hardem_jax.programs.config import ProgramInference, ProgramParserConfig
from hardem_jax.programs.distribution import SLOTS, ProgramDistribution
from hardem_jax.programs.examples import ProgramQuestion
from hardem_jax.programs.inputs import ProgramInputs
from hardem_jax.programs.model import KINDS, ProgramParser
from hardem_jax.programs.most_likely import ProgramScores
from hardem_jax.programs.records import RECORDS, links_of
from hardem_jax.programs.solutions.execute import execute
from hardem_jax.programs.solutions.rules import AllowedPrograms, ProgramRules
from hardem_jax.programs.solutions.table import program_table
from hardem_jax.programs.solutions.types import Program
from hardem_jax.tables.base import (
    QuestionsOnTables,
    TableModel,
    TableSplit,
    TableTask,
    metric_names,
)
from hardem_jax.tables.layout import TableInputs
from hardem_jax.tables.metrics import Denotation, result_texts
from hardem_jax.tables.table import Cell, Table
from hardem_jax.task.base import SPARSITY_THRESHOLDS, LossFn, make_loss

Array = jax.Array
#: Groups of |Z|, see `hardem_jax.task.base.size_group`.
SIZE_BOUNDS = (0, 1, 4, 16, 64, 256, 1024)
#: All scores that a split can have.
METRIC_NAMES = metric_names(SIZE_BOUNDS, "answered")
_SHARES = {"answered": "questions read", "in Z": "questions with a Z"}
_SHARES |= {f"P<{threshold:g}": "programs in Z" for threshold in SPARSITY_THRESHOLDS}
_TABLES = ("shape", *SLOTS)


class ProgramSplit(TableSplit):
    KIND = RECORDS
    RULES = ProgramRules


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProgramQuestions(QuestionsOnTables):
    """Questions on tables whose Z are programs."""

    SPLIT = ProgramSplit

    questions: Sequence[ProgramQuestion]
    rules: ProgramRules


@dataclasses.dataclass(frozen=True)
class ProgramModel(TableModel):
    """A `ProgramParser` on a pretrained encoder, see `ProgramParserConfig`."""

    INPUTS = ProgramInputs

    config: ProgramParserConfig

    @staticmethod
    def module(config: ProgramParserConfig, encoder: Encoder, *, seed: int) -> ProgramParser:
        size, rate = config.hidden_size, config.dropout
        return ProgramParser(encoder, hidden_size=size, rate=rate, rngs=nnx.Rngs(seed))

    def inputs(self, data: ProgramQuestions) -> TableInputs[Any, Any]:
        return super().inputs(data, rules=data.rules)


@dataclasses.dataclass(frozen=True)
class ProgramReading:
    """What the model says about one question.

    Attributes:
        scores: the tables of P(z | x).
        solutions: ``[Z]`` float32, log P(z | x) of Z, or of the sample of it that was read.
        rows: ``[Z, 5]`` int32, the programs of these.
    """

    scores: ProgramScores
    solutions: np.ndarray
    rows: np.ndarray


@dataclasses.dataclass(frozen=True)
class ProgramAnswer:
    """A program and what it executes to.

    Attributes:
        row: see `Program.from_row`.
        program: the program.
        result: cells, at least one.
        log_prob: log P(program), or of its result if results are decoded.
    """

    row: tuple[int, ...]
    program: Program
    result: Sequence[Cell]
    log_prob: float

    def text(self, header: Sequence[str]) -> str:
        return self.program.text(header)


@dataclasses.dataclass(frozen=True)
class ProgramTask(TableTask[ProgramQuestions, ProgramReading, list[ProgramAnswer | None]]):
    """Answers are the results of programs.

    Scores are in percent. Of all questions, those left out counting 0: ``accuracy``, questions
    whose result is the answer, by the official metric. Of the questions read: ``answered``, those
    with a program that has a result; ``accuracy |Z|=...`` by size of Z; ``in Z``, of those with a
    Z, whether it has the program of the answer; ``P<0.001`` and ``P<0.0001``, of the programs of
    all Z, those with less probability (the paper's sparsity).

    Attributes:
        inference: how answers are read off.
        rules: Z_tot that answers are looked for in.
    """

    NAME = "programs"
    QUESTIONS = ProgramQuestions
    MODELS = {ProgramParserConfig: ProgramModel}
    INFERENCE = ProgramInference
    SHARES = _SHARES
    RULES = ProgramRules
    SIZE_BOUNDS = SIZE_BOUNDS

    inference: ProgramInference
    rules: ProgramRules = ProgramRules()

    def check(self, data: ProgramQuestions, model: Any, other: str) -> None:
        """The links of a question, which programs refer to, are those of its rules."""
        del model
        if data.rules != self.rules:
            raise InputError(
                f"{data.place}: expected the rules of {other}, found others; prepare both alike"
            )

    def loss(self, graphdef: nnx.GraphDef, objective: Objective, plan: Plan) -> LossFn:
        del plan
        return make_loss(graphdef, objective)

    def decode(self, found: ProgramDistribution, batch: Mapping[str, Array]) -> dict[str, Array]:
        tables = {name: getattr(found, name) for name in _TABLES}
        return {"solutions": found.log_prob(batch["solutions"]), **tables}

    def reading(
        self, inputs: Any, index: int, out: Mapping[str, Any], entries: Mapping[str, Any]
    ) -> ProgramReading:
        del inputs, index
        scores = ProgramScores(**{name: out[name] for name in _TABLES}, kinds=KINDS)
        where = entries["solutions_where"]
        return ProgramReading(scores, out["solutions"][where], entries["solutions"][where])

    def programs(
        self, question: ProgramQuestion, table: Table, reading: ProgramReading
    ) -> Iterator[ProgramAnswer]:
        """The programs of Z_tot that have a result, most likely first, executed lazily.

        Raises:
            InputError: the question was prepared by other rules.
        """
        links = links_of(question, table, self.rules)
        allowed = AllowedPrograms(program_table(table), links, self.rules)
        combinations = reading.scores.best_first()
        for row, log_prob in itertools.islice(combinations, self.inference.max_combinations):
            if row in allowed:
                result = execute(table, row, links)
                if result:
                    yield ProgramAnswer(row, Program.from_row(row, links), result, log_prob)

    def answers(
        self, question: ProgramQuestion, table: Table, reading: ProgramReading
    ) -> list[ProgramAnswer]:
        """At most ``inference.top`` programs, or results with their first program, best first."""
        found = list(itertools.islice(self.programs(question, table, reading), self.inference.top))
        if self.inference.decoding == "program":
            return found
        groups: dict[tuple[str, ...], list[ProgramAnswer]] = defaultdict(list)
        for answer in found:
            groups[tuple(sorted(set(result_texts(answer.result))))].append(answer)
        results = [
            dataclasses.replace(
                group[0], log_prob=float(np.logaddexp.reduce([a.log_prob for a in group]))
            )
            for group in groups.values()
        ]
        return sorted(results, key=lambda answer: -answer.log_prob)

    def answer(
        self, question: ProgramQuestion, table: Table, reading: ProgramReading
    ) -> ProgramAnswer | None:
        """The answer to a question; None if no program with a result is found."""
        if self.inference.decoding == "program":
            return next(self.programs(question, table, reading), None)
        return next(iter(self.answers(question, table, reading)), None)

    def is_correct(self, question: ProgramQuestion, answer: ProgramAnswer | None) -> bool:
        return is_answer(question, answer)

    def outcomes(self, data: Any, question: Any, answer: Any) -> dict[str, bool]:
        del data
        return {"accuracy": is_answer(question, answer)}

    def more_outcomes(self, data: Any, question: Any, reading: Any, answer: Any) -> dict[str, bool]:
        del data, question, reading
        return {"answered": answer is not None}

    def answer_text(self, question: ProgramQuestion) -> str:
        return ", ".join(question.answer)

    def metric_names(self, data: ProgramQuestions) -> frozenset[str]:
        del data
        return METRIC_NAMES


def is_answer(question: ProgramQuestion, answer: ProgramAnswer | None) -> bool:
    """Whether a program's result is the answer, by the official metric."""
    target = Denotation(question.answer, question.values)
    return answer is not None and target.matches(answer.result)


TASK = ProgramTask
