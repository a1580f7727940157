"""Z_tot of discrete reasoning: which combinations of numbers and operators are equations.

The codes below for kinds of numbers (Min et al., 2019, section 4.2: N_D, N_Q and S) and operators
(their appendix A) are used in number tables, tags and equations.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np

from hardem_jax.errors import require

SPECIAL, PASSAGE, QUESTION = 0, 1, 2
NONE, PLUS, MINUS, PERCENT, COUNT = 0, 1, 2, 3, 4
# S in the paper's appendix A.
SPECIAL_NUMBERS = (1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 12.0, 100.0, 1000.0)

_OPERATORS = (PLUS, MINUS, PERCENT)

Percent = Literal["off", "term", "factor"]


@dataclasses.dataclass(frozen=True)
class EquationRules:
    """Z_tot: which combinations of numbers and operators are equations.

    The paper does not say which combinations it allows. The default comes closest to its 93 % of
    questions with a solution and mean |Z| of 8.2: on 4,912 numeric questions of DROP it gives
    93.0 % and 9.1. Percentages give 93.7 % and 10.3 as terms, 93.3 % and 11.0 as factors, so
    they are off; "term" is the appendix's formula and the closer of the two.

    Attributes:
        special_numbers: equations may use numbers of S.
        special_pairs: an equation may combine two special numbers.
        lone_special: a single special number is an equation.
        lone_text: a single number of the passage or question is an equation.
        question_numbers: equations may use numbers of the question.
        percent: "off"; "term", where PERCENT(n) is a term 0.01 n of the sum (the paper's
            appendix A); or "factor", where it multiplies the other number.
        negative: also allow two MINUS, a lone MINUS, and MINUS with a factor. Their values are
            never above 0, but they are in the paper's Z_tot.
        max_count: counts 0, 1, ..., max_count are equations; None for no counts.
        distinct_values: of the equations that differ only in which mention of a value they use,
            keep the first. This thins out Z, not Z_tot.
        digits: number of decimals to which f(z) and y must agree.
    """

    special_numbers: bool = True
    special_pairs: bool = False
    lone_special: bool = False
    lone_text: bool = True
    question_numbers: bool = True
    percent: Percent = "off"
    negative: bool = False
    max_count: int | None = None
    distinct_values: bool = False
    digits: int = 5

    def __post_init__(self) -> None:
        require(self, "max_count", at_least=0)
        require(self, "digits", at_least=0, at_most=15)

    @property
    def special(self) -> tuple[float, ...]:
        """S, the numbers that equations may use whatever the text; empty without them."""
        return SPECIAL_NUMBERS if self.special_numbers else ()

    def table(self, kinds: Any) -> Any:
        """Returns the mask of the pairs in Z_tot.

        Args:
            kinds: ``[..., N]`` integers, a NumPy or JAX array; slots of any other kind, such
                as -1 for padding, are in no pair.

        Returns:
            ``[..., N, 3, N, 3]`` bool of the same library, indexed by
            ``n1, o1 - 1, n2, o2 - 1``.

        Example:
            >>> allowed = EquationRules().table(np.array([SPECIAL, SPECIAL, PASSAGE]))
            >>> [(n1, o1 + 1, n2, o2 + 1) for n1, o1, n2, o2 in np.argwhere(allowed).tolist()]
            ... # doctest: +NORMALIZE_WHITESPACE
            [(0, 1, 2, 1), (0, 1, 2, 2), (0, 2, 2, 1),
             (1, 1, 2, 1), (1, 1, 2, 2), (1, 2, 2, 1)]
        """
        pairs = self.pairs(kinds)
        operators = np.zeros((1,) * (kinds.ndim - 1) + (1, 3, 1, 3), bool)
        for first, second in self.pair_operators():
            operators[..., first - 1, :, second - 1] = True
        return pairs[..., :, None, :, None] & operators

    def lone(self, kinds: Any) -> Any:
        """Returns the mask of the lone numbers in Z_tot: as `table`, but ``[..., N, 3]``.

        Example:
            >>> EquationRules().lone(np.array([SPECIAL, PASSAGE])).tolist()
            [[False, False, False], [True, False, False]]
        """
        slots = self.lone_slots(kinds)
        operators = np.zeros((1,) * kinds.ndim + (3,), bool)
        operators[..., [operator - 1 for operator in self.lone_operators()]] = True
        return slots[..., None] & operators

    def pairs(self, kinds: Any, rows: slice = slice(None)) -> Any:
        """`table` without the operators: ``[..., N, N]``, or only its ``rows`` n1.

        Example:
            >>> EquationRules().pairs(np.array([SPECIAL, PASSAGE, QUESTION]))[0].tolist()
            [False, True, True]
        """
        text, special = self._text(kinds), self._special(kinds)
        either = text | special
        pairs = either[..., rows, None] & either[..., None, :]
        if not self.special_pairs:
            pairs = pairs & (text[..., rows, None] | text[..., None, :])
        slots = np.arange(kinds.shape[-1])
        ordered = slots[rows, None] < slots
        return pairs & ordered.reshape((1,) * (kinds.ndim - 1) + ordered.shape)

    def lone_slots(self, kinds: Any) -> Any:
        """`lone` without the operators: ``[..., N]``.

        Example:
            >>> EquationRules().lone_slots(np.array([SPECIAL, PASSAGE, QUESTION])).tolist()
            [False, True, True]
        """
        return (self._text(kinds) & self.lone_text) | (self._special(kinds) & self.lone_special)

    def is_product(self, o1: Any, o2: Any) -> Any:
        """Whether a pair with these operators multiplies, elementwise for arrays.

        Example:
            >>> EquationRules(percent="factor").is_product(PLUS, np.array([PERCENT, MINUS, NONE]))
            array([ True, False, False])
        """
        either = (np.equal(o1, PERCENT) | np.equal(o2, PERCENT)) & np.not_equal(o2, NONE)
        return either & (self.percent == "factor")

    def _text(self, kinds: Any) -> Any:
        return (kinds == PASSAGE) | ((kinds == QUESTION) & self.question_numbers)

    def _special(self, kinds: Any) -> Any:
        return (kinds == SPECIAL) & self.special_numbers

    def pair_operators(self) -> list[tuple[int, int]]:
        """The operators (o1, o2) allowed for every pair in `pairs`.

        Example:
            >>> EquationRules().pair_operators() == [(PLUS, PLUS), (PLUS, MINUS), (MINUS, PLUS)]
            True
        """
        every = ((o1, o2) for o1 in _OPERATORS for o2 in _OPERATORS)
        return [operators for operators in every if self._is_allowed(operators)]

    def _is_allowed(self, operators: tuple[int, int]) -> bool:
        percents, minuses = operators.count(PERCENT), operators.count(MINUS)
        if self.percent == "factor" and percents:
            return percents == 1 and (self.negative or not minuses)
        return (self.percent != "off" or not percents) and (self.negative or minuses < 2)

    def lone_operators(self) -> list[int]:
        """The operators o1 allowed for every slot in `lone_slots`.

        Example:
            >>> EquationRules(negative=True).lone_operators() == [PLUS, MINUS]
            True
        """
        # With "factor", a lone percentage has nothing to multiply.
        return [PLUS] + [MINUS] * self.negative + [PERCENT] * (self.percent == "term")
