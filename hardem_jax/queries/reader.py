"""A trained parser that answers questions about tables of your own with queries."""

from __future__ import annotations

from typing import Any

from hardem_jax.queries.records import unsolved
from hardem_jax.queries.solutions.engine import execute_sql, statement
from hardem_jax.queries.solutions.values import ExecutionError
from hardem_jax.queries.task import cells_text
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.reader import TableAnswerReader


class TableReader(TableAnswerReader):
    """Answers questions about tables with queries, as the run decodes them.

    Create one with `from_examples` or `from_run`. A table is the path of a CSV file, a pandas
    DataFrame, or rows of cells, the first of them the names of the columns.

    Example:
        >>> reader = TableReader.from_run("runs/wikisql")  # doctest: +SKIP
        >>> reader.answer("Who scored most?", "players.csv")[0].text  # doctest: +SKIP
        'Bo'
    """

    TASK = "queries"

    def asked(self, question: TableQuestion) -> Any:
        return unsolved(question)

    def texts(self, question: TableQuestion, answer: Any) -> tuple[str, str]:
        """SQL, or readable text and no result if it cannot be executed."""
        table, query = question.table, answer.query
        try:
            sql = statement(table, query)
        except ExecutionError:
            sql = query.text(table.header)
        if answer.result is None:
            return sql, "no result"
        return sql, cells_text(execute_sql(table, query, as_written=True), most=None)


READER = TableReader
