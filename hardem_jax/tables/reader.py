"""Trained parsers that answer questions about tables of your own."""

from __future__ import annotations

import abc
import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hardem_jax.errors import InputError
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.show import to_table
from hardem_jax.tables.table import IdentityCache, Table, clean_question
from hardem_jax.task.reader import AnswerReader, note


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableAnswer:
    """A result and the solution that has it.

    Attributes:
        text: the result.
        probability: P(z | x), of the solution or, where results are read off, of all that have it.
        solution: a statement for SQLite, or a program.
    """

    text: str
    probability: float
    solution: str

    def as_json(self, names: Sequence[str] = ()) -> dict[str, Any]:
        """All of it."""
        del names
        return dataclasses.asdict(self)

    def lines(self, names: Sequence[str] = (), *, brief: bool = False) -> list[str]:
        """The solution, then its result."""
        del names, brief
        return [f"{self.probability:6.1%}  {self.solution}", self.text]


class TableAnswerReader(AnswerReader[Any, TableAnswer]):
    """Answers questions about tables with a trained parser; see `to_table` for what a table is."""

    @abc.abstractmethod
    def asked(self, question: TableQuestion) -> Any:
        """The question with what the parser reads of it; its Z is not needed."""

    @abc.abstractmethod
    def texts(self, question: TableQuestion, answer: Any) -> tuple[str, str]:
        """The solution of an answer and its result."""

    @classmethod
    def _lines(cls, rows: list[dict[str, Any]], table: str) -> Iterable[dict[str, Any]]:
        tables: dict[str, Table] = {}
        read = IdentityCache(to_table)  # a table given with each question is read once
        for number, row in enumerate(rows):
            if table not in row:
                expected = f"expected a table under {table!r}"
                raise InputError(f"example {number}: {expected}, found {', '.join(row) or 'none'}")
            known = len(tables)
            try:
                own = _added(read(row.pop(table)), tables)
            except (InputError, TypeError) as error:
                raise InputError(f"example {row.get('id', number)!r}: {error}") from error
            if len(tables) > known:
                yield {"table": dataclasses.asdict(own)}
            yield {**row, "table_id": own.id}

    def _answers(self, asked: Sequence[tuple[str, Any]], top: int) -> list[list[TableAnswer]]:
        tables: dict[str, Table] = {}
        read = IdentityCache(to_table)
        questions = [
            TableQuestion(str(n), clean_question(text), _added(read(value), tables), ())
            for n, (text, value) in enumerate(asked)
        ]
        data = self._task.QUESTIONS(
            questions=[self.asked(question) for question in questions],
            tables=tables,
            rules=self._task.rules,
        )
        inputs = self._model.inputs(data)
        found: list[list[TableAnswer]] = [[] for _ in questions]
        for index, reading in self._read(inputs):
            question = questions[index]
            layout = getattr(inputs[index], "layout", inputs[index])
            if len(layout.headers) < len(question.table.header):
                note(f"only the first {len(layout.headers)} columns were read")
            for answer in self._task.answers(data.questions[index], question.table, reading):
                if len(found[index]) == top:
                    break
                solution, result = self.texts(question, answer)
                chance = float(np.exp(answer.log_prob))
                found[index].append(TableAnswer(text=result, probability=chance, solution=solution))
        return found


def _added(table: Table, tables: dict[str, Table]) -> Table:
    """A table, which is among ``tables`` then, once; another one of its name gets a number."""
    number = itertools.count(len(tables))
    content = table.header, table.types, table.rows
    for known in tables.values():
        if content == (known.header, known.types, known.rows):
            return known
    name = table.id
    while table.id in tables:
        table = dataclasses.replace(table, id=f"{name} {next(number)}")
    return tables.setdefault(table.id, table)
