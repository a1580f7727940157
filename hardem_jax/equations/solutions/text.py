"""Equations for people: formulas, and the sentences of their numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from hardem_jax.equations.examples import NumericQuestion
from hardem_jax.equations.solutions.enumeration import NumberTable, format_number
from hardem_jax.equations.solutions.rules import (
    COUNT,
    MINUS,
    PASSAGE,
    PERCENT,
    PLUS,
    SPECIAL,
    EquationRules,
)

# Numbers are shown in full, not rounded as answers are.
_DIGITS = 15
_END_OF_SENTENCE = re.compile(r"[.!?]\s+|\n")


def formula(equation: np.ndarray, numbers: NumberTable, rules: EquationRules) -> str:
    """Formats an equation as text, such as "41 - 38", with special numbers in braces."""
    n1, o1, _, o2 = (int(x) for x in equation)
    if o1 == COUNT:
        return f"count {n1}"
    terms = operands(equation, rules)
    if rules.is_product(o1, o2):
        text = " * ".join(number_text(slot, operator, numbers) for slot, operator in terms)
        return f"- {text}" if MINUS in (o1, o2) else text
    signs = ["- " if operator == MINUS else "+ " for _, operator in terms]
    words = [sign + number_text(*term, numbers) for sign, term in zip(signs, terms, strict=True)]
    return " ".join(words).removeprefix("+ ")


def operands(equation: np.ndarray, rules: EquationRules) -> list[tuple[int, int]]:
    """Slot and operator of the numbers of an equation, in the order of its formula; none of a
    count."""
    n1, o1, n2, o2 = (int(x) for x in equation)
    if o1 == COUNT:
        return []
    terms = [(slot, operator) for slot, operator in ((n1, o1), (n2, o2)) if slot >= 0]
    if not rules.is_product(o1, o2):
        # Positive terms first: "41 - 38" whichever number comes first in the text.
        terms.sort(key=lambda term: term[1] == MINUS)
    return terms


def number_text(slot: int, operator: int, numbers: NumberTable) -> str:
    """Formats a number of an equation, without its sign."""
    text = format_number(numbers.values[slot], _DIGITS)
    text = f"{{{text}}}" if numbers.kinds[slot] == SPECIAL else text
    return f"{text} %" if operator == PERCENT else text


def mentions(equation: np.ndarray, question: NumericQuestion) -> Iterator[str]:
    """Yields the sentence that each number of an equation comes from, with the number in
    brackets."""
    n1, o1, n2, _ = (int(x) for x in equation)
    num_special = len(question.values) - len(question.spans)
    for slot in () if o1 == COUNT else sorted({n1, n2} - {-1}):
        if slot < num_special:
            yield f"{number_text(slot, PLUS, question.table)} is one of the special numbers"
            continue
        text = question.passage if question.kinds[slot] == PASSAGE else question.question
        start, end = (int(x) for x in question.spans[slot - num_special])
        first = max((m.end() for m in _END_OF_SENTENCE.finditer(text[:start])), default=0)
        after = re.search(r"[.!?](\s|$)|\n", text[end:])
        last = end + after.start() + 1 if after else len(text)
        yield " ".join(f"{text[first:start]}[{text[start:end]}]{text[end:last]}".split())
