"""What is marked where: one question with some of its Z, by kind of data."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any

from hardem_jax.analysis.equation_text import describe
from hardem_jax.cli.spans import mention
from hardem_jax.data.inputs.taggings import marked_text, marked_tokens, window_with_z
from hardem_jax.data.prepared.windows import Window
from hardem_jax.notebook.equations import stored_equations
from hardem_jax.notebook.marks import Mark
from hardem_jax.notebook.queries import cell_text, rows_text, stored_queries
from hardem_jax.solutions.programs.execute import rows_of_program
from hardem_jax.solutions.programs.types import Field, Links, Program
from hardem_jax.solutions.sql.columns import mask_rows
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


#: In place of a column: the number of a row, which a program may select, compare or count.
ROW_NUMBER = -1


@dataclasses.dataclass(frozen=True)
class Cells:
    """What a solution does with its table.

    Attributes:
        select: the column that it takes its result from, or `ROW_NUMBER`.
        rows: those of its result.
        compared: columns, or `ROW_NUMBER`, each with the rows where it decides something.
    """

    select: int
    rows: tuple[int, ...]
    compared: tuple[tuple[int, tuple[int, ...]], ...]


@dataclasses.dataclass(frozen=True)
class Drawing:
    """A question with some of its Z.

    Attributes:
        solutions: text and place of each.
        texts: documents, or passage and question.
        table: None without.
        cells: of each solution; empty without a table.
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


class _WindowDrawer(Drawer):
    """Parts of documents; of these a split holds the windows, which are joined again."""

    def __init__(self, data: Any):
        super().__init__(data)
        self._windows: list[list[int]] = [[] for _ in data.questions]
        for place, number in enumerate(data.places[:, 0]):
            self._windows[number].append(place)

    def windows(self, index: int) -> list[Window]:
        return [self.data.windows[place] for place in self._windows[index]]

    def size(self, index: int) -> int:
        return self.data.questions[index].num_solutions


class SpanDrawer(_WindowDrawer):
    """Mentions in documents."""

    def answer(self, index: int) -> str:
        return "; ".join(dict.fromkeys(self.data.questions[index].golds))

    def _mentions(self, index: int) -> tuple[list[Window], dict[tuple[int, int, int], str]]:
        windows = self.windows(index)
        found: dict[tuple[int, int, int], str] = {}
        for window in windows:
            for z in range(len(window.solutions)):
                found.setdefault(*mention(window, z))
        return windows, found

    def texts(self, index: int) -> list[str]:
        return list(self._mentions(index)[1].values())

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
        for span in spans:
            document, a, b = span
            if a < 0:
                solutions.append((found[span], "in front of every window"))
                continue
            begin = max(start for d, start in by_document if d == document and start <= a)
            text = by_document[document, begin][a - begin : b - begin]
            where = f"{document + 1}: " if documents > 1 else ""
            solutions.append((text, f"{where}{a:,}-{b:,}"))
        return Drawing(solutions, texts)


class TaggingDrawer(_WindowDrawer):
    """Sets of mentions in a window of a document, the one with the largest Z."""

    #: Taggings of a question that are shown; a run is trained on no more by default.
    LIMITS = {"max_mentions": 32, "max_taggings": 128}

    def answer(self, index: int) -> str:
        return ", ".join(dict.fromkeys(self.data.questions[index].golds))

    def _marked(self, index: int) -> tuple[list[Window], Window | None, list[Any]]:
        """All windows; the one with Z, and what each z marks there."""
        windows = self.windows(index)
        chosen = window_with_z(windows)
        if chosen is None:
            return windows, None, []
        return windows, windows[chosen], marked_tokens(windows[chosen], **self.LIMITS)

    def texts(self, index: int) -> list[str]:
        _, window, marked = self._marked(index)
        return [marked_text(window, spans) for spans in marked if window is not None]

    def draw(self, index: int, chosen: Sequence[int]) -> Drawing:
        windows, window, marked = self._marked(index)
        uses: dict[tuple[int, int], list[int]] = {}
        solutions = []
        for number, z in enumerate(chosen):
            assert window is not None
            places = [window.place(*span)[1:] for span in marked[z]]
            for place in places:
                uses.setdefault(place, []).append(number)
            where = ", ".join(f"{a:,}-{b:,}" for a, b in places)
            solutions.append((marked_text(window, marked[z]), where))
        texts = []
        for document, begin, text in joined(windows):
            end = begin + len(text)
            own = window is not None and document == window.document
            marks = [
                Mark(a - begin, b - begin, tuple(used))
                for (a, b), used in sorted(uses.items())
                if own and begin <= a and b <= end
            ]
            place = f", characters {begin:,}-{end:,}" if begin else ""
            texts.append(Text(f"Document{place}", text, marks))
        return Drawing(solutions, texts)


def joined(windows: Sequence[Window]) -> list[tuple[int, int, str]]:
    """The texts that windows cover: document, first character and text of each stretch."""
    pieces: list[tuple[int, int, str]] = []
    for window in sorted(windows, key=lambda w: (w.document, w.text_start, len(w.text))):
        own = window.text[window.lead :]
        if pieces:
            document, begin, text = pieces[-1]
            gap = window.text_start - (begin + len(text))
            if document == window.document and gap <= 0:
                # What is new of it; nothing if the stretch holds all of it already.
                pieces[-1] = document, begin, text + own[-gap:]
                continue
        pieces.append((window.document, window.text_start, own))
    return pieces


class DocumentDrawer(Drawer):
    """Mentions in the documents of a build, of which no tokenizer has cut windows."""

    def answer(self, index: int) -> str:
        return "; ".join(dict.fromkeys(self.data.questions[index].golds))

    def texts(self, index: int) -> list[str]:
        example = self.data.questions[index]
        return [example.documents[n].text[a:b] for n, a, b in example.mentions]

    def size(self, index: int) -> int:
        return len(self.data.questions[index].mentions)

    def draw(self, index: int, chosen: Sequence[int]) -> Drawing:
        example = self.data.questions[index]
        spans = [example.mentions[z] for z in chosen]
        texts = []
        for number, document in enumerate(example.documents):
            own = [(z, a, b) for z, (n, a, b) in enumerate(spans) if n == number]
            size = len(document.text)
            for begin, end in surroundings([(a, b) for _, a, b in own], size):
                place = "" if (begin, end) == (0, size) else f", characters {begin:,}-{end:,}"
                if place:
                    place += f" of {size:,}"
                name = "Document" if len(example.documents) == 1 else f"Document {number + 1}"
                marks = [Mark(a - begin, b - begin, (z,)) for z, a, b in own if begin <= a < end]
                texts.append(Text(name + place, document.text[begin:end], marks))
        several = len(example.documents) > 1
        solutions = [
            (
                example.documents[n].text[a:b],
                f"{f'{n + 1}: ' if several else ''}{a:,}-{b:,}",
            )
            for n, a, b in spans
        ]
        return Drawing(solutions, texts)


def surroundings(
    spans: Sequence[tuple[int, int]], size: int, margin: int = 5000
) -> list[tuple[int, int]]:
    """The stretches of a text around some spans, or its beginning without any.

    Example:
        >>> surroundings([(2, 4), (30, 31)], 99, margin=5), surroundings([], 99, margin=5)
        ([(0, 9), (25, 36)], [(0, 10)])
    """
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans) or [(margin, margin)]:
        begin, stop = max(0, start - margin), min(size, end + margin)
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        else:
            found.append((begin, stop))
    return found


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
                one.rows,
                tuple((c, one.rows) for c in dict.fromkeys(c.column for c in one.query.conditions)),
            )
            for one in z
        ]
        solutions = [(one.text, z.place(i)) for i, one in enumerate(z)]
        return Drawing(solutions, [Text("Question", question.question, z.marks())], table, cells)


class ProgramDrawer(Drawer):
    """Programs on a table."""

    def answer(self, index: int) -> str:
        return ", ".join(self.data.questions[index].answer)

    def _asked(self, index: int) -> tuple[Any, Table, Links]:
        from hardem_jax.tasks.tables.programs import links_of  # imports jax

        question = self.data.questions[index]
        table = self.data.tables[question.table_id]
        return question, table, links_of(question, table, self.data.rules)

    def texts(self, index: int) -> list[str]:
        question, table, links = self._asked(index)
        return [Program.from_row(row, links).text(table.header) for row in question.programs]

    def size(self, index: int) -> int:
        return self.data.questions[index].num_programs

    def draw(self, index: int, chosen: Sequence[int]) -> Drawing:
        question, table, links = self._asked(index)
        uses: dict[tuple[int, int], list[int]] = {}  # words of the question -> programs
        solutions, cells = [], []
        for number, row in enumerate(question.programs[list(chosen)]):
            program = Program.from_row(row, links)
            start, final = rows_of_program(table, row, links)
            places = [rows_text(rows, len(table.rows)) for rows in (start, final)]
            solutions.append((program.text(table.header), " → ".join(dict.fromkeys(places))))
            pair = row.tolist()[-2:][: len(program.links)]
            compared = [
                (link.field, mask_rows(links.masks[place]))
                for place, link in zip(pair, program.links, strict=True)
            ]
            if program.modify is not None:
                compared.append((program.modify, sorted({*start, *final})))
            cells.append(
                Cells(
                    _column(program.select, table),
                    final,
                    tuple((_column(field, table), tuple(rows)) for field, rows in compared),
                )
            )
            for link in program.links:
                if link.first >= 0:
                    uses.setdefault((link.first, link.last), []).append(number)
        marks = [
            Mark(int(question.words[a, 0]), int(question.words[b, 1]), tuple(dict.fromkeys(used)))
            for (a, b), used in uses.items()
        ]
        return Drawing(solutions, [Text("Question", question.question, marks)], table, cells)


def _column(field: Field | None, table: Table) -> int:
    """The column of a field; without a field the rows themselves are meant."""
    return ROW_NUMBER if field is None or field.column == len(table.header) else field.column


#: Name of the task -> what draws its questions.
DRAWERS: dict[str, type[Drawer]] = {
    "spans": SpanDrawer,
    "taggings": TaggingDrawer,
    "reading": DocumentDrawer,
    "equations": EquationDrawer,
    "queries": QueryDrawer,
    "programs": ProgramDrawer,
}
