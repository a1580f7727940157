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

from hardem_jax.data.batching.padding import Arrays, Pad
from hardem_jax.data.batching.plans import Plan
from hardem_jax.encoders.base import Encoder
from hardem_jax.errors import InputError
from hardem_jax.objectives import Objective
from hardem_jax.programs.config import ProgramInference, ProgramParserConfig
from hardem_jax.programs.distribution import SLOTS, ProgramDistribution
from hardem_jax.programs.examples import ProgramQuestion
from hardem_jax.programs.inputs import ProgramInputs, pad_program_inputs
from hardem_jax.programs.model import KINDS, ProgramParser
from hardem_jax.programs.most_likely import ProgramScores
from hardem_jax.programs.solutions.execute import execute
from hardem_jax.programs.solutions.rules import ProgramRules
from hardem_jax.programs.solutions.space import ProgramSpace
from hardem_jax.programs.solutions.table import program_table
from hardem_jax.programs.solutions.types import Program
from hardem_jax.programs.solve import links_of
from hardem_jax.programs.splits import ProgramSplit
from hardem_jax.tables.base import QuestionsOnTables, TableTask
from hardem_jax.tables.metrics import Denotation, result_texts
from hardem_jax.tables.table import Cell, Table
from hardem_jax.task.base import LossFn, ShownAnswer, make_loss
from hardem_jax.task.encoder import EncoderModel
from hardem_jax.task.scoring import (
    SPARSITY_THRESHOLDS,
    names_by_size,
    of_all_questions,
    percentages,
    size_group,
)

Array = jax.Array
#: Groups of |Z|, see `tasks.scoring.size_group`.
SIZE_BOUNDS = (0, 1, 4, 16, 64, 256, 1024)
#: All scores that a split can have.
METRIC_NAMES = frozenset(
    [
        *("accuracy", "answered", "in Z", *names_by_size("accuracy", SIZE_BOUNDS)),
        *(f"P<{threshold:g}" for threshold in SPARSITY_THRESHOLDS),
    ]
)
_SHARES = {"answered": "questions read", "in Z": "questions with a Z"}
_SHARES |= {f"P<{threshold:g}": "programs in Z" for threshold in SPARSITY_THRESHOLDS}
_TABLES = ("shape", *SLOTS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProgramQuestions(QuestionsOnTables):
    """Questions on tables whose Z are programs."""

    SPLIT = ProgramSplit

    questions: Sequence[ProgramQuestion]
    rules: ProgramRules

    def set_sizes(self) -> list[int]:
        return [question.num_programs for question in self.questions]


@dataclasses.dataclass(frozen=True)
class ProgramModel(EncoderModel):
    """A `ProgramParser` on a pretrained encoder, see `ProgramParserConfig`."""

    config: ProgramParserConfig

    @staticmethod
    def module(config: ProgramParserConfig, encoder: Encoder, *, seed: int) -> ProgramParser:
        size, rate = config.hidden_size, config.dropout
        return ProgramParser(encoder, hidden_size=size, rate=rate, rngs=nnx.Rngs(seed))

    def inputs(self, data: ProgramQuestions) -> ProgramInputs:
        return ProgramInputs(
            data.questions,
            data.tables,
            self.tokenizer,
            rules=data.rules,
            max_tokens=self.config.max_tokens,
            max_header_tokens=self.config.max_header_tokens,
        )

    def pad(self, inputs: ProgramInputs, num_solutions: int) -> Pad:
        def pad(rows: Sequence[Any], num_tokens: int) -> Arrays:
            return pad_program_inputs(
                rows,
                num_tokens,
                **inputs.shape(num_tokens),
                num_solutions=num_solutions,
                pad_id=self.tokenizer.pad_id,
            )

        return pad


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


@dataclasses.dataclass(frozen=True)
class ProgramTask(TableTask[ProgramQuestions, ProgramReading, list[ProgramAnswer | None]]):
    """Answers are the results of programs.

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
        space = ProgramSpace(program_table(table), links, self.rules)
        combinations = reading.scores.best_first()
        for row, log_prob in itertools.islice(combinations, self.inference.max_combinations):
            if row in space:
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

    def score(
        self, data: ProgramQuestions, readings: Iterator[tuple[int, ProgramReading]]
    ) -> tuple[dict[str, float], list[ProgramAnswer | None]]:
        """Scores of a split, and the answer to each question, in order.

        Returns:
            In percent of all questions, those left out counting 0: ``accuracy``, questions whose
            result is the answer, by the official metric. In percent of the questions read:
            ``answered``, questions with a program that has a result; ``accuracy |Z|=...`` by size
            of Z; ``in Z``, questions with a Z where the program of the answer is in it; ``P<0.001``
            and ``P<0.0001``, programs of all Z with less probability (the paper's sparsity).
        """
        answers: list[ProgramAnswer | None] = [None] * len(data.questions)
        groups = defaultdict(list)
        for index, reading in readings:
            question = data.questions[index]
            answer = answers[index] = self.answer(question, data.tables[question.table_id], reading)
            groups["answered"].append(answer is not None)
            size = size_group(question.num_programs, SIZE_BOUNDS)
            groups[f"accuracy |Z|={size}"].append(is_answer(question, answer))
            if len(question.programs):
                row = None if answer is None else answer.row
                found = row is not None and (question.programs == row).all(axis=1).any()
                groups["in Z"].append(found)
            for threshold in SPARSITY_THRESHOLDS:
                groups[f"P<{threshold:g}"].extend(reading.solutions < np.log(threshold))
        official = self.by_question(data, answers)
        return percentages(groups, official, measure="accuracy", bounds=SIZE_BOUNDS), answers

    def by_question(
        self, data: ProgramQuestions, answers: list[ProgramAnswer | None]
    ) -> dict[str, np.ndarray]:
        pairs = zip(data.questions, answers, strict=True)
        correct = [is_answer(question, answer) for question, answer in pairs]
        return of_all_questions({"accuracy": correct}, len(data.left_out))

    def metric_names(self, data: ProgramQuestions) -> frozenset[str]:
        del data
        return METRIC_NAMES

    def shown(
        self, data: ProgramQuestions, answers: list[ProgramAnswer | None]
    ) -> list[ShownAnswer]:
        rows = []
        for question, answer in zip(data.questions, answers, strict=True):
            header = data.tables[question.table_id].header
            text = "" if answer is None else answer.program.text(header)
            correct = is_answer(question, answer)
            gold = ", ".join(question.answer)
            rows.append(ShownAnswer(question.question, gold, text, correct))
        return rows


def is_answer(question: ProgramQuestion, answer: ProgramAnswer | None) -> bool:
    """Whether a program's result is the answer, by the official metric."""
    target = Denotation(question.answer, question.values)
    return answer is not None and target.matches(answer.result)


TASK = ProgramTask
