"""What a formula leaves out: the sentences of its numbers, and what the model does not see."""

import re
from collections.abc import Iterator

import numpy as np

from hardem_jax.equations.examples import NumericQuestion
from hardem_jax.equations.solutions.enumeration import (
    COUNT,
    PASSAGE,
    PLUS,
)
from hardem_jax.equations.solutions.numbers import NumberConfig, has_overflow
from hardem_jax.equations.solutions.text import number_text

_END_OF_SENTENCE = re.compile(r"[.!?]\s+|\n")


def mentions(equation: np.ndarray, question: NumericQuestion) -> Iterator[str]:
    """Yields the sentence that each number of an equation comes from, with the number in
    brackets."""
    n1, o1, n2, _ = (int(x) for x in equation)
    num_special = len(question.values) - len(question.spans)
    for slot in () if o1 == COUNT else sorted({n1, n2} - {-1}):
        if slot < num_special:
            yield f"{number_text(slot, PLUS, question.table)} is one of the special numbers"
            continue
        in_passage = question.kinds[slot] == PASSAGE
        text = question.passage if in_passage else question.question
        start, end = (int(x) for x in question.spans[slot - num_special])
        first = max((m.end() for m in _END_OF_SENTENCE.finditer(text[:start])), default=0)
        after = re.search(r"[.!?](\s|$)|\n", text[end:])
        last = end + after.start() + 1 if after else len(text)
        yield " ".join(f"{text[first:start]}[{text[start:end]}]{text[end:last]}".split())


def left_out(question: NumericQuestion, kinds: np.ndarray, numbers: NumberConfig) -> Iterator[str]:
    """Yields warnings about parts of a question that the model does not see; ``kinds`` are those of
    its input."""
    cut = int(np.count_nonzero(kinds < 0))
    if cut:
        yield f"text too long for the model; {cut} number{'s' * (cut > 1)} left out"
    if any(has_overflow(text, numbers) for text in (question.passage, question.question)):
        yield "numbers too large for float64 left out"
