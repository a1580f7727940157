"""Planted word problems: the question and its answer are known, the rationale is not.

A problem has three different numbers, two verbs and the order in which they apply::

    5 finds 4 then times 3       5 + 4 = 2 * 3 = 6
    5 finds 4 before times 3     5 * 3 = 1 + 4 = 5

Arithmetic is modulo 7, so that every number is one token. Each verb always means the same
operator. A rationale is valid if its arithmetic is correct and it uses every number of the problem
once; every problem has 54 valid ones (6 orders of the numbers, 3 operators in each of 2 steps).
Those that end in the answer are correct, and make up Z: the true one, those that compute the same
whatever the numbers are, as with 4 + 5, and spurious ones.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array

MODULUS = 7
OPERATORS = ("+", "-", "*")
VERBS = (
    ("finds", "gets"),
    ("loses", "sells"),
    ("times", "fold"),
)
_DIGITS = tuple(map(str, range(MODULUS)))
_ORDERS = ("then", "before")
VOCABULARY = (*_DIGITS, *OPERATORS, "=", *_ORDERS, *itertools.chain(*VERBS))
_ID = {word: number for number, word in enumerate(VOCABULARY)}
PLUS, EQUALS = _ID["+"], _ID["="]
#: Tokens of a question and of a rationale, valid or not.
PROMPT_TOKENS, RATIONALE_TOKENS = 6, 9

#: ``[54, 5]``: of every valid rationale the place of its first number in the question, its first
#: operator, the place of the second number, the second operator, the place of the last number.
PROGRAMS = np.array(
    [
        (a, first, b, second, c)
        for a, b, c in itertools.permutations(range(3))
        for first, second in itertools.product(range(len(OPERATORS)), repeat=2)
    ]
)


class Problems(NamedTuple):
    """N problems, of NumPy or JAX arrays."""

    prompts: np.ndarray
    """``[N, 6]`` int32 tokens of the questions."""
    numbers: np.ndarray
    """``[N, 3]`` int32, different numbers from 1 to 6."""
    answers: np.ndarray
    """``[N]`` int32 from 0 to 6."""
    programs: np.ndarray
    """``[N]`` int32: the true rationale, a row of `PROGRAMS`."""

    def take(self, rows) -> Problems:
        """Some of the problems."""
        return Problems(*(column[rows] for column in self))


def make_problems(count: int, *, seed: int) -> Problems:
    """Draws problems.

    Example:
        >>> problems = make_problems(2, seed=1)
        >>> for n in range(2):
        ...     print(text(problems.prompts[n]), "|", text(true_rationales(problems)[n]))
        5 times 1 before gets 3 | 5 + 3 = 1 * 1 = 1
        3 sells 4 then sells 6 | 3 - 4 = 6 - 6 = 0
    """
    rng = np.random.default_rng(seed)
    numbers = np.array([rng.permutation(np.arange(1, MODULUS))[:3] for _ in range(count)])
    operators = rng.integers(len(OPERATORS), size=(count, 2))
    reverse = rng.integers(2, size=count)
    words = rng.integers(len(VERBS[0]), size=(count, 2))
    verbs = np.array([[_ID[verb] for verb in row] for row in VERBS])[operators, words]
    order = np.array([_ID[word] for word in _ORDERS])[reverse]
    n, v = numbers.T, verbs.T
    prompts = np.stack([n[0], v[0], n[1], order, v[1], n[2]], axis=1)
    first, second = operators.T
    programs = np.where(
        reverse,
        _number_of(0 * first, second, 0 * first + 2, first, 0 * first + 1),
        _number_of(0 * first, first, 0 * first + 1, second, 0 * first + 2),
    )
    values = run_programs(numbers)[np.arange(count), programs]
    return Problems(*(x.astype(np.int32) for x in (prompts, numbers, values, programs)))


def _number_of(*program: np.ndarray) -> np.ndarray:
    """The row of `PROGRAMS` that is a program."""
    return np.argmax((PROGRAMS == np.stack(program, axis=-1)[..., None, :]).all(-1), axis=-1)


def _apply(operator, a, b):
    """The result of a step; operators are numbered as in `OPERATORS`."""
    results = a + b, a - b, a * b
    xp = jnp if isinstance(operator, jax.Array) else np
    return xp.choose(operator, results, mode="clip") % MODULUS


def rationales(numbers: np.ndarray) -> np.ndarray:
    """``[N, 54, 9]`` int32 tokens of all valid rationales of problems with these numbers."""
    places, operators = PROGRAMS[:, [0, 2, 4]], PROGRAMS[:, [1, 3]]
    a, b, c = np.moveaxis(numbers[:, places], -1, 0)
    first, second = (np.broadcast_to(x, a.shape) for x in operators.T)
    middle = _apply(first, a, b)
    end = _apply(second, middle, c)
    equals = np.full_like(a, EQUALS)
    columns = a, PLUS + first, b, equals, middle, PLUS + second, c, equals, end
    return np.stack(columns, axis=-1).astype(np.int32)


def run_programs(numbers: np.ndarray) -> np.ndarray:
    """``[N, 54]``: the value of each program on these numbers.

    Example:
        >>> sorted(set(run_programs(np.array([[2, 3, 4]]))[0].tolist()))
        [0, 1, 2, 3, 4, 5, 6]
    """
    return rationales(numbers)[..., 8]


def true_rationales(problems: Problems) -> np.ndarray:
    """``[N, 9]`` tokens."""
    return rationales(problems.numbers)[np.arange(len(problems.programs)), problems.programs]


def is_true(problems: Problems, programs: np.ndarray) -> np.ndarray:
    """Whether programs compute what the true ones do, whatever the numbers are.

    Args:
        problems: N of them.
        programs: ``[N, ...]`` rows of `PROGRAMS`, -1 for none.
    """
    true = problems.programs.reshape(-1, *[1] * (programs.ndim - 1))
    return (programs >= 0) & (_MEANING[programs] == _MEANING[true])


def _meanings() -> np.ndarray:
    """``[54]``: equal for programs that have equal values on all numbers."""
    numbers = np.array(list(itertools.permutations(range(1, MODULUS), 3)))
    return np.unique(run_programs(numbers), axis=1, return_inverse=True)[1].reshape(-1)


_MEANING = _meanings()


def execute(tokens: Array, numbers: Array) -> Array:
    """The executor f(z): the value of rationales, or -1 for those that are not valid.

    Args:
        tokens: ``[..., 9]`` int.
        numbers: ``[..., 3]`` of their problems.

    Example:
        >>> valid, wrong = (jnp.array(ids(line)) for line in
        ...     ("5 + 4 = 2 * 3 = 6", "5 + 4 = 2 * 3 = 5"))
        >>> print(execute(valid, jnp.array([4, 3, 5])), execute(wrong, jnp.array([4, 3, 5])))
        6 -1
    """
    a, first, b, equals, middle, second, c, same, end = jnp.moveaxis(tokens, -1, 0)
    first, second = first - PLUS, second - PLUS
    used = jnp.sort(jnp.stack([a, b, c], axis=-1), axis=-1)
    valid = (used == jnp.sort(numbers, axis=-1)).all(-1)
    for operator in first, second:
        valid &= (operator >= 0) & (operator < len(OPERATORS))
    valid &= (equals == EQUALS) & (same == EQUALS)
    valid &= (middle == _apply(first, a, b)) & (end == _apply(second, middle, c))
    return jnp.where(valid, end, -1)


def program_ids(tokens: Array, numbers: Array) -> Array:
    """Which rows of `PROGRAMS` rationales are, -1 for those that are not valid."""
    is_place = tokens[..., jnp.array([0, 2, 6])][..., None] == numbers[..., None, :]
    a, b, c = jnp.moveaxis(jnp.argmax(is_place, axis=-1), -1, 0)
    program = jnp.stack([a, tokens[..., 1] - PLUS, b, tokens[..., 5] - PLUS, c], axis=-1)
    same = (program[..., None, :] == jnp.asarray(PROGRAMS)[(None,) * (program.ndim - 1)]).all(-1)
    return jnp.where(execute(tokens, numbers) >= 0, jnp.argmax(same, axis=-1), -1)


def ids(line: str) -> list[int]:
    """Tokens of words."""
    return [_ID[word] for word in line.split()]


def text(tokens: np.ndarray) -> str:
    """Words of tokens."""
    return " ".join(VOCABULARY[token] for token in tokens)
