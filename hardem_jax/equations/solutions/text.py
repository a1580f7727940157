"""Equations as formulas for people."""

from __future__ import annotations

import numpy as np

from hardem_jax.equations.solutions.enumeration import NumberTable, format_number
from hardem_jax.equations.solutions.rules import COUNT, MINUS, PERCENT, SPECIAL, EquationRules

# Numbers are shown in full, not rounded as answers are.
_DIGITS = 15


def formula(equation: np.ndarray, numbers: NumberTable, rules: EquationRules) -> str:
    """Formats an equation as text, such as "41 - 38", with special numbers in braces."""
    n1, o1, n2, o2 = (int(x) for x in equation)
    if o1 == COUNT:
        return f"count {n1}"
    terms = [(n1, o1)] + ([(n2, o2)] if n2 >= 0 else [])
    if rules.is_product(o1, o2):
        text = " * ".join(number_text(slot, operator, numbers) for slot, operator in terms)
        return f"- {text}" if MINUS in (o1, o2) else text
    # Positive terms first: "41 - 38" whichever number comes first in the text.
    terms.sort(key=lambda term: term[1] == MINUS)
    signs = ["- " if operator == MINUS else "+ " for _, operator in terms]
    words = [sign + number_text(*term, numbers) for sign, term in zip(signs, terms, strict=True)]
    return " ".join(words).removeprefix("+ ")


def number_text(slot: int, operator: int, numbers: NumberTable) -> str:
    """Formats a number of an equation, without its sign."""
    text = format_number(numbers.values[slot], _DIGITS)
    text = f"{{{text}}}" if numbers.kinds[slot] == SPECIAL else text
    return f"{text} %" if operator == PERCENT else text
