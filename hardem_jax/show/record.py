"""A question with Z and P(z | x), ready to be drawn."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from hardem_jax.errors import printable

#: From `Entry.line` of all of Z to the indices of those to show.
Choose = Callable[[Sequence[str]], Sequence[int]]
Look = Literal["solution", "candidate", "unread", "predicted"]

#: In place of a column: the number of a row, which a program may select, compare or count.
ROW_NUMBER = -1
#: Characters on each side of a mention that `in_context` keeps.
_AROUND = 24


@dataclasses.dataclass(frozen=True)
class Mark:
    """A span of a text, and the positions in `Record.solutions` of those that use it, or the
    numbers of the predictions that it is a part of."""

    start: int
    end: int
    solutions: tuple[int, ...] = ()
    look: Look = "solution"


@dataclasses.dataclass(frozen=True)
class Text:
    """A text with marks; ``numbered`` writes the numbers of the solutions at their marks, ``place``
    is its document and its first character there, for `with_predictions`."""

    label: str
    text: str
    marks: Sequence[Mark]
    numbered: bool = True
    place: tuple[int, int] = (0, 0)


@dataclasses.dataclass(frozen=True)
class Cells:
    """The column and rows of a solution's result, and columns with the rows that it compares."""

    select: int
    rows: Sequence[int]
    compared: Sequence[tuple[int, Sequence[int]]]


@dataclasses.dataclass(frozen=True)
class Grid:
    """A table as people see it: ``header`` of its columns, their ``names`` in solutions, whether
    each is ``numeric``, and the texts of its cells; None is NULL."""

    header: Sequence[str]
    names: Sequence[str]
    numeric: Sequence[bool]
    rows: Sequence[Sequence[str | None]]


@dataclasses.dataclass(frozen=True)
class Entry:
    """A solution: its index in Z, its text and place, and the text among its neighbours."""

    number: int
    text: str
    place: str = ""
    context: str = ""
    cells: Cells | None = None

    @property
    def line(self) -> str:
        """What tells it from others without a document."""
        return self.context or self.text


@dataclasses.dataclass(frozen=True)
class Moment:
    """P(z | x) of each solution after a training step, and the prediction of Z_tot. A probability
    is None if the model did not read z. ``predicted`` is an index of `Record.solutions`, or -1."""

    probabilities: Sequence[float | None]
    step: str = ""
    run: str = ""
    prediction: str = ""
    probability: float = 0.0
    predicted: int = -1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """A question with all of Z or a part of it.

    Attributes:
        title, answer, notes: the first lines; ``answer`` where the title does not say it.
        solutions: in the order of Z.
        size: |Z|, of which ``solutions`` may be a part.
        texts, table: what is read.
        moments: what a model says, at one or several times.
        true: position of the true solution; -1 if it is unknown or not there.
    """

    title: str
    solutions: Sequence[Entry]
    size: int
    answer: str = ""
    notes: Sequence[str] = ()
    texts: Sequence[Text] = ()
    table: Grid | None = None
    moments: Sequence[Moment] = ()
    true: int = -1

    def order(self) -> list[int]:
        """Positions of the solutions, those first that are the most likely on average."""

        def chance(place: int) -> float:
            return sum(moment.probabilities[place] or 0.0 for moment in self.moments)

        return sorted(range(len(self.solutions)), key=lambda place: -chance(place))

    def of_question(self, question: str, answer: str, numbers: Sequence[int], size: int) -> Record:
        """The same under the question, with solutions that are these ones of a larger Z."""
        pairs = zip(self.solutions, numbers, strict=True)
        solutions = [dataclasses.replace(entry, number=number) for entry, number in pairs]
        return dataclasses.replace(
            self, title=question, answer=answer, notes=(), solutions=solutions, size=size
        )

    def outside(self) -> list[str]:
        """Predictions that are no solution, the six most frequent."""
        texts = Counter(m.prediction for m in self.moments if m.predicted < 0 and m.prediction)
        return [text for text, _ in texts.most_common(6)]

    def strength(self, places: Sequence[int]) -> float:
        """A shade: P(one of these is meant), or without a model their share of Z, lifted."""
        if self.moments:
            chances = self.moments[-1].probabilities
            return min(1.0, sum(chances[place] or 0.0 for place in places))
        return 0.35 + 0.5 * len(places) / max(1, len(self.solutions))


@dataclasses.dataclass(frozen=True)
class View:
    """What a model says about a question at one moment, as ``watched/<step>.json`` has it.

    ``solutions`` are `Entry.line` of each z that was read, in the order of Z, with their
    ``probabilities`` and ``places`` in Z, () where texts tell them; ``true`` is the index of the
    true one, -1 if it is unknown or not there. ``prediction`` is the text of the most likely
    solution of Z_tot with its ``probability`` and its index in ``solutions``, ``predicted``, or -1.
    ``spans``, which the file lacks, are its parts of what is read: document, first character and
    exclusive end.
    """

    id: str
    question: str
    answer: str
    solutions: Sequence[str]
    probabilities: Sequence[float]
    true: int
    prediction: str
    probability: float
    predicted: int
    spans: Sequence[tuple[int, int, int]] = ()
    places: Sequence[int] = ()


def record_of_views(panels: Mapping[str, Mapping[int, View]]) -> Record:
    """One question through training."""
    moments = [
        Moment(v.probabilities, f"{step:,}", run, v.prediction, v.probability, v.predicted)
        for run, steps in panels.items()
        for step, v in steps.items()
    ]
    view = next(view for steps in panels.values() for view in steps.values())
    return Record(
        title=view.question,
        answer=view.answer,
        solutions=[Entry(number, text) for number, text in enumerate(view.solutions)],
        size=len(view.solutions),
        moments=moments,
        true=view.true,
    )


def with_predictions(
    record: Record, predictions: Sequence[Sequence[tuple[int, int, int]]]
) -> Record:
    """The record with marks where the spans of predictions are, see `View`."""
    texts = []
    for text in record.texts:
        document, begin = text.place
        found = [
            Mark(start - begin, end - begin, (number,), "predicted")
            for number, spans in enumerate(predictions)
            for owner, start, end in spans
            if owner == document and begin <= start and end <= begin + len(text.text)
        ]
        texts.append(dataclasses.replace(text, marks=[*text.marks, *found]))
    return dataclasses.replace(record, texts=texts)


def everything(lines: Sequence[str]) -> Sequence[int]:
    """Chooses all of Z."""
    return range(len(lines))


def uses(spans: Sequence[Sequence[tuple[int, int]]]) -> list[Mark]:
    """Marks for the spans of each solution, one for each different span."""
    found: dict[tuple[int, int], dict[int, None]] = {}
    for place, own in enumerate(spans):
        for span in own:
            found.setdefault(span, {})[place] = None
    return [Mark(*span, tuple(places)) for span, places in found.items()]


def segments(length: int, marks: Sequence[Mark]) -> Iterator[tuple[int, int, list[int]]]:
    """Cuts a text wherever a mark begins or ends.

    Example:
        >>> list(segments(9, [Mark(2, 6), Mark(4, 9)]))
        [(0, 2, []), (2, 4, [0]), (4, 6, [0, 1]), (6, 9, [1])]
    """
    begins: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for index, mark in enumerate(marks):
        begins.setdefault(mark.start, []).append(index)
        ends.setdefault(mark.end, []).append(index)
    cuts = sorted({0, length, *begins, *ends})
    over: dict[int, None] = {}
    for start, end in zip(cuts, cuts[1:], strict=False):
        for index in ends.get(start, ()):
            del over[index]
        over |= dict.fromkeys(begins.get(start, ()))
        yield start, end, list(over)


def in_context(text: str, start: int, end: int) -> str:
    """A span among its neighbours, on one line."""
    before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
    return " ".join(f"...{before}[{text[start:end]}]{after}...".split())


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: "1 query", "1,200 spans"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def index_of(rows: np.ndarray, row: np.ndarray) -> int:
    """Where a row is among others; -1 if nowhere."""
    return int(next(iter(np.flatnonzero((rows == row).all(axis=1))), -1))


def places_in(rows: np.ndarray, read: np.ndarray) -> list[int]:
    """Where the rows of a part are among all."""
    places = {tuple(row): place for place, row in enumerate(rows.tolist())}
    return [places[tuple(row)] for row in read.tolist()]


_WIDTH = 60


def as_text(record: Record, *, most: int = 12, width: int = _WIDTH) -> str:
    """Title, notes, and a line for each of the ``most`` likely solutions."""
    notes = [f"answer: {record.answer}"] if record.answer else []
    lines = [record.title, *(f"  {note}" for note in (*notes, *record.notes))]
    lines = list(map(printable, lines))
    rows = []
    shown = record.order()[:most]
    for place in shown:
        entry = record.solutions[place]
        chances = [moment.probabilities[place] for moment in record.moments]
        texts = ["" if p is None else f"{p:.3f}" for p in chances]
        line = printable(entry.line)
        line = line if len(line) <= width else f"{line[: width - 3]}..."
        rows.append((f"[{entry.number}]", line, *texts, printable(entry.place)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(size) for cell, size in zip(row, widths, strict=True) if size]
        lines.append("  " + "  ".join(cells).rstrip())
    if len(shown) < record.size:
        lines.append(f"  ... and {record.size - len(shown):,} more")
    return "\n".join(lines)
