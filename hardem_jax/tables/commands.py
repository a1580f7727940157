"""The command ``predict`` of the parsers of questions on tables."""

from __future__ import annotations

import abc
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from rich.console import Console

from hardem_jax.cli import asking
from hardem_jax.errors import InputError, printable, require
from hardem_jax.tables.csv import read_csv_table
from hardem_jax.tables.examples import TableQuestion

if TYPE_CHECKING:
    from hardem_jax.tables.table import Table
    from hardem_jax.task.base import Questions, Task
    from hardem_jax.task.trained import Trained

# Parsing a command imports this module, so jax is imported only when one runs.


@dataclasses.dataclass(frozen=True)
class PredictOnTable(abc.ABC):
    """Asks a trained parser questions about a table of the user's own.

    Attributes:
        run_dir: folder of the run.
        table: CSV file with a header.
        question: the question; None to read questions from the standard input, one per line; typed
            ones end with an empty line.
        checkpoint: "best" or "last".
        top: solutions to print.
    """

    run_dir: Path
    table: Path
    question: str | None = None
    checkpoint: Literal["best", "last"] = "best"
    top: int = 5

    def __post_init__(self) -> None:
        require(self, "top", at_least=1)

    @abc.abstractmethod
    def trained(self) -> Trained:
        """The parser, which reads one question at a time."""

    @abc.abstractmethod
    def asked(self, task: Any, question: TableQuestion) -> Questions:
        """The question with what the parser reads of it; its Z is not needed."""

    @abc.abstractmethod
    def layout(self, inputs: Any) -> Any:
        """The only one of these inputs, a `hardem_jax.tables.layout.QueryInput`."""

    @abc.abstractmethod
    def texts(self, task: Task, question: TableQuestion, answer: Any) -> tuple[str, str]:
        """The solution of an answer and its result."""

    def run(self) -> None:
        if self.question is not None:
            asking.check_question(self.question)
        table = read_csv_table(self.table, id=self.table.stem)
        if not table.header:
            raise InputError(f"{self.table}: expected columns to select from, found none")
        trained = self.trained()
        console = Console(highlight=False, soft_wrap=True, emoji=False)
        for question in asking.asked(self.question, console):
            self._answer(trained, question, table, console)

    def _answer(self, trained: Trained, asked: str, table: Table, console: Console) -> None:
        question = TableQuestion("q", asked, table, ())
        task, data = trained.task, self.asked(trained.task, question)
        inputs = trained.model.inputs(data)
        layout = self.layout(inputs)
        if inputs.cut_columns:
            print(f"note: only the first {len(layout.headers)} columns were read")
        if inputs.cut_questions:
            print(f"note: only the first {layout.num_question_tokens} tokens were read")
        [(_, reading)] = trained.reader.read(trained.params, inputs)
        answers = list(task.answers(data.questions[0], table, reading))
        for rank, answer in enumerate(answers):
            solution, result = map(printable, self.texts(task, question, answer))
            line = f"{np.exp(answer.log_prob):6.1%}  {solution}"
            console.print(line, style="bold" if rank == 0 else None, markup=False)
            console.print(f"        {result}", markup=False)
        if not answers:
            print("nothing that can be executed was found")
