"""Equations over the numbers of a passage, to look at."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from hardem_jax.data.batching.padding import fitting
from hardem_jax.equations.builds import DropNum
from hardem_jax.equations.examples import NumericExample, NumericQuestion
from hardem_jax.equations.inputs import at_slots
from hardem_jax.equations.readers import cut_after_words
from hardem_jax.equations.records import numeric_question, to_numeric_question
from hardem_jax.equations.solutions.enumeration import answer_value, format_number
from hardem_jax.equations.solutions.rules import (
    MINUS,
    PASSAGE,
    PERCENT,
    PLUS,
    QUESTION,
    SPECIAL,
    EquationRules,
)
from hardem_jax.equations.solutions.text import formula, operands
from hardem_jax.show.base import Solution, Z
from hardem_jax.show.record import (
    Choose,
    Entry,
    Mark,
    Record,
    Text,
    View,
    count,
    everything,
    index_of,
    places_in,
    uses,
)

Source = Literal["passage", "question", "special"]

_SOURCES: dict[int, Source] = {PASSAGE: "passage", QUESTION: "question", SPECIAL: "special"}
_SIGNS = {PLUS: "+", MINUS: "-", PERCENT: "%"}
_DEFAULT = DropNum()


@dataclasses.dataclass(frozen=True)
class Number:
    """A number of an equation, and its place in the passage or question; None for a constant.
    `sign` is "+", "-", or "%" for one hundredth of it, where the rules allow percentages."""

    value: float
    sign: str
    source: Source
    start: int | None
    end: int | None

    @property
    def span(self) -> tuple[int, int] | None:
        """Start and end; None for a constant."""
        return None if self.start is None or self.end is None else (self.start, self.end)


@dataclasses.dataclass(frozen=True)
class Equation(Solution):
    """An equation that gives the answer. `numbers` are one or two, as the formula has them, or none
    for a count. `row` is ``(n1, o1, n2, o2)`` as in training, see
    `hardem_jax.equations.solutions`."""

    numbers: tuple[Number, ...]
    row: tuple[int, int, int, int]


@dataclasses.dataclass(frozen=True, repr=False)
class Equations(Z[Equation]):
    """Z of a numeric question. `read` is how many characters of the passage were read. `candidates`
    are all numbers that were found: source, start and exclusive end."""

    passage: str
    question: str
    answer: float
    read: int
    candidates: tuple[tuple[Source, int, int], ...]

    def record(self) -> Record:
        notes = []
        if self.read < len(self.passage):
            rest = count(len(self.passage) - self.read, "character")
            notes.append(f"The last {rest} of the passage are not read.")
        if not len(self) and not self.is_slice:
            numbers = count(len(self.candidates), "number")
            notes.append(f"No equation over the {numbers} of the texts gives it.")
        return Record(
            title=f"{count(len(self), 'equation')} with the answer {format_number(self.answer)}",
            notes=notes,
            solutions=[Entry(i, z.text, _place(z)) for i, z in enumerate(self)],
            size=len(self),
            texts=[
                Text("Passage", self.passage, self._marks("passage")),
                Text("Question", self.question, self._marks("question"), place=(1, 0)),
            ],
            moments=self._moments(),
        )

    def _marks(self, source: Source) -> list[Mark]:
        """The numbers of one of the texts: those in use, those that are not, what is not read."""
        marks = uses([[n.span for n in z.numbers if n.source == source and n.span] for z in self])
        used = {(mark.start, mark.end) for mark in marks}
        others = {(a, b) for where, a, b in self.candidates if where == source} - used
        marks += [Mark(*span, look="candidate") for span in sorted(others)]
        if source == "passage" and self.read < len(self.passage):
            marks.append(Mark(self.read, len(self.passage), look="unread"))
        return marks


def _place(equation: Equation) -> str:
    places, previous = [], ""
    for n in equation.numbers:
        if n.source != "special":
            source = "" if n.source == previous else f"{n.source} "
            places.append(f"{source}{n.start}-{n.end}")
            previous = n.source
    return ", ".join(places)


def find_equations(
    passage: str, question: str, answer: float | str, options: DropNum = _DEFAULT
) -> Equations:
    """Finds every equation that gives the answer: Z of DROP (Min et al., 2019, section 4.2).

    Args:
        passage: its first 400 words are read, as in training on DROP.
        question: its numbers may be used, too.
        answer: a number or its text, as "83,000".
        options: what counts as a number and as an equation, and how much of a passage is read.

    Returns:
        The equations in reading order.

    Raises:
        InputError: the answer is no finite number.

    Example:
        >>> passage = "Longwell threw 41 yards, Favre 38 and Ryan 40."
        >>> z = find_equations(passage, "How many yards was Longwell ahead of Favre?", 3)
        >>> z
        1 equation with the answer 3
          [0]  41 - 38  passage 15-17, 31-33
        >>> z[0].numbers[1].value, z[0].numbers[1].sign, z[0].numbers[1].start
        (38.0, '-', 31)
    """
    value = answer_value(answer)
    read = len(passage)
    if options.max_words is not None:
        read = cut_after_words(passage, options.max_words)
    example = NumericExample("", "", passage[:read], question, value, ())
    found = numeric_question(example, options.numbers, options.rules)
    shown = stored_equations(found, value, options.rules)
    return dataclasses.replace(shown, passage=passage, read=read)


def stored_equations(found: NumericQuestion, answer: float, rules: EquationRules) -> Equations:
    """The equations of a question whose Z is known."""
    numbers = found.table
    solutions = tuple(
        Equation(
            formula(row, numbers, rules), tuple(_numbers(row, found, rules)), tuple(row.tolist())
        )
        for row in found.equations
    )
    kinds = found.kinds[len(found.values) - len(found.spans) :].tolist()
    candidates: tuple[tuple[Source, int, int], ...] = tuple(
        (_SOURCES[kind], start, end)
        for kind, (start, end) in zip(kinds, found.spans.tolist(), strict=True)
    )
    read = len(found.passage)
    return Equations(solutions, found.passage, found.question, answer, read, candidates)


def equation_record(
    question: NumericQuestion, rules: EquationRules, choose: Choose = everything
) -> Record:
    """A numeric question with its Z."""
    chosen = choose([formula(row, question.table, rules) for row in question.equations])
    part = dataclasses.replace(question, equations=question.equations[list(chosen)])
    record = stored_equations(part, 0.0, rules).record()
    answer = question.golds[0]["number"] if question.golds else ""
    return record.of_question(question.question, answer, chosen, len(question.equations))


def question_record(data: Any, index: int, choose: Choose = everything) -> Record:
    """A question of `hardem_jax.equations.models.NumericQuestions` with its Z."""
    return equation_record(data.questions[index], data.rules, choose)


def built_record(
    record: Mapping[str, Any], options: Mapping[str, Any], choose: Choose = everything
) -> Record:
    """A record of a build with its Z."""
    return equation_record(to_numeric_question(record), EquationRules(**options["rules"]), choose)


def _numbers(row: np.ndarray, question: NumericQuestion, rules: EquationRules) -> Iterator[Number]:
    num_special = len(question.values) - len(question.spans)
    for slot, operator in operands(row, rules):
        place = question.spans[slot - num_special].tolist() if slot >= num_special else (None, None)
        source = _SOURCES[int(question.kinds[slot])]
        yield Number(float(question.values[slot]), _SIGNS[operator], source, *place)


def views(
    task: Any, config: Any, data: Any, inputs: Any, readings: Sequence[tuple[int, Any]]
) -> list[View]:
    """What a model says about each question."""
    del config
    return [_view(task, data.questions[i], inputs[i], reading) for i, reading in readings]


def _view(task: Any, question: NumericQuestion, read: Any, reading: Any) -> View:
    # Those that the model reads in full and that its row has room for.
    kept = fitting(read.id, len(read.equations), len(reading.solutions))
    rows = at_slots(read.equations[kept], read.slots)
    found = len(reading.equations) > 0
    best = _numbers(reading.equations[0], question, task.rules) if found else ()
    return View(
        id=question.id,
        question=question.question,
        answer=question.golds[0]["number"],
        solutions=[formula(row, question.table, task.rules) for row in rows],
        probabilities=np.exp(reading.solutions).tolist(),
        true=reading.true_solution,
        prediction=formula(reading.equations[0], question.table, task.rules) if found else "",
        probability=float(np.exp(reading.log_probs[0])) if found else 0.0,
        predicted=index_of(rows, reading.equations[0]) if found else -1,
        spans=[(int(n.source == "question"), *n.span) for n in best if n.span],
        places=places_in(question.equations, rows),
    )
