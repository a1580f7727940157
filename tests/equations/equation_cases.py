"""Equations, and distributions over them as compiled functions."""

import itertools

import jax
import numpy as np

from hardem_jax.equations.distribution import AbilityDistribution, TagDistribution
from hardem_jax.equations.solutions.rules import MINUS, NONE, PERCENT, PLUS

# One program for a method and a shape, not one for each operation in it.
tag_distribution = jax.jit(TagDistribution.from_logits)
ability_distribution = jax.jit(AbilityDistribution.from_logits)
conditioned = jax.jit(lambda found, **rules: found.over_equations(**rules))
log_prob_of = jax.jit(lambda found, rows: found.log_prob(rows))
top_of = jax.jit(lambda found, k, **tables: found.top(k, **tables), static_argnums=1)
mode_of = jax.jit(lambda found, **tables: found.mode(**tables))

OPERATORS = (PLUS, MINUS, PERCENT)
NOTHING = (-1, NONE, -1, NONE)


def all_equations(num_slots):
    """Every row with one or two operands, smallest row first: the order of ties."""
    operands = list(itertools.product(range(num_slots), OPERATORS))
    lone = [(*operand, -1, NONE) for operand in operands]
    return sorted(lone + [a + b for a, b in itertools.product(operands, operands) if a[0] < b[0]])


def allowed(row, pairs, lone):
    n1, o1, n2, o2 = row
    return bool(lone[n1, o1 - 1] if n2 < 0 else pairs[n1, o1 - 1, n2, o2 - 1])


def gain(tags, row):
    """What the operands of a row add to the tagging without any, in float32 like the code."""
    gains = tags - tags[..., :1]
    n1, o1, n2, o2 = row
    return gains[n1, o1] if n2 < 0 else gains[n1, o1] + gains[n2, o2]


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
