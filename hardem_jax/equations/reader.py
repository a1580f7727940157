"""A trained model that answers questions about numbers in passages of your own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from hardem_jax.equations.examples import NumericExample
from hardem_jax.equations.models import NumericQuestions
from hardem_jax.equations.records import numeric_question
from hardem_jax.equations.solutions.enumeration import execute_equation, format_number
from hardem_jax.equations.solutions.text import formula, mentions
from hardem_jax.errors import InputError
from hardem_jax.task.reader import AnswerReader, note


@dataclasses.dataclass(frozen=True, kw_only=True)
class NumberAnswer:
    """A number and the equation that gives it.

    Attributes:
        text: the number; "too large" where it is none that float64 holds.
        probability: P(z | x) of the equation.
        equation: such as "41 - 38".
        sentences: where its numbers are, each in brackets.
    """

    text: str
    probability: float
    equation: str
    sentences: tuple[str, ...]

    def as_json(self, names: Sequence[str] = ()) -> dict[str, Any]:
        """All of it."""
        del names
        return dataclasses.asdict(self)

    def lines(self, names: Sequence[str] = (), *, brief: bool = False) -> list[str]:
        """The number with its equation, then, unless ``brief``, the sentences."""
        del names
        first = f"{self.probability:6.1%}  {self.text} = {self.equation}"
        return [first, *(() if brief else self.sentences)]


class NumberReader(AnswerReader[str, NumberAnswer]):
    """Answers questions by calculating with the numbers of a passage.

    Create one with `from_examples` or `from_run`. A model reads off at most ``inference.top``
    equations of a question.

    Example:
        >>> reader = NumberReader.from_run("runs/drop")  # doctest: +SKIP
        >>> for answer in reader.answer("How many yards longer?", passage):  # doctest: +SKIP
        ...     print(f"{answer.probability:.0%} {answer.text} = {answer.equation}")
        71% 3 = 41 - 38
    """

    TASK = "equations"

    def _answers(self, asked: Sequence[tuple[str, str]], top: int) -> list[list[NumberAnswer]]:
        rules, numbers = self._task.rules, self._task.numbers
        questions = [
            numeric_question(
                NumericExample(str(n), str(n), text, question, None, ()), numbers, rules
            )
            for n, (question, text) in enumerate(asked)
        ]
        inputs = self._model.inputs(NumericQuestions(questions=questions, rules=rules))
        found: list[list[NumberAnswer]] = [[] for _ in questions]
        for index, reading in self._read(inputs):
            question = questions[index]
            cut = len(question.kinds) - len(inputs[index].kinds)
            lost = f"text too long for the model; {cut} number{'s' * (cut > 1)} left out"
            if not len(reading.equations):
                problem = "expected numbers to calculate with, found none"
                problem = f"question {index}: {problem}" if len(asked) > 1 else problem
                raise InputError(f"{problem}; {lost}" if cut else problem)
            if cut:
                note(lost)
            values = execute_equation(reading.equations, question.table, rules)
            for rank in range(min(top, len(values))):
                equation, value = reading.equations[rank], values[rank]
                is_number = bool(np.isfinite(value))
                answer = NumberAnswer(
                    text=format_number(value, rules.digits) if is_number else "too large",
                    probability=float(np.exp(reading.log_probs[rank])),
                    equation=formula(equation, question.table, rules),
                    sentences=tuple(mentions(equation, question)),
                )
                found[index].append(answer)
        return found


READER = NumberReader
