"""What is marked where: one question with some of its Z, by kind of data."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any

from hardem_jax.analysis.equation_text import describe
from hardem_jax.cli.spans import mention
from hardem_jax.data.prepared.windows import Window
from hardem_jax.notebook.equations import stored_equations
from hardem_jax.notebook.marks import Mark
from hardem_jax.notebook.queries import cell_text, stored_queries
from hardem_jax.solutions.programs.types import Program
from hardem_jax.solutions.sql.types import Query, Table


@dataclasses.dataclass(frozen=True)
class Text:
    """A text with marks.

    Attributes:
        label: "Passage".
        text: all of it.
        marks: their solutions are numbers in the drawing.
    """

    label: str
    text: str
    marks: Sequence[Mark]


@dataclasses.dataclass(frozen=True)
class Cells:
    """What a query does with its table: the column that it selects, those it compares, its rows."""

    select: int
    compared: tuple[int, ...]
    rows: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Drawing:
    """A question with some of its Z.

    Attributes:
        solutions: text and place of each.
        texts: documents, or passage and question.
        table: None without.
        cells: of each solution; empty if a solution is not a query.
    """

    solutions: Sequence[tuple[str, str]]
    texts: Sequence[Text]
    table: Table | None = None
    cells: Sequence[Cells] = ()


class Drawer(abc.ABC):
    """Draws questions of one kind.

    Args:
        data: the `hardem_jax.tasks.base.Questions`.
    """

    def __init__(self, data: Any):
        self.data = data

    @abc.abstractmethod
    def answer(self, index: int) -> str:
        """The answer for people."""

    @abc.abstractmethod
    def texts(self, index: int) -> list[str]:
        """All of Z as `hardem_jax.analysis.views.View` writes it, in the order of Z."""

    @abc.abstractmethod
    def size(self, index: int) -> int:
        """|Z| before any cap."""

    @abc.abstractmethod
    def draw(self, index: int, chosen: Sequence[int]) -> Drawing:
        """The question with these solutions, by index in Z."""


class SpanDrawer(Drawer):
    """Mentions in documents; of these a split holds the windows, which are joined again."""

    def __init__(self, data: Any):
        super().__init__(data)
        self._windows: list[list[int]] = [[] for _ in data.questions]
        for place, number in enumerate(data.places[:, 0]):
            self._windows[number].append(place)

    def answer(self, index: int) -> str:
        return "; ".join(dict.fromkeys(self.data.questions[index].golds))

    def _mentions(self, index: int) -> tuple[list[Window], dict[tuple[int, int, int], str]]:
        windows = [self.data.windows[place] for place in self._windows[index]]
        found: dict[tuple[int, int, int], str] = {}
        for window in windows:
            for z in range(len(window.solutions)):
                found.setdefault(*mention(window, z))
        return windows, found

    def texts(self, index: int) -> list[str]:
        return list(self._mentions(index)[1].values())

    def size(self, index: int) -> int:
        return self.data.questions[index].num_solutions

    def draw(self, index: int, chosen: Sequence[int]) -> Drawing:
        windows, found = self._mentions(index)
        spans = [[*found][z] for z in chosen]
        pieces = joined(windows)
        documents = len({document for document, _, _ in pieces})
        texts, solutions = [], []
        for document, begin, text in pieces:
            end = begin + len(text)
            name = "Document" if documents == 1 else f"Document {document + 1}"
            place = f", characters {begin:,}-{end:,}" if begin else ""
            marks = [
                Mark(a - begin, b - begin, (z,))
                for z, (owner, a, b) in enumerate(spans)
                if owner == document and begin <= a and b <= end
            ]
            texts.append(Text(f"{name}{place}", text, marks))
        by_document = {(d, begin): text for d, begin, text in pieces}
        for document, a, b in spans:
            begin = max(start for d, start in by_document if d == document and start <= a)
            text = by_document[document, begin][a - begin : b - begin]
            where = f"{document + 1}: " if documents > 1 else ""
            solutions.append((text, f"{where}{a:,}-{b:,}"))
        return Drawing(solutions, texts)


def joined(windows: Sequence[Window]) -> list[tuple[int, int, str]]:
    """The texts that windows cover: document, first character and text of each stretch."""
    pieces: list[tuple[int, int, str]] = []
    for window in sorted(windows, key=lambda w: (w.document, w.text_start, len(w.text))):
        if pieces:
            document, begin, text = pieces[-1]
            gap = window.text_start - (begin + len(text))
            if document == window.document and gap <= 0:
                # What is new of it; nothing if the stretch holds all of it already.
                pieces[-1] = document, begin, text + window.text[-gap:]
                continue
        pieces.append((window.document, window.text_start, window.text))
    return pieces


class EquationDrawer(Drawer):
    """Equations over the numbers of a passage."""

    def answer(self, index: int) -> str:
        golds = self.data.questions[index].golds
        return golds[0]["number"] if golds else ""

    def texts(self, index: int) -> list[str]:
        question = self.data.questions[index]
        return [describe(row, question, self.data.rules) for row in question.equations]

    def size(self, index: int) -> int:
        return len(self.data.questions[index].equations)

    def draw(self, index: int, chosen: Sequence[int]) -> Drawing:
        question = self.data.questions[index]
        part = dataclasses.replace(question, equations=question.equations[list(chosen)])
        z = stored_equations(part, 0.0, self.data.rules)  # the answer is shown elsewhere
        texts = [
            Text("Passage", question.passage, z.marks("passage")),
            Text("Question", question.question, z.marks("question")),
        ]
        return Drawing([(one.text, z.place(i)) for i, one in enumerate(z)], texts)


class QueryDrawer(Drawer):
    """Queries on a table."""

    def answer(self, index: int) -> str:
        return ", ".join(map(cell_text, self.data.questions[index].answer))

    def texts(self, index: int) -> list[str]:
        question = self.data.questions[index]
        header = self.data.tables[question.table_id].header
        rows = question.queries
        queries = (Query.from_row(row, question.question, question.words) for row in rows)
        return [query.text(header) for query in queries]

    def size(self, index: int) -> int:
        return self.data.questions[index].num_queries

    def draw(self, index: int, chosen: Sequence[int]) -> Drawing:
        question = self.data.questions[index]
        table = self.data.tables[question.table_id]
        part = dataclasses.replace(question, queries=question.queries[list(chosen)])
        z = stored_queries(part, table, self.data.rules)
        cells = [
            Cells(
                one.query.select,
                tuple(dict.fromkeys(c.column for c in one.query.conditions)),
                one.rows,
            )
            for one in z
        ]
        solutions = [(one.text, z.place(i)) for i, one in enumerate(z)]
        return Drawing(solutions, [Text("Question", question.question, z.marks())], table, cells)


class ProgramDrawer(Drawer):
    """Programs on a table, as text."""

    def answer(self, index: int) -> str:
        return ", ".join(self.data.questions[index].answer)

    def _programs(self, index: int, chosen: Sequence[int]) -> list[str]:
        from hardem_jax.tasks.tables.programs import links_of  # imports jax

        question = self.data.questions[index]
        table = self.data.tables[question.table_id]
        links = links_of(question, table, self.data.rules)
        rows = (question.programs[z] for z in chosen)
        return [Program.from_row(row, links).text(table.header) for row in rows]

    def texts(self, index: int) -> list[str]:
        return self._programs(index, range(len(self.data.questions[index].programs)))

    def size(self, index: int) -> int:
        return self.data.questions[index].num_programs

    def draw(self, index: int, chosen: Sequence[int]) -> Drawing:
        question = self.data.questions[index]
        table = self.data.tables[question.table_id]
        solutions = [(text, "") for text in self._programs(index, chosen)]
        return Drawing(solutions, [Text("Question", question.question, ())], table)


#: Name of the task -> what draws its questions.
DRAWERS: dict[str, type[Drawer]] = {
    "spans": SpanDrawer,
    "equations": EquationDrawer,
    "queries": QueryDrawer,
    "programs": ProgramDrawer,
}
