"""A trained parser that answers questions about tables of your own with programs."""

from __future__ import annotations

from typing import Any

from hardem_jax.programs.records import program_question
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.metrics import result_texts
from hardem_jax.tables.reader import TableAnswerReader


class ProgramReader(TableAnswerReader):
    """Answers questions about tables with the most likely programs that have a result."""

    TASK = "programs"

    def asked(self, question: TableQuestion) -> Any:
        return program_question(question, self._task.rules)

    def texts(self, question: TableQuestion, answer: Any) -> tuple[str, str]:
        return answer.program.text(question.table.header), ", ".join(result_texts(answer.result))


READER = ProgramReader
