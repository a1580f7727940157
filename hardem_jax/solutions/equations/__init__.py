"""Equations over the numbers of a text: Z, f and the search for numbers."""

from hardem_jax.solutions.equations.enumeration import (
    enumerate_equations,
    execute_equation,
    number_table,
)
from hardem_jax.solutions.equations.numbers import NumberConfig, find_numbers
from hardem_jax.solutions.equations.rules import EquationRules

__all__ = [
    "EquationRules",
    "NumberConfig",
    "enumerate_equations",
    "execute_equation",
    "find_numbers",
    "number_table",
]
