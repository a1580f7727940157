"""Sums and averages as SQLite computes them, to the last bit.

SQLite adds from the first row to the last. Releases before 3.43 add float64 naively; later ones
compensate for rounding (Kahan, Babuska, Neumaier), so that last bits may differ, for example in
0.1 + 0.2 + 0.3. `sum_like_sqlite` follows the SQLite of this Python, so an answer computed by
another release may differ in the last bit. Sums of integers are the same in all releases.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence

from hardem_jax.queries.solutions.values import ExecutionError

COMPENSATED_SUMS = sqlite3.sqlite_version_info >= (3, 43)

_INT64 = 2**63
# Integers up to here have exact float64 arithmetic; SQLite splits larger ones.
_EXACT = 2**52


def sum_like_sqlite(
    addends: Sequence[int | float], average: bool = False, compensated: bool = COMPENSATED_SUMS
) -> int | float:
    """SQLite's sum or average of integers and float64, in the order given; NaN is NULL there.

    Raises:
        ExecutionError: a sum of integers exceeds 64 bits. Since SQLite 3.43, any float among the
            addends prevents this error; before, the float must come before the overflow.
    """
    leading, integer, overflow = _leading_integers(addends)
    if overflow and compensated:  # a float anywhere turns the sum into a float
        overflow = all(isinstance(addend, int) for addend in addends)
    if overflow and not average:
        raise ExecutionError("expected a 64-bit sum, found a larger one")
    if leading == len(addends) and not average:
        return integer
    if compensated:
        total = _compensated(integer, addends[leading:])
    else:
        total = _plain(addends)
    return total / len(addends) if average else total


def _leading_integers(addends: Sequence[int | float]) -> tuple[int, int, bool]:
    """The number of leading integers, their sum, and whether the next one would overflow it."""
    integer = 0
    for count, addend in enumerate(addends):
        if not isinstance(addend, int):
            return count, integer, False
        if not -_INT64 <= integer + addend < _INT64:
            return count, integer, True
        integer += addend
    return len(addends), integer, False


def _plain(addends: Sequence[int | float]) -> float:
    total = 0.0
    for addend in addends:
        total += addend
    return total


def _compensated(integer: int, addends: Sequence[int | float]) -> float:
    total, *low = _parts(integer)
    error = sum(low)
    for addend in addends:
        for part in _parts(addend):
            added = total + part
            larger, smaller = (total, part) if abs(total) > abs(part) else (part, total)
            error += (larger - added) + smaller
            total = added
    return total + error if math.isfinite(error) else total


def _parts(addend: int | float) -> tuple[float, ...]:
    """A float, or the two floats into which SQLite splits an integer too large for float64.

    Avoids `math.fmod`, which would round the integer to float64 first.
    """
    if isinstance(addend, float) or -_EXACT < addend < _EXACT:
        return (float(addend),)
    low = addend % 2**14 if addend > 0 else -(-addend % 2**14)
    return float(addend - low), float(low)
