"""The command ``predict`` of the parsers of questions on tables."""

from __future__ import annotations

import abc
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from hardem_jax.cli.predict import PredictCommand
from hardem_jax.errors import InputError, printable
from hardem_jax.tables.csv import read_csv_table
from hardem_jax.tables.examples import TableQuestion

if TYPE_CHECKING:
    from hardem_jax.tables.table import Table
    from hardem_jax.task.trained import Trained


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictOnTable(PredictCommand):
    """Ask a trained parser questions about a table of your own.

    Attributes:
        table: CSV file with a header.
        top: solutions to print.
    """

    table: Path

    @abc.abstractmethod
    def asked(self, question: TableQuestion, rules: Any) -> Any:
        """The question with what the parser reads of it; its Z is not needed."""

    @abc.abstractmethod
    def texts(self, question: TableQuestion, answer: Any) -> tuple[str, str]:
        """The solution of an answer and its result."""

    def source(self) -> Table:
        table = read_csv_table(self.table, id=self.table.stem)
        if not table.header:
            raise InputError(f"{self.table}: expected columns to select from, found none")
        return table

    def answer(self, trained: Trained, question: str, source: Table, console: Console) -> None:
        asked, task = TableQuestion("q", question, source, ()), trained.task
        data = task.QUESTIONS(
            questions=[self.asked(asked, task.rules)],
            tables={source.id: source},
            rules=task.rules,
        )
        inputs = trained.model.inputs(data)
        layout = getattr(inputs[0], "layout", inputs[0])
        if inputs.cut_columns:
            print(f"note: only the first {len(layout.headers)} columns were read")
        if inputs.cut_questions:
            print(f"note: only the first {layout.num_question_tokens} tokens were read")
        [(_, reading)] = trained.reader.read(trained.params, inputs)
        answers = list(task.answers(data.questions[0], source, reading))
        for rank, answer in enumerate(answers):
            solution, result = map(printable, self.texts(asked, answer))
            line = f"{np.exp(answer.log_prob):6.1%}  {solution}"
            console.print(line, style="bold" if rank == 0 else None, markup=False)
            console.print(f"        {result}", markup=False)
        if not answers:
            print("nothing that can be executed was found")
