"""Equations over the numbers of a text: Z, f and the search for numbers."""

from hardem_jax.equations.solutions.enumeration import (
    enumerate_equations,
    execute_equation,
    number_table,
)
from hardem_jax.equations.solutions.numbers import NumberConfig, find_numbers
from hardem_jax.equations.solutions.rules import EquationRules

__all__ = [
    "EquationRules",
    "NumberConfig",
    "enumerate_equations",
    "execute_equation",
    "find_numbers",
    "number_table",
]
