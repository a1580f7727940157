"""Equations over the numbers of a text as solutions (Min et al., 2019, section 4.2, appendix A).

A question has a table of N numbers: the special numbers S, then those of the passage,
then those of the question, with a slot for every mention. A solution is an int32 row
``(n1, o1, n2, o2)``: two slots n1 < n2 with an operator each, and the value

    f(n1, o1, n2, o2) = o1(n1) + o2(n2),  where PLUS(n) = n, MINUS(n) = -n, PERCENT(n) = 0.01 n

or, if a percentage multiplies (``percent="factor"``), f = 0.01 * n1 * n2 with the other
operator's sign. A lone number is ``(n1, o1, -1, NONE)``. A count c, as in NAQANet (Dua et
al., 2019), is ``(c, COUNT, -1, NONE)`` with f = c.

f(z) equals y if |f(z) - y| <= 10^-digits / 2 (`EquationRules.digits`), with f in float64. So
2.3 - 1.1 equals 1.2, although its float64 value is slightly less. Five digits suffice up to
10^10; beyond that, float64 may lose fractions, and with them solutions.

Z is in reading order: passage before question before special numbers. Equations are sorted
by their first operand in this order, then by the second (a lone number before all pairs that
begin with it), then by the first operand's operator and the second's, in the order +, -, 0.01.
Counts come last. "First-only" takes the first of Z in this order.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hardem_jax.equations.solutions.numbers import NumberMention, parse_number
from hardem_jax.equations.solutions.rules import (
    COUNT,
    MINUS,
    NONE,
    PASSAGE,
    PERCENT,
    PLUS,
    QUESTION,
    SPECIAL,
    SPECIAL_NUMBERS,
    EquationRules,
)
from hardem_jax.errors import InputError

# Limits a temporary array to 8 MiB of float64, whatever N is.
_MAX_ELEMENTS = 2**20


@dataclasses.dataclass(frozen=True)
class NumberTable:
    """The numbers of one question, by slot; from `number_table`.

    Accepts lists as well as arrays.

    Attributes:
        values: ``[N]`` float64, finite.
        kinds: ``[N]`` int8, SPECIAL, PASSAGE or QUESTION, in this order.
    """

    values: np.ndarray
    kinds: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", np.asarray(self.values, np.float64))
        object.__setattr__(self, "kinds", np.asarray(self.kinds, np.int8))


def number_table(
    passage: Sequence[NumberMention],
    question: Sequence[NumberMention],
    special: Sequence[float] = SPECIAL_NUMBERS,
) -> NumberTable:
    """The table of a question: ``special``, then ``passage``, then ``question`` numbers.

    Args:
        passage: from `hardem_jax.equations.solutions.numbers.find_numbers`.
        question: also from `find_numbers`.
        special: S, distinct.

    Example:
        >>> from hardem_jax.equations.solutions.numbers import find_numbers
        >>> table = number_table(find_numbers("41, then 38"), find_numbers("by 3?"), special=(1, 2))
        >>> table.values.tolist(), table.kinds.tolist()
        ([1.0, 2.0, 41.0, 38.0, 3.0], [0, 0, 1, 1, 2])
    """
    values = [*special, *(m.value for m in passage), *(m.value for m in question)]
    sizes = (len(special), len(passage), len(question))
    kinds = np.repeat(np.array([SPECIAL, PASSAGE, QUESTION], np.int8), sizes)
    return NumberTable(np.array(values, np.float64), kinds)


def enumerate_equations(
    table: NumberTable, answer: float, rules: EquationRules | None = None
) -> np.ndarray:
    """Z: every equation of Z_tot whose value is the answer.

    Time grows with N^2. Memory grows only with Z: pairs are processed in blocks, in which a
    temporary array takes at most 8 MiB.

    Args:
        table: the numbers of the question.
        answer: y, a number or its text, such as "12.5" or "1,000".
        rules: Z_tot, and when f(z) equals y; None for the default.

    Returns:
        ``[Z, 4]`` int32 rows ``(n1, o1, n2, o2)`` in reading order, without duplicates.

    Raises:
        InputError: the answer is not a finite number.

    Example:
        >>> from hardem_jax.equations.solutions.numbers import find_numbers
        >>> table = number_table(find_numbers("41, then 38, then 40 and 37"), [], special=(3,))
        >>> enumerate_equations(table, 3).tolist()  # 41 - 38 and 40 - 37
        [[1, 1, 2, 2], [3, 1, 4, 2]]
    """
    answer = answer_value(answer)
    rules = rules or EquationRules()
    with np.errstate(over="ignore"):
        equations = np.concatenate([*_lone(table, answer, rules), *_pairs(table, answer, rules)])
    equations = equations[_reading_order(equations, table)]
    if rules.distinct_values:
        equations = equations[_first_per_value(equations, table)]
    counts = np.arange(-1 if rules.max_count is None else rules.max_count + 1)
    counts = counts[_is_answer(counts, answer, rules)]
    return np.concatenate([equations, _rows(counts, COUNT, -1, NONE)])


def execute_equation(
    equations: np.ndarray, table: NumberTable, rules: EquationRules | None = None
) -> np.ndarray:
    """f: the float64 values of equations; `format_number` rounds them.

    Args:
        equations: ``[Z, 4]`` integers.
        table: the numbers that the slots refer to.
        rules: define the meaning of PERCENT; None for the default.

    Returns:
        ``[Z]`` float64; inf where a value is too large.

    Example:
        >>> table = NumberTable(np.array([41.0, 38.0]), np.array([PASSAGE, PASSAGE], np.int8))
        >>> equations = np.array([[0, PLUS, 1, MINUS], [1, PLUS, -1, NONE], [7, COUNT, -1, NONE]])
        >>> execute_equation(equations, table).tolist()
        [3.0, 38.0, 7.0]
    """
    equations = np.asarray(equations)
    if not equations.size:
        return np.zeros(0)
    rules = rules or EquationRules()
    n1, o1, n2, o2 = equations.T
    # The 0 at the end is the other term of lone numbers, whose n2 is -1.
    values = np.append(table.values, 0.0)
    left, right = _term(values[np.where(o1 == COUNT, -1, n1)], o1), _term(values[n2], o2)
    with np.errstate(over="ignore"):
        result = np.where(rules.is_product(o1, o2), left * right, left + right)
    return np.where(o1 == COUNT, n1, result)


def answer_value(answer: Any) -> float:
    """An answer given as a number, NumPy scalar or text, such as "1,000", as float64.

    Raises:
        InputError: it is not a finite number.

    Example:
        >>> answer_value("83,000"), answer_value(3)
        (83000.0, 3.0)
    """
    try:
        value = parse_number(answer) if isinstance(answer, str) else float(answer)
    except OverflowError as error:
        raise InputError("answer: expected a finite number, found one beyond float64") from error
    except (TypeError, ValueError):
        value = None
    if value is None or not math.isfinite(value):
        raise InputError(f"answer: expected a finite number, found {answer!r:.60}")
    return value


def format_number(value: float, digits: int = 5) -> str:
    """Formats an answer: rounded to ``digits`` decimals, without trailing zeros.

    It has an exponent only where float64 does not hold all of its digits.

    Raises:
        InputError: the value is not finite.

    Example:
        >>> format_number(2.3 - 1.1), format_number(53000.0), format_number(-0.0)
        ('1.2', '53000', '0')
        >>> format_number(99999999999999999999999.0)
        '1e+23'
    """
    if not math.isfinite(value):
        raise InputError(f"value of an equation: expected a finite number, found {value}")
    # Adding 0 turns -0 into 0.
    text = np.format_float_positional(round(float(value), digits) + 0.0, trim="-")
    if abs(value) >= 2**53 and int(text) != int(value):
        return np.format_float_scientific(value, trim="-")
    return text


def _lone(table: NumberTable, answer: float, rules: EquationRules) -> Iterator[np.ndarray]:
    allowed = rules.lone_slots(table.kinds)
    for operator in rules.lone_operators():
        is_answer = _is_answer(_term(table.values, operator), answer, rules)
        yield _rows(np.flatnonzero(allowed & is_answer), operator, -1, NONE)


def _pairs(table: NumberTable, answer: float, rules: EquationRules) -> Iterator[np.ndarray]:
    """Yields the pairs in blocks, each for a range of n1 and one choice of operators."""
    terms = {operator: _term(table.values, operator) for operator in (PLUS, MINUS, PERCENT)}
    step = max(1, _MAX_ELEMENTS // max(1, len(table.values)))
    for start in range(0, len(table.values), step):
        block = slice(start, start + step)
        allowed = rules.pairs(table.kinds, block)
        for o1, o2 in rules.pair_operators():
            left, right = terms[o1][block, None], terms[o2]
            result = left * right if rules.is_product(o1, o2) else left + right
            n1, n2 = np.nonzero(allowed & _is_answer(result, answer, rules))
            yield _rows(n1 + start, o1, n2, o2)


def _is_answer(result: np.ndarray, answer: float, rules: EquationRules) -> np.ndarray:
    return np.abs(result - answer) <= 0.5 * 10.0**-rules.digits


def _term(values: np.ndarray, operators: Any) -> np.ndarray:
    """o(n). Divides by 100 for the nearest float64; multiplying by 0.01 may miss it."""
    values = np.where(operators == MINUS, -values, values)
    return np.where(operators == PERCENT, values / 100, values)


def _reading_order(equations: np.ndarray, table: NumberTable) -> np.ndarray:
    n1, o1, n2, o2 = equations.T
    num_special = np.count_nonzero(table.kinds == SPECIAL)
    size = len(table.values)
    rank = np.append((np.arange(size) - num_special) % max(1, size), -1)
    r1, r2 = rank[n1], rank[n2]
    swapped = (n2 >= 0) & (r2 < r1)
    return np.lexsort(np.where(swapped, [o1, o2, r1, r2], [o2, o1, r2, r1]))


def _first_per_value(equations: np.ndarray, table: NumberTable) -> np.ndarray:
    """Indices of the first equation with each pair of values and operators."""
    n1, o1, n2, o2 = equations.T
    values = np.append(table.values, 0.0)
    keys = np.stack([values[n1], o1, values[n2], o2], axis=-1)
    swapped = (keys[:, 0] > keys[:, 2]) | ((keys[:, 0] == keys[:, 2]) & (o1 > o2))
    keys[swapped] = keys[swapped][:, [2, 3, 0, 1]]
    return np.sort(np.unique(keys, axis=0, return_index=True)[1])


def _rows(n1: np.ndarray, o1: Any, n2: Any, o2: Any) -> np.ndarray:
    return np.stack(np.broadcast_arrays(n1, o1, n2, o2), axis=1).astype(np.int32)
