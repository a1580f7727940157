"""What both kinds of semantic parsing share: questions on tables, models and tasks with rules."""

import abc
import dataclasses
import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from hardem_jax.data.batching.padding import Pad
from hardem_jax.data.built import BuiltSplit
from hardem_jax.data.json_stream import PathLike
from hardem_jax.tables.layout import TableInputs
from hardem_jax.tables.records import Tables
from hardem_jax.tables.table import Table
from hardem_jax.task.base import (
    SPARSITY_THRESHOLDS,
    A,
    D,
    Questions,
    R,
    ShownAnswer,
    Task,
    names_by_size,
    of_all_questions,
    percentages,
    size_group,
)
from hardem_jax.task.encoder import EncoderModel
from hardem_jax.task.run_config import RunConfig


class TableSplit(BuiltSplit):
    """Questions on tables of a build, with their ``tables`` by id, read when they are asked for."""

    #: The type of ``rules``.
    RULES: ClassVar[type[Any]]

    def __init__(self, folder: PathLike, split: str, *, drawn: int | None = None):
        super().__init__(folder, split, drawn=drawn)
        self.rules = self.RULES(**self.meta["rules"])
        self.tables: Mapping[str, Table] = Tables(self._index["tables"], self._records)


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionsOnTables(Questions):
    """Questions on tables, which are by id; ``rules`` are Z_tot. `SPLIT` reads a build."""

    SPLIT: ClassVar[type[TableSplit]]

    tables: Mapping[str, Table]
    rules: Any

    @classmethod
    def open(cls, folder: Path, split: str, *, drawn: int | None = None) -> Self:
        """The questions of a split of a build; ``drawn`` is the seed of their first solutions."""
        built = cls.SPLIT(folder, split, drawn=drawn)
        names = ("questions", "left_out", "meta", "tables", "rules")
        return cls(place=str(folder), **{name: getattr(built, name) for name in names})

    @classmethod
    def solutions(cls) -> str:
        """The field of a question that is its Z; its size is ``num_`` and this name."""
        return cls.SPLIT.KIND.solutions

    def set_sizes(self) -> list[int]:
        return [getattr(question, f"num_{self.solutions()}") for question in self.questions]


class TableModel(EncoderModel):
    """A parser of questions on tables; INPUTS is the type of its inputs."""

    INPUTS: ClassVar[type[TableInputs[Any, Any]]]

    def inputs(self, data: Any, **options: Any) -> TableInputs[Any, Any]:
        return self.INPUTS(
            data.questions,
            data.tables,
            self.tokenizer,
            max_tokens=self.config.max_tokens,
            max_header_tokens=self.config.max_header_tokens,
            **options,
        )

    def pad(self, inputs: TableInputs[Any, Any], num_solutions: int) -> Pad:
        pad_id = self.tokenizer.pad_id
        return functools.partial(inputs.pad, num_solutions=num_solutions, pad_id=pad_id)


@dataclasses.dataclass(frozen=True)
class TableTask(Task[D, R, A]):
    """Answers are what solutions of Z_tot (``rules``) execute to. `SIZE_BOUNDS` are groups of |Z|,
    see `hardem_jax.task.base.size_group`."""

    INFERENCE: ClassVar[type[Any]]
    RULES: ClassVar[type[Any]]
    SIZE_BOUNDS: ClassVar[tuple[int, ...]]

    inference: Any
    rules: Any

    @classmethod
    def restore(cls, run: RunConfig, **inference: Any) -> Self:
        flags = run.flags("inference", cls.INFERENCE)
        return cls(dataclasses.replace(flags, **inference), run.section("rules", cls.RULES))

    def save(self, data: D) -> dict[str, Any]:
        del data
        return {"rules": dataclasses.asdict(self.rules)}

    def describe(self, data: D, inputs: TableInputs[Any, Any]) -> str:
        counts = {
            "lost all of their solutions to cuts": inputs.lost,
            "have shortened column names": inputs.cut_headers,
            "are cut": inputs.cut_questions,
            "lack columns": inputs.cut_columns,
        }
        usable = int((inputs.sizes[:, 1] > 0).sum())
        cuts = "".join(f", {count} {what}" for what, count in counts.items() if count)
        return f"{len(data.questions)} questions, {usable} with a solution{cuts}"

    @abc.abstractmethod
    def answer(self, question: Any, table: Table, reading: R) -> Any:
        """The answer to a question; None if there is none."""

    @abc.abstractmethod
    def is_correct(self, question: Any, answer: Any) -> bool:
        """Whether an answer, which may be None, is right."""

    @abc.abstractmethod
    def outcomes(self, data: D, question: Any, answer: Any) -> dict[str, Any]:
        """The official scores of an answer by name, from 0 to 1."""

    @abc.abstractmethod
    def more_outcomes(self, data: D, question: Any, reading: R, answer: Any) -> dict[str, Any]:
        """Other scores, beside those of every parser."""

    @abc.abstractmethod
    def answer_text(self, question: Any) -> str:
        """The known answer for people."""

    def score(self, data: Any, readings: Iterator[tuple[int, Any]]) -> tuple[dict[str, float], Any]:
        """Scores of a split, and the answer to each question, in order."""
        answers: list[Any] = [None] * len(data.questions)
        groups = defaultdict(list)
        for index, reading in readings:
            question = data.questions[index]
            answer = self.answer(question, data.tables[question.table_id], reading)
            answers[index] = answer
            solutions = getattr(question, data.solutions())
            size = size_group(getattr(question, f"num_{data.solutions()}"), self.SIZE_BOUNDS)
            groups[f"accuracy |Z|={size}"].append(self.is_correct(question, answer))
            if len(solutions):
                in_z = answer is not None and (solutions == answer.row).all(axis=1).any()
                groups["in Z"].append(in_z)
            for threshold in SPARSITY_THRESHOLDS:
                groups[f"P<{threshold:g}"].extend(reading.solutions < np.log(threshold))
            for name, outcome in self.more_outcomes(data, question, reading, answer).items():
                groups[name].append(outcome)
        official = self.by_question(data, answers)
        return percentages(groups, official, measure="accuracy", bounds=self.SIZE_BOUNDS), answers

    def by_question(self, data: Any, answers: Any) -> dict[str, np.ndarray]:
        columns = defaultdict(list)
        for question, answer in zip(data.questions, answers, strict=True):
            for name, outcome in self.outcomes(data, question, answer).items():
                columns[name].append(outcome)
        return of_all_questions(columns, len(data.left_out))

    def shown(self, data: Any, answers: Any) -> list[ShownAnswer]:
        return [
            ShownAnswer(
                question.question,
                self.answer_text(question),
                "" if answer is None else answer.text(data.tables[question.table_id].header),
                self.is_correct(question, answer),
            )
            for question, answer in zip(data.questions, answers, strict=True)
        ]


def metric_names(bounds: tuple[int, ...], *names: str) -> frozenset[str]:
    """The names of all scores of a parser."""
    sparsity = (f"P<{threshold:g}" for threshold in SPARSITY_THRESHOLDS)
    return frozenset(["accuracy", "in Z", *names, *names_by_size("accuracy", bounds), *sparsity])
